"""What playing sessions again came to, as a table of counts then and now."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from msgspec import to_builtins

from foregate.agent.rehearsing.counts import SessionCounts
from foregate.agent.rehearsing.rehearse import Rehearsal
from foregate.audit.rehearsing import RehearsalTally
from foregate.cli.terminal.layout import make_visible, shorten_text
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__

SHOWN = 40
"""Sessions that are named one by one."""
_WIDTH = 78
_COLUMNS = ("prompts", "planner", "critic", "held", "requests")
_NAME = 24
_WHO = {
    "planner": "a plan of the planner's",
    "critic": "the critic's yes",
    "person": "a person's answer",
    "model": "that the model says the same, whatever it is told",
}


def format_rehearsals(played: Iterable[Rehearsal], tally: RehearsalTally, file: str) -> Iterator[str]:
    """Yield the table of the sessions that differ or were stopped, and what all came to."""
    notable = (one for one in played if one.stopped or one.now != one.then or one.assumed)
    yield _format_row("session", _COLUMNS)
    for one in islice(notable, SHOWN):
        yield _format_counts(shorten_text(one.session, _NAME), one.then, one.now)
        if one.stopped:
            yield shorten_text(f"  stopped before event {one.at}: {one.stopped}", _WIDTH)
    if left := sum(1 for _ in notable):
        yield f"... and {left} more; --json lists them all"
    yield ""
    if tally.whole:
        yield _format_counts(f"played to the end: {tally.whole}", tally.then, tally.now)
    if tally.stopped:
        yield _format_counts(f"stopped before: {tally.stopped}", tally.then_stopped, tally.now_stopped)
    yield from _format_remarks(tally, make_visible(file))


def _format_remarks(tally: RehearsalTally, file: str) -> Iterator[str]:
    if not tally.whole + tally.stopped:
        yield "There is no session to play again, so nothing is said of this policy."
        return
    yield shorten_text(f"Then and now under {file}. Nothing ran, and nobody was asked.", _WIDTH)
    if tally.stopped:
        yield "Of a session that was stopped, both counts end where it was."
    if repeats := tally.assumed["repeats"]:
        yield f"{repeats} calls are not held now; their repeats are left out, and what these came to is used."
    for who, what in _WHO.items():
        if often := tally.assumed[who]:
            yield f"Assumed {often} times: {what}. The counts are exact but for that."
    if others := sorted(set(tally.versions) - {__version__}):
        count = sum(tally.versions[one] for one in others)
        yield f"{count} were recorded by Foregate {', '.join(others)}, whose gates may have judged otherwise."


def _format_counts(label: str, then: SessionCounts, now: SessionCounts) -> str:
    pairs = ((getattr(then, name), getattr(now, name)) for name in _COLUMNS)
    return _format_row(label, (str(a) if a == b else f"{a} -> {b}" for a, b in pairs))


def _format_row(label: str, cells: Iterable[str]) -> str:
    return f"{label:<{_NAME}}" + "".join(f"{cell:>11}" for cell in cells)


def build_rehearsal_json(played: Rehearsal) -> Json:
    """Return a session that was played again, as JSON values."""
    counts: dict[str, Json] = {"then": to_builtins(played.then), "now": to_builtins(played.now)}
    place: dict[str, Json] = {"kind": "session", "session": played.session, "foregate": played.version}
    assumed: dict[str, Json] = {**played.assumed}
    return {**place, **counts, "stopped": played.stopped, "at": played.at, "assumed": assumed}


def build_tally_json(tally: RehearsalTally, file: str, assumed: Mapping[str, str]) -> Json:
    """Return what all sessions came to; those that were stopped are counted apart, up to where they were."""
    told: dict[str, Json] = {"kind": "summary", "policy": file, "assume": {**assumed}}
    told["whole"] = {"sessions": tally.whole, "then": to_builtins(tally.then), "now": to_builtins(tally.now)}
    stopped = {"then": to_builtins(tally.then_stopped), "now": to_builtins(tally.now_stopped)}
    told["stopped"] = {"sessions": tally.stopped, **stopped}
    return told | {"assumed": {**tally.assumed}}
