"""`foregate completion`: what a shell completes a command line with, and the scripts that make it ask."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.views.terminal.exit_codes import STATUS, run_async

OFFERED = 50
"""Sessions or plans that are offered at most, the newest."""
# "src/a.py".
_SAFE = compile_late(r"[\w.,:/=@+-]+\Z", re.ASCII)
"""What may be put into a command line without quotes: it means nothing else to any of the shells."""
_MEANING = 60


class Candidate(NamedTuple):
    """A text a word may be completed to, and what it is; without a text, the files that the shell itself knows of."""

    text: str
    meaning: str = ""


FILES = Candidate("")


def complete_words(command: Any, words: Sequence[str]) -> Iterator[Candidate]:
    """Yield what the last of `words` may be completed to; they follow the name of the program."""
    *before, typed = words
    command, given, taken, option, plain = _follow_words(command, before)
    if typed == "=":
        # Bash makes a word of its own of it.
        typed = ""
    if option is not None:
        yield from _keep_fitting(_list_values(option), typed)
        return
    if typed.startswith("-") and not plain:
        flag, joined, value = typed.partition("=")
        if joined and (option := _list_options(command).get(flag)) is not None:
            for candidate in _keep_fitting(_list_values(option), value):
                yield candidate._replace(text=candidate.text and f"{flag}={candidate.text}")
            return
        fresh = {flag: one for flag, one in _list_options(command).items() if one.multiple or one not in given}
        yield from _keep_fitting((Candidate(flag, one.help or "") for flag, one in fresh.items()), typed)
    elif children := getattr(command, "commands", None):
        found = (Candidate(name, child.get_short_help_str(_MEANING)) for name, child in children.items())
        yield from _keep_fitting(found, typed)
    else:
        arguments = [one for one in command.params if one.param_type_name == "argument"]
        places = [one for one in arguments for _ in range(one.nargs if one.nargs > 0 else taken + 1)]
        yield from _keep_fitting(_list_values(places[taken]) if taken < len(places) else (), typed)


def _follow_words(command: Any, words: Iterable[str]) -> tuple[Any, list[Any], int, Any, bool]:
    """Return the command that words lead to, the options given to it, how many arguments, the option whose value comes
    next, and whether no options can follow."""
    given: list[Any] = []
    taken, option, plain = 0, None, False
    for word in words:
        children = getattr(command, "commands", {})
        if option is not None:
            option = option if word == "=" else None
        elif word == "--":
            plain = True
        elif word.startswith("-") and not plain:
            flag, joined, _ = word.partition("=")
            if (found := _list_options(command).get(flag)) is not None:
                given.append(found)
                option = None if joined or found.is_flag else found
        elif word == "help" and word in children:
            # What follows are commands, as without it.
            continue
        elif word in children:
            command, given, taken = children[word], [], 0
        else:
            taken += 1
    return command, given, taken, option, plain


def _list_options(command: Any) -> Mapping[str, Any]:
    options = [one for one in command.get_params(typer.Context(command)) if one.param_type_name == "option"]
    return {flag: one for one in options if not one.hidden for flag in one.opts}


def _keep_fitting(candidates: Iterable[Candidate], typed: str) -> Iterator[Candidate]:
    for candidate in candidates:
        if candidate is FILES or (candidate.text.startswith(typed) and _SAFE.match(candidate.text)):
            yield candidate


def _list_values(parameter: Any) -> Iterator[Candidate]:
    """Yield what can stand for a parameter: by its name where that says it, else by what it is called in the help."""
    name = next((flag for flag in parameter.opts if flag in VALUES), None)
    for kind in (name,) if name else (parameter.metavar or "").strip("[].").split("|"):
        if kind in VALUES:
            yield from VALUES[kind]()
        elif kind.startswith(("FILE", "FOLDER")):
            yield FILES
        elif kind.islower():
            yield Candidate(kind)


def _list_sessions() -> Iterator[Candidate]:
    from foregate.assembly.home import Home, open_home_log
    from foregate.schemas.event_body import UserMessage

    if not Home(Home.path()).events.exists():
        return
    with open_home_log() as log:
        names = [name for name in run_async(log.sessions()) if "." not in name]
        yield from [Candidate("last", "the newest session")] * bool(names)
        for name in names[:OFFERED]:
            first = next(log.events(name, kinds=("user_message",)), None)
            yield Candidate(name, first.body.text if first is not None and isinstance(first.body, UserMessage) else "")


def _list_plans() -> Iterator[Candidate]:
    from foregate.assembly.home import Home, open_home_log
    from foregate.views.terminal.plan_finding import list_log_plans

    if not Home(Home.path()).events.exists():
        return
    with open_home_log() as log:
        found = list_log_plans(log)
        yield from [Candidate("last", "the newest plan")] * bool(found)
        yield from (Candidate(entry.name, entry.state.current_plan.goal) for entry in found[:OFFERED])


def _list_permissions() -> Iterator[Candidate]:
    from foregate.assembly.home import Home

    if (home := Home(Home.path())).root.exists():
        yield from (Candidate(one.id, one.words) for one in home.open_permissions(Path()).list_given())


def _list_policies() -> Iterator[Candidate]:
    from foregate.policy.source.load import SHIPPED

    yield from (Candidate(name, "comes with Foregate") for name in SHIPPED)
    yield FILES


def _list_names(of: Callable[[], Iterable[str]]) -> Callable[[], Iterator[Candidate]]:
    return lambda: map(Candidate, of())


def _get_gates() -> Iterable[str]:
    from foregate.schemas.codes import CODES

    return CODES


def _get_codes() -> Iterable[str]:
    from foregate.schemas.codes import CODES

    return dict.fromkeys(code for codes in CODES.values() for code in codes)


VALUES: Mapping[str, Callable[[], Iterator[Candidate]]] = {
    "SESSION": _list_sessions,
    "PLAN": _list_plans,
    "PERMISSION": _list_permissions,
    "--policy": _list_policies,
    "--model": _list_names(lambda: ("rehearsal",)),
    "--dialect": _list_names(lambda: ("native", "json", "action_tags", "service_tags", "auto")),
    "--failed": _list_names(lambda: ("go-on", "retry", "rollback", "stop")),
    "--gate": _list_names(_get_gates),
    "--code": _list_names(_get_codes),
    "--state": _list_names(lambda: ("open", *STATUS, "ended", "erased")),
    "--severity": _list_names(lambda: ("info", "warning", "error")),
}
"""What lists the values of a parameter, by an option's name or by what a value is called in the help."""


