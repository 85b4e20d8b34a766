"""The options by which sessions and decisions are selected, said once for every command that selects."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, get_args

from foregate.cli.options import take
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import STATUS

if TYPE_CHECKING:
    from datetime import datetime

    from foregate.telemetry.queries.filters import DecisionFilter, SessionFilter

Selection = Mapping[str, Any]
"""What was given for the options that select, by the field of the filter."""

Names = list[str] | None
_WHEN = "a date, time or age (`7d`, `12h`)"
_TIMES: dict[str, Any] = {
    "since": Annotated[str | None, take("--since", f"Since {_WHEN}.", "WHEN")],
    "until": Annotated[str | None, take("--until", f"Until {_WHEN}; of a date, its end.", "WHEN")],
}
_PLACES: dict[str, Any] = {
    "workspace": Annotated[Names, take("--workspace", "Only in this folder; `*` fits anything.", "PATTERN")],
    "model": Annotated[Names, take("--model", "Only with this model; `*` fits anything.", "PATTERN")],
    "who": Annotated[Names, take("--who", "Only run by this person; `*` fits anything.", "PATTERN")],
}
_ONLY = "Only where these words stand; may be repeated, then all must."
_OF_RULING: dict[str, Any] = {
    "gate": Annotated[Names, take("--gate", "Only this gate; may be repeated.", "GATE")],
    "code": Annotated[Names, take("--code", "Only this code; may be repeated.", "CODE")],
    "standing": Annotated[Names, take("--verdict", "Only what the gate said.", "allow|ask|hold|deny")],
    "severity": Annotated[Names, take("--severity", "Only of this severity; may be repeated.", "info|warning|error")],
    "tool": Annotated[Names, take("--tool", "Only of this tool; `*` fits anything.", "PATTERN")],
    "target": Annotated[Names, take("--target", "Only on this target; `*` fits anything.", "PATTERN")],
    "rule": Annotated[Names, take("--rule", "Only by this rule; `*` fits anything.", "PATTERN")],
    "key": Annotated[Names, take("--key", "Only where this policy key decided; `*` fits anything.", "PATTERN")],
    "policy": Annotated[Names, take("--policy-hash", "Only under the policy whose hash begins so.", "HASH")],
    "approver": Annotated[Names, take("--approver", "Only answered by this person; `*` fits anything.", "PATTERN")],
    "origin": Annotated[
        Names, take("--origin", "Only where this one named the target first.", "user|workspace|external|nobody")
    ],
    "risk": Annotated[
        str | None, take("--risk", "Only of this risk, in thousandths: `400..900`, `700..`.", "LOW..HIGH")
    ],
}
OF_SESSIONS: dict[str, Any] = {
    "state": Annotated[Names, take("--state", "Only in this state, as the list shows it; may be repeated.", "STATE")],
    **_TIMES,
    **_PLACES,
    "text": Annotated[Names, take("--text", _ONLY, "WORDS")],
    "waiting": Annotated[bool, take("--waiting", "Only what waits for a person.")],
    **_OF_RULING,
}
"""The options that select sessions, by the field of the filter: those of a ruling, sessions that hold one."""
OF_ONE: dict[str, Any] = {**_OF_RULING, **_TIMES, "text": Annotated[Names, take("--text", _ONLY, "WORDS")]}
"""The options that select decisions of one session."""
OF_DECISIONS: dict[str, Any] = {**OF_ONE, **_PLACES}
"""The options that select decisions of any session."""
_ORIGINS = ("user", "workspace", "external", "nobody")


def takes_selection(options: Mapping[str, Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what lets a command take these options as one mapping, its parameter `selection`."""

    def wrap_command(command: Callable[..., None]) -> Callable[..., None]:
        del command.__annotations__["selection"]
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [parameter for parameter in own.values() if parameter.name != "selection"]
        for name, kind in options.items():
            default = False if get_args(kind)[0] is bool else None
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))

        @wraps(command)
        def run_command(**given: Any) -> None:
            command(selection={name: given.pop(name) for name in options}, **given)

        run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run_command

    return wrap_command


def select_sessions(selection: Selection, sessions: Sequence[str] = ()) -> SessionFilter:
    """Return the filter that options make; raise UsageError for one that names nothing there is."""
    from foregate.telemetry.queries.filters import SessionFilter

    _check_word("state", selection.get("state") or (), ("open", *STATUS, "ended", "erased"))
    of_ruling = {name: value for name, value in selection.items() if value and name in _OF_RULING}
    of_session = {name: value for name, value in selection.items() if name not in _OF_RULING}
    times = {name: selection.get(name) for name in _TIMES}
    decisions = select_decisions({**of_ruling, **times}, everything=True) if of_ruling else None
    return SessionFilter(**_read_selection(of_session), sessions=sessions, decisions=decisions)


def select_decisions(selection: Selection, sessions: Sequence[str] = (), *, everything: bool = False) -> DecisionFilter:
    """Return the filter that options make; raise UsageError for one that names nothing there is.

    What only passed is among the rest where `everything` says so, or a code, a verdict or a severity asks for it.
    """
    from foregate.telemetry.queries.decisions import check_names
    from foregate.telemetry.queries.filters import DecisionFilter

    checked = {what: selection.get(what) or () for what in ("gate", "code", "severity", "standing")}
    check_names(**checked)
    _check_word("origin", selection.get("origin") or (), _ORIGINS)
    asked_for = bool(checked["code"]) or "allow" in checked["standing"] or "info" in checked["severity"]
    return DecisionFilter(**_read_selection(selection), sessions=sessions, passed=everything or asked_for)


def _read_selection(selection: Selection) -> dict[str, Any]:
    """Return the fields of a filter that options fill."""
    found = {name: value for name, value in selection.items() if value}
    for name, read in (("since", _read_since), ("until", _read_until), ("risk", parse_range)):
        if selection.get(name) is not None:
            found[name] = read(selection[name])
    return found


def parse_range(text: str) -> tuple[int, int]:
    """Return the least and the most that `LOW..HIGH` names; either may be left out.

    >>> parse_range("400..900"), parse_range("700.."), parse_range("685")
    ((400, 900), (700, 1000), (685, 685))
    """
    if found := re.fullmatch(r"([0-9]{0,4})(\.\.)?([0-9]{0,4})", text.strip()):
        low, dots, high = found.groups()
        if dots and (low or high):
            return int(low or 0), int(high or 1000)
        if low and not dots and not high:
            return int(low), int(low)
    raise UsageError(f"`{text[:60]}` is no range; write thousandths such as 400..900, 700.. or ..300")


def _read_since(text: str) -> datetime:
    from foregate.cli.trajectories import parse_moment

    return parse_moment(text)


def _read_until(text: str) -> datetime:
    from datetime import timedelta

    from foregate.cli.trajectories import parse_moment

    end = parse_moment(text)
    is_day = re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text)
    return end + timedelta(days=1, milliseconds=-1) if is_day else end


def _check_word(what: str, wanted: Iterable[str], known: Sequence[str]) -> None:
    for word in wanted:
        if word not in known:
            raise UsageError(f"there is no {what} `{word[:60]}`; there are {', '.join(known)}")
