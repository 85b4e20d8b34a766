"""What `policy what-if` prints: the calls that come out differently, and one sentence that sums up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from foregate.cli.terminal.visible import shortened, visible

if TYPE_CHECKING:
    from foregate.audit.what_if import Bound, Row, Tally
    from foregate.gates.replay.redecide import Side
    from foregate.policy.source.strict_yaml import Data
    from foregate.schemas.strict_json import Json

SHOWN = 40
"""Calls the table lists; all are in the JSON form."""
_WIDTH = 80
_INDENT = " " * 8
_VALUE = 40

_WORDS = {
    "newly_held": "newly held",
    "newly_let_go": "newly let go",
    "newly_asked": "newly asked",
    "no_longer_asked": "no longer asked",
    "other_reason": "held for another reason",
    "not_decidable": "not decidable",
    "unchanged": "unchanged",
}
_NEEDS = {"planner": "an answer of the planner", "critic": "an answer of the critic"}


def lines_of(rows: Iterable[Row], tally: Tally, file: str) -> Iterator[str]:
    """Yield the table, up to each session's first divergence, and the closing sentences."""
    session, listed, left = "", 0, 0
    for row in rows:
        if row.apart:
            continue
        if listed == SHOWN:
            left += 1
            continue
        if row.session != session:
            session = row.session
            yield shortened(session, _WIDTH)
        yield from _call(row, tally)
        listed += 1
    if left:
        yield f"... and {left} more; --json lists them all"
    yield from _notes(tally)
    yield _sentence(tally, visible(file))


def summary_json(tally: Tally, file: str) -> Json:
    """Return the closing object."""
    return {
        "kind": "summary",
        "policy": file,
        "sessions": tally.sessions,
        "diverged": tally.diverged,
        "turns": tally.turns,
        "calls": _counted(tally.changes),
        "apart": _counted(tally.apart),
        "spared": {who: tally.spared[who] for who in ("planner", "critic", "person")},
        "values": {key: list(pair) for key, pair in tally.values.items()},
        "beside": list(tally.beside),
    }


def _counted(changes: Counter[str]) -> dict[str, int]:
    return {name: changes[name] for name in _WORDS}


def _call(row: Row, tally: Tally) -> Iterator[str]:
    call = row.call
    what = f"{call.tool} {call.target}".strip() or "the answer in words"
    mark = "  <- first divergence" if row.diverges else ""
    head = f"{row.seq:>6}  {_WORDS[call.change]:<15} "
    yield head + shortened(what, _WIDTH - len(head) - len(mark)) + mark
    if call.after is not None:
        yield shortened_line(f"{_side(call.before)} -> {_side(call.after)}")
    else:
        needs = _NEEDS.get(call.needs) or f"another look (`{call.needs}`)"
        needs = f"the ruling on {call.needs}" if call.needs == "the calls beside it" else needs
        yield shortened_line(f"{_side(call.before)} -> it takes {needs}, which the log does not hold")
    for bound in row.bounds:
        yield shortened_line(_bound(bound))
    told = {bound.key for bound in row.bounds if bound.before != bound.after}
    for key in row.keys:
        if key not in told:
            before, after = tally.values[key]
            yield shortened_line(f"{key}: {_value(before)} -> {_value(after)}")


def shortened_line(text: str) -> str:
    """Return an indented line that fits the table."""
    return _INDENT + shortened(text, _WIDTH - len(_INDENT))


def _side(side: Side) -> str:
    match side.standing:
        case "allow":
            return "ran after a yes" if side.asked else "let through"
        case "ask":
            return f"a person is asked ({side.code})"
        case standing:
            word = {"hold": "held", "deny": "denied"}.get(standing, standing)
            return f"{word} by {side.gate} ({side.code})"


def _bound(bound: Bound) -> str:
    moved = f"{_value(bound.before)} -> {_value(bound.after)}" if bound.before != bound.after else _value(bound.after)
    return f"{bound.name} {bound.value}, bound {moved} ({bound.key})"


def _value(value: Data) -> str:
    return "none" if value is None else shortened(json.dumps(value, ensure_ascii=False), _VALUE)


def _notes(tally: Tally) -> Iterator[str]:
    spared = [f"{tally.spared[who]} to the {who}" for who in ("planner", "critic", "person") if tally.spared[who]]
    if spared:
        yield f"Questions that would not have been asked: {', '.join(spared)}."
    if tally.beside:
        yield shortened(f"Not told by judging again: {', '.join(tally.beside)} (what happens around it).", _WIDTH)


def _sentence(tally: Tally, file: str) -> str:
    calls = sum(tally.changes.values())
    differ = [f"{count} {_WORDS[name]}" for name in _WORDS if (count := tally.changes[name]) and name != "unchanged"]
    where = f"Under {file}, of {many(calls, 'call')} in {many(tally.sessions, 'session')}"
    found = f"{where} {', '.join(differ) or 'none comes out differently'}"
    found += f", {tally.changes['unchanged']} unchanged" if differ else ""
    if not tally.diverged:
        return f"{found}."
    after = sum(tally.apart.values())
    gone = f"{many(tally.diverged, 'session')} would have gone another way"
    if not after:
        return f"{found}; {gone}."
    different = after - tally.apart["unchanged"]
    return f"{found}; {gone}, and what follows there ({many(after, 'call')}, {different} different) is counted apart."


def many(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