def complete(
    context: typer.Context,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell whose script is printed.")],
    words: Annotated[
        list[str] | None, typer.Argument(metavar="WORD", help="For the script: the words typed so far.")
    ] = None,
) -> None:
    """Print the script that teaches a shell to complete `foregate`; the reference says where it belongs."""
    from foregate.views.terminal.layout import make_visible, shorten_text

    if shell not in SCRIPTS:
        raise UsageError(f"there is no completion for `{shell[:40]}`; there is for {', '.join(SCRIPTS)}")
    if not words:
        typer.echo(SCRIPTS[shell], nl=False)
        return
    # A shell that asks for candidates has no place for a sentence.
    with suppress(ForegateError, OSError):
        for text, meaning in complete_words(context.find_root().command, words):
            typer.echo(f"{text}\t{shorten_text(make_visible(meaning), _MEANING)}")


_BASH = """\
# Completes `foregate` in bash. In ~/.bashrc: eval "$(foregate completion bash)"
_foregate() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        [[ $line == $'\\t'* ]] || COMPREPLY+=("${line%%$'\\t'*}")
    done < <(command foregate completion bash "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null)
}
complete -o default -F _foregate foregate
"""
_ZSH = """\
#compdef foregate
# Completes `foregate` in zsh. In ~/.zshrc, after compinit: eval "$(foregate completion zsh)"
_foregate() {
    local line files
    local -a found
    for line in "${(@f)$(command foregate completion zsh "${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)}"; do
        if [[ $line == $'\\t'* ]]; then
            files=1
        elif [[ -n $line ]]; then
            found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
        fi
    done
    (( $#found )) && _describe -V foregate found
    [[ -n $files ]] && _files
}
if [[ $funcstack[1] == _foregate ]]; then
    _foregate "$@"
else
    compdef _foregate foregate
fi
"""
_FISH = """\
# Completes `foregate` in fish: foregate completion fish > ~/.config/fish/completions/foregate.fish
function __foregate_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    for line in (command foregate completion fish $before[2..-1] "$typed" 2>/dev/null </dev/null)
        if string match -q \\t'*' -- $line
            __fish_complete_path "$typed"
        else
            echo $line
        end
    end
end
complete -c foregate -f -k -a '(__foregate_complete)'
"""
SCRIPTS: Mapping[str, str] = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
"""The script of each shell. Each asks `foregate` itself, found by PATH: nothing that lies in the current folder runs
because somebody pressed Tab."""
