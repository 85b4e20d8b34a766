"""What `policy what-if` prints: the calls that come out differently, and one sentence that sums up."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from foregate.cli.terminal.layout import make_visible, shorten_text

if TYPE_CHECKING:
    from foregate.audit.what_if import Bound, Row, WhatIfTally
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


def format_changes(rows: Iterable[Row], tally: WhatIfTally, file: str) -> Iterator[str]:
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
            yield shorten_text(session, _WIDTH)
        yield from _format_changed_call(row, tally)
        listed += 1
    if left:
        yield f"... and {left} more; --json lists them all"
    yield from _format_notes(tally)
    yield _summarise(tally, make_visible(file))


def build_summary_json(tally: WhatIfTally, file: str) -> Json:
    """Return the closing object."""
    return {
        "kind": "summary",
        "policy": file,
        "sessions": tally.sessions,
        "diverged": tally.diverged,
        "turns": tally.turns,
        "calls": _count_changes(tally.changes),
        "apart": _count_changes(tally.apart),
        "spared": {who: tally.spared[who] for who in ("planner", "critic", "person")},
        "values": {key: list(pair) for key, pair in tally.values.items()},
        "beside": list(tally.beside),
    }


def _count_changes(changes: Counter[str]) -> dict[str, int]:
    return {name: changes[name] for name in _WORDS}


def _format_changed_call(row: Row, tally: WhatIfTally) -> Iterator[str]:
    call = row.call
    what = f"{call.tool} {call.target}".strip() or "the answer in words"
    mark = "  <- first divergence" if row.diverges else ""
    head = f"{row.seq:>6}  {_WORDS[call.change]:<15} "
    yield head + shorten_text(what, _WIDTH - len(head) - len(mark)) + mark
    if call.after is not None:
        yield shorten_row(f"{_describe_side(call.before)} -> {_describe_side(call.after)}")
    else:
        needs = _NEEDS.get(call.needs) or f"another look (`{call.needs}`)"
        needs = f"the ruling on {call.needs}" if call.needs == "the calls beside it" else needs
        yield shorten_row(f"{_describe_side(call.before)} -> it takes {needs}, which the log does not hold")
    for bound in row.bounds:
        yield shorten_row(_format_bound(bound))
    told = {bound.key for bound in row.bounds if bound.before != bound.after}
    for key in row.keys:
        if key not in told:
            before, after = tally.values[key]
            yield shorten_row(f"{key}: {_format_value(before)} -> {_format_value(after)}")


def shorten_row(text: str) -> str:
    """Return an indented line that fits the table."""
    return _INDENT + shorten_text(text, _WIDTH - len(_INDENT))


def _describe_side(side: Side) -> str:
    match side.standing:
        case "allow":
            return "ran after a yes" if side.asked else "let through"
        case "ask":
            return f"a person is asked ({side.code})"
        case standing:
            word = {"hold": "held", "deny": "denied"}.get(standing, standing)
            return f"{word} by {side.gate} ({side.code})"


def _format_bound(bound: Bound) -> str:
    moved = (
        f"{_format_value(bound.before)} -> {_format_value(bound.after)}"
        if bound.before != bound.after
        else _format_value(bound.after)
    )
    return f"{bound.name} {bound.value}, bound {moved} ({bound.key})"


def _format_value(value: Data) -> str:
    return "none" if value is None else shorten_text(json.dumps(value, ensure_ascii=False), _VALUE)


def _format_notes(tally: WhatIfTally) -> Iterator[str]:
    spared = [f"{tally.spared[who]} to the {who}" for who in ("planner", "critic", "person") if tally.spared[who]]
    if spared:
        yield f"Questions that would not have been asked: {', '.join(spared)}."
    if tally.beside:
        yield shorten_text(f"Not told by judging again: {', '.join(tally.beside)} (what happens around it).", _WIDTH)


def _summarise(tally: WhatIfTally, file: str) -> str:
    calls = sum(tally.changes.values())
    differ = [f"{count} {_WORDS[name]}" for name in _WORDS if (count := tally.changes[name]) and name != "unchanged"]
    where = f"Under {file}, of {pluralise(calls, 'call')} in {pluralise(tally.sessions, 'session')}"
    found = f"{where} {', '.join(differ) or 'none comes out differently'}"
    found += f", {tally.changes['unchanged']} unchanged" if differ else ""
    if not tally.diverged:
        return f"{found}."
    after = sum(tally.apart.values())
    gone = f"{pluralise(tally.diverged, 'session')} would have gone another way"
    if not after:
        return f"{found}; {gone}."
    different = after - tally.apart["unchanged"]
    return (
        f"{found}; {gone}, and what follows there ({pluralise(after, 'call')}, {different} different) is counted apart."
    )


def pluralise(count: int, noun: str) -> str:
    """Return a count with its noun."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
