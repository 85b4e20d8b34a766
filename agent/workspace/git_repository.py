"""Git repositories of the workspace: nothing that one says of itself is executed, or has git leave the workspace."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.workspace.confinement import can_keep, plan_sandbox
from foregate.agent.workspace.git_folder import find_common_folder, find_git_folder, refuse_ways_out
from foregate.agent.workspace.process import ProcessResult, build_environment, run_and_wait, run_program
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late

# "filter.lfs.smudge", "diff.pdf.textconv": programs that git runs when it shows or writes a file.
_DRIVER = compile_late(
    r"(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver)\Z", re.DOTALL
)
_EXTERNAL = "diff.external"
# "core.excludesfile".
_NAMES_A_FILE = compile_late(r"(core\.(excludesfile|attributesfile)|diff\.orderfile|mailmap\.file)\Z")


UNENTERED = "--ignore-submodules=dirty"
"""A nested repository is one entry with the commit it stands on, which is read from its files.

Anything less has git start itself in there, where the filters and monitors run that the nested settings name. `all`
would hide that its commit has moved, also where that is staged.
"""
_READING = ("diff", "for-each-ref", "log", "status")
"""Commands that read objects and files of the working tree; any other reads only the index and settings."""
_CHANGING = ("add", "commit")
_FORM = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_CHANGED = ("diff", *_FORM, UNENTERED)
_STAGED = (*_CHANGED, "--cached")
_NAMES = ("--name-only", "-z")
_RAW = ("--raw", "--no-abbrev", "-z")


class _Changes(NamedTuple):
    """What git lists: what an error calls it, the command, and what it takes for names, for a diff and at its end."""

    said: str
    words: tuple[str, ...]
    names: tuple[str, ...] = _NAMES
    diff: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


_CHANGES = {
    "staged": _Changes("what is staged", _STAGED),
    "changed": _Changes("what has changed", _CHANGED),
    "unsent": _Changes(
        "what no remote has",
        ("log", "--format=", "--cc", *_FORM, "--no-notes"),
        ("--diff-filter=d", *_NAMES),
        ("--patch",),
        ("--not", "--remotes"),
    ),
    "untracked": _Changes("what is untracked", ("ls-files", "-z", "--others", "--exclude-standard"), ()),
}
"""By what is listed: what is staged, changed and not staged, in commits no remote is known to have, neither known to
git nor ignored."""


class GitRepository(Struct, frozen=True):
    """A repository whose working tree and git folder both lie in the workspace. Ids are relative to the workspace."""

    workspace: Workspace
    policy: Policy
    id: str
    git: str

    @property
    def environment(self) -> dict[str, str]:
        """What git sees: nothing of the user's or the system's settings, and where its folders are."""
        base = build_environment(self.policy, self.workspace, "/dev/null", trusted_only=True)
        return {
            "PATH": base["PATH"],
            **ENVIRONMENT,
            "GIT_DIR": str(self.workspace.root / self.git),
            "GIT_WORK_TREE": str(self.workspace.root / self.id),
        }

    def run(self, *words: str, more: Mapping[str, str] | None = None, check: bool = True) -> ProcessResult:
        """Run a git command and wait; raise WorkspaceError with git's own words when it fails and `check` holds."""
        environment = {**self.environment, "GIT_OPTIONAL_LOCKS": "0", **(more or {})}
        size, timeout = self.policy.files.max_hash, self.policy.commands.timeout
        # That lies outside.
        sandbox = None if "GIT_INDEX_FILE" in environment else self._plan_sandbox(words[0])
        ran = run_and_wait(build_argv(words), self.workspace, self.id, environment, timeout, size, False, sandbox)
        return _check_exit(ran, words[0]) if check else ran

    async def run_async(
        self,
        *words: str,
        more: Mapping[str, str] | None = None,
        cap: int = 0,
        settings: Sequence[str] = (),
        check: bool = True,
    ) -> ProcessResult:
        """Run a git command that may change the repository; its output is kept up to the policy's bound.

        `settings` come on top of the neutral ones. Raises WorkspaceError when it fails and `check` holds.
        """
        ran = await run_program(
            build_argv(words, settings),
            self.workspace,
            cwd=self.id,
            environment={**self.environment, **(more or {})},
            timeout=self.policy.commands.timeout,
            cap=cap or self.policy.files.max_output,
            merged=False,
            sandbox=self._plan_sandbox(words[0]),
        )
        return _check_exit(ran, words[0]) if check else ran

    def _plan_sandbox(self, command: str) -> SandboxPlan | None:
        """Return the sandbox of a command that reads or changes the repository, where this machine has one."""
        plan = plan_sandbox(self.workspace, self.policy) if command in (*_READING, *_CHANGING) else None
        kept = [f"{self.workspace.root}/{self.git}/{name}" for name in ("config", "hooks") if can_keep(plan)]
        return {**plan, "writable": True, "kept": kept} if plan is not None and command in _CHANGING else plan

    def check_safe(self, *, as_it_is: bool = False) -> None:
        """Raise WorkspaceError when the repository would have git run programs, or read outside the workspace.

        `as_it_is` is for a command without the options that our own are given.
        """
        for origin, name, value in self._read_settings():
            if _DRIVER.match(name) or (as_it_is and name == _EXTERNAL):
                raise WorkspaceError(
                    f"the repository's setting `{name[:80]}` names a program git would run; remove it to go on"
                )
            if self._is_outside(origin) or (_NAMES_A_FILE.match(name) and self._is_outside(value)):
                raise WorkspaceError(
                    f"the repository's setting `{name[:80]}` has git read outside the workspace; remove it to go on"
                )
        # Git reads from its folder which commit it stands on.
        for name in self.find_nested():
            git = find_git_folder(self.workspace, self.to_workspace_path(name))
            if git:
                find_common_folder(self.workspace, git)

    def _read_settings(self) -> Iterator[tuple[str, str, str]]:
        """Yield the file, the name and the value of each setting of the repository, those it includes as well."""
        listed = self._read("its settings", "config", "--list", "--includes", "--show-origin", "-z")
        parts = listed.decode("utf-8", "replace").split("\0")
        for origin, setting in zip(parts[0::2], parts[1::2], strict=False):
            if origin.startswith("file:"):
                name, _, value = setting.partition("\n")
                yield origin.removeprefix("file:"), name, value

    def _is_outside(self, path: str) -> bool:
        """Whether a path in a setting leads outside the workspace. `~/` is nowhere, for git is given no home."""
        path = path.removeprefix(":(optional)")
        if path in ("", "/dev/null") or path.startswith("~/"):
            return False
        if path.startswith(("~", "%(")):
            return True
        try:
            self.workspace.resolve(path if path.startswith("/") else self.to_workspace_path(path))
        except WorkspaceError:
            return True
        return False

    def find_nested(self, *paths: str) -> list[str]:
        """Return the nested repositories the index has at or beneath `paths`; nothing but the index is read."""
        listed = self._read("what is tracked", "ls-files", "-z", "--stage", "--", *paths).split(b"\0")
        names = [os.fsdecode(entry.partition(b"\t")[2]) for entry in listed if entry.startswith(b"160000 ")]
        return list(dict.fromkeys(names))

    def list_tracked(self, paths: Collection[str]) -> list[str]:
        """Return those of some paths of the workspace that the index has, or has something beneath."""
        inside = [self.to_repository_path(path) for path in paths if is_inside(path, self.id)]
        listed = self._read("what is tracked", "ls-files", "-z", "--", *inside) if inside else b""
        tracked = [self.to_workspace_path(name) for name in os.fsdecode(listed).split("\0") if name]
        return [path for path in paths if any(is_inside(name, path) for name in tracked)]

    def find_nested_above(self, path: str) -> str:
        """Return the nested repository a path of this one lies in, "" for none."""
        parts = path.split("/")
        folders = ["/".join(parts[:end]) for end in range(1, len(parts))]
        return next((folder for folder in folders if self.is_nested(folder)), "")

    def is_nested(self, folder: str) -> bool:
        """Whether a folder of this repository is a repository of its own."""
        return folder != "." and bool(self.workspace.look(f"{self.to_workspace_path(folder)}/.git").kind)

    def read_head(self) -> str:
        """Return the commit HEAD stands on, "" before the first one."""
        ran = self.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False)
        return ran.out.text()[0].strip() if ran.code == 0 else ""

    def compute_state(self, kept: tuple[str, Path] | None = None) -> str:
        """Return the SHA-256 over the branch, the commit and what is staged, or what it is with those `kept`."""
        branch = self.workspace.read(f"{self.git}/HEAD", limit=4096)
        staged = self.read_staged(*kept) if kept else self._read("what is staged", *_STAGED, *_RAW)
        head = kept[0] if kept else self.read_head()
        return strict_json.sha256(b"\0".join([branch, head.encode(), staged]))

    def read_staged(self, head: str, index: Path) -> bytes:
        """Return what the index in the file `index` holds otherwise than the commit `head`, "" for none."""
        tree = head or self.run("hash-object", "-t", "tree", "/dev/null").out.text()[0].strip()
        ran = self.run(*_STAGED, *_RAW, tree, more={"GIT_INDEX_FILE": str(index)})
        return ran.read_whole("what was staged")

    def read_diff(self, what: Literal["staged", "changed", "unsent"], *which: str) -> bytes:
        """Return changes (`unsent`: of the commits `which`) as a diff without context; the repository must be safe."""
        changes = _CHANGES[what]
        return self._read(changes.said, *changes.words, "--unified=0", "--text", *changes.diff, *which, *changes.last)

    def list_paths(self, what: Literal["staged", "changed", "unsent", "untracked"], *which: str) -> list[str]:
        """Return the paths that are changed, by such commits added or changed, relative to the workspace."""
        changes = _CHANGES[what]
        names = self._read(changes.said, *changes.words, *changes.names, *which, *changes.last)
        return [self.to_workspace_path(name) for name in names.decode("utf-8", "replace").split("\0") if name]

    def _read(self, what: str, *words: str) -> bytes:
        return self.run(*words).read_whole(what)

    def to_workspace_path(self, name: str) -> str:
        """Return a path of the repository relative to the workspace."""
        return name if self.id == "." else f"{self.id}/{name}"

    def to_repository_path(self, path: str) -> str:
        """Return a path of the workspace relative to the repository; raise WorkspaceError for one outside it."""
        if self.id == "." or path == self.id:
            return "." if path == self.id else path
        if not path.startswith(f"{self.id}/"):
            raise WorkspaceError(f"`{path[:80]}` is not in the repository `{self.id[:80]}`; name a path in it")
        return path[len(self.id) + 1 :]

    def read_identity(self) -> dict[str, str]:
        """Return author and committer for the environment: the repository's own settings, else a neutral name."""
        found = {}
        for key, neutral in (("NAME", "Foregate"), ("EMAIL", "foregate@localhost")):
            ran = self.run("config", "--get", f"user.{key.lower()}", check=False)
            value = ran.out.text()[0].strip() if ran.code == 0 else ""
            found[key] = re.sub(r"[\x00-\x1f<>]", "", value)[:200] or neutral
        return {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in found.items()}


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is a folder or lies in it."""
    return folder == "." or path == folder or path.startswith(f"{folder}/")


def _check_exit(ran: ProcessResult, what: str) -> ProcessResult:
    """Return `ran`; raise WorkspaceError with git's words when it failed or did not finish."""
    if ran.timed_out:
        raise WorkspaceError(f"git {what} did not finish in time")
    if ran.code != 0:
        said = (ran.err.text()[0] or ran.out.text()[0]).strip()
        raise WorkspaceError(f"git {what} failed: {said[:500] or f'exit code {ran.code}'}")
    return ran


def find_repository(workspace: Workspace, policy: Policy, path: str) -> GitRepository:
    """Return the repository a path of the workspace lies in; raise WorkspaceError for none."""
    if (found := seek_repository(workspace, policy, path)) is None:
        raise WorkspaceError(f"`{path[:80]}` is in no git repository of the workspace; run `git init` there first")
    return found


def seek_repository(workspace: Workspace, policy: Policy, path: str) -> GitRepository | None:
    """Return the repository a path of the workspace lies in, None for none."""
    here = workspace.resolve(path)
    if workspace.look(here).kind != "directory":
        here = here.rpartition("/")[0] or "."
    while True:
        if git := find_git_folder(workspace, here):
            return open_repository(workspace, policy, here, git)
        if here == ".":
            return None
        here = here.rpartition("/")[0] or "."


def open_repository(workspace: Workspace, policy: Policy, root: str, git: str) -> GitRepository:
    """Return the repository; raise WorkspaceError where its git folder leads git outside the workspace."""
    refuse_ways_out(workspace, git)
    return GitRepository(workspace, policy, root, git)


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
