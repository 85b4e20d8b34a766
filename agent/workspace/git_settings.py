"""What git is told so that nothing a repository says of itself is executed: settings, and variables."""

from __future__ import annotations

from collections.abc import Sequence

_SETTINGS = """
    core.fsmonitor=false core.hooksPath=/dev/null core.editor=true core.pager=cat core.sshCommand=false
    core.askPass=false core.untrackedCache=false core.quotePath=false credential.helper=
    diff.external= diff.ignoreSubmodules=dirty diff.submodule=short status.submoduleSummary=false
    submodule.recurse=false commit.gpgSign=false commit.verbose=false commit.template= tag.gpgSign=false
    gpg.program=false log.showSignature=false log.mailmap=false protocol.allow=never gc.auto=0
    maintenance.auto=false advice.detachedHead=false color.ui=false
"""
_VARIABLES = """
    GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
    GIT_TERMINAL_PROMPT=0 GIT_PAGER=cat GIT_EDITOR=true GIT_ASKPASS=false GIT_SSH_COMMAND=false
    GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 GIT_LITERAL_PATHSPECS=1
    XDG_CONFIG_HOME=/dev/null HOME=/dev/null LC_ALL=C.UTF-8 TERM=dumb
"""
ENVIRONMENT = dict(variable.split("=", 1) for variable in _VARIABLES.split())
"""What git sees of its variables when Foregate runs a command of its own."""
_ONLY_OURS = ("GIT_LITERAL_PATHSPECS", "HOME", "LC_ALL", "TERM")
"""Variables that belong to our own commands, and would change what another one means."""


def build_argv(words: Sequence[str], settings: Sequence[str] = ()) -> list[str]:
    """Return the argument vector of a git command with everything a repository could set to run programs set back."""
    neutral = [part for setting in (*_SETTINGS.split(), *settings) for part in ("-c", setting)]
    return ["git", "--no-pager", "--literal-pathspecs", *neutral, *words]


def build_variables() -> dict[str, str]:
    """Return the variables that tell the same to a git command of somebody else, wherever it is started."""
    # without `--no-ext-diff` an empty name of a program fails; `check_safe` refuses any
    settings = [setting for setting in _SETTINGS.split() if setting != "diff.external="] + ["safe.directory=*"]
    variables = {name: value for name, value in ENVIRONMENT.items() if name not in _ONLY_OURS}
    for number, setting in enumerate(settings):
        key, _, value = setting.partition("=")
        variables |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return {**variables, "GIT_CONFIG_COUNT": str(len(settings)), "GIT_OPTIONAL_LOCKS": "0"}
