"""What commands print for people about decisions: one explained, many counted, and all judged again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING

from foregate.views.terminal.layout import format_labelled, make_visible, pluralise, shorten_text

if TYPE_CHECKING:
    from foregate.gates.replay.redecide import Side
    from foregate.policy.source.strict_yaml import Data
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.queries.statistics import PromptCount, Statistics
    from foregate.tuning.explanation import Explanation
    from foregate.tuning.piece_judge import Row, WhatIfTally

    NameKeys = Callable[[Row], Row]


def format_explanation(explained: Explanation, width: int) -> Iterator[str]:
    """Yield the explanation in `width` columns; every text that is not our own stays behind its label."""
    from foregate.tuning.sentences import describe_in_parts

    point = explained.point
    yield f"{explained.session}/{point.address}"
    for label, sentences in describe_in_parts(explained).items():
        for number, sentence in enumerate(sentences):
            for line in format_labelled(label if number == 0 else "", sentence, width):
                yield line.plain.rstrip()


def format_statistics(found: Statistics) -> Iterator[str]:
    counted = {"session": found.sessions, "task": found.tasks, "judged turn": found.turns, "call": found.calls}
    yield ", ".join(pluralise(count, noun) for noun, count in counted.items())
    shadows = any(counts.shadow_asked for counts in found.gates.values())
    names = f"{'gate':<12} {'asked':>8} {'fired':>7} {'asks':>7} {'held':>7} {'denied':>7} {'overridden':>11}"
    yield names + (f" {'in shadow':>18}" if shadows else "")
    for gate, counts in found.gates.items():
        shadow = f" {counts.shadow_asked:>8} asked {counts.shadow_fired:>4} fired" if shadows else ""
        fired = f"{counts.fired:>7} {counts.asked_person:>7} {counts.held:>7} {counts.denied:>7}"
        yield f"{gate:<12} {counts.asked:>8} {fired} {counts.overridden:>11}{shadow}".rstrip()
    per_task = f", {found.held / found.tasks:.1f} per task" if found.tasks else ""
    yield from _format_row("held", f"{pluralise(found.held, 'call')} held or denied{per_task}")
    advice = found.advice.items()
    costs = [
        f"{who} {pluralise(by.calls, 'request')}, {pluralise(by.tokens, 'token')}, {by.seconds:g} s"
        for who, by in advice
    ]
    yield from _format_row("advice", "; ".join(costs))
    yield from _format_row("approvals", _format_approvals(found))
    asked = found.questions
    if asked["asked"]:
        said = ", ".join(f"{asked[choice]} `{choice}`" for choice in ("anyway", "stop", "more"))
        yield from _format_row("repeated", f"{pluralise(asked['asked'], 'question')} about calls held again: {said}")
    silent = [name for name, count in found.rules.items() if not count]
    yield from _format_row("rules", f"never fired: {', '.join(silent)}" if silent else "none that never fired")


def format_prompts(rows: Sequence[PromptCount]) -> Iterator[str]:
    """Yield a table of what made the questions to people, in 80 columns; nothing where nobody was asked."""
    if not rows:
        return
    yield ""
    yield f"{'prompts made by':<34} {'prompts':>7} {'yes':>5} {'no':>5} {'open':>5} {'ran':>5}  stopped by"
    for row in rows:
        cause = row.gate if not row.key or row.key == f"{row.gate}.mode" else f"{row.gate} {row.key}"
        told = (
            f"{shorten_text(cause, 34):<34} {row.prompts:>7} {row.yes:>5} {row.no:>5} {row.unanswered:>5} {row.ran:>5}"
        )
        yield f"{told}  {row.stopped_by}".rstrip()


def _format_approvals(found: Statistics) -> str:
    counts = found.approvals
    if not counts["asked"]:
        return "none asked"
    if not counts["answered"]:
        return f"{counts['asked']} asked, none answered"
    share = round(100 * counts["yes"] / counts["answered"])
    waited = f", median {found.median_wait} s to answer" if found.median_wait is not None else ""
    return f"{counts['asked']} asked, {counts['answered']} answered, {share} % with yes{waited}"


def _format_row(label: str, value: str) -> Iterator[str]:
    return (line.plain[2:] for line in format_labelled(label, value, _WIDTH))


SHOWN = 40
"""Calls the table lists; all are in the JSON form."""
_WIDTH = 80
_INDENT = " " * 8
_VALUE = 40
_ASKED = ("planner", "critic", "person")
CHANGES = {
    "newly_held": "newly held",
    "newly_let_go": "newly let go",
    "newly_asked": "newly asked",
    "no_longer_asked": "no longer asked",
    "other_reason": "held for another reason",
    "not_decidable": "not decidable",
    "unchanged": "unchanged",
}
_NEEDS = {
    "planner": "an answer of the planner",
    "critic": "an answer of the critic",
    "the calls beside it": "the ruling on the calls beside it",
}


def format_changes(rows: Iterable[Row], tally: WhatIfTally, file: str, name_keys: NameKeys) -> Iterator[str]:
    """Yield the table, up to each session's first divergence, and the closing sentences.

    `name_keys` finds the deciding keys of the rows that are shown.
    """
    shown = (row for row in rows if not row.apart)
    for session, of_session in groupby(islice(shown, SHOWN), key=lambda row: row.session):
        yield shorten_text(session, _WIDTH)
        for row in of_session:
            yield from _format_changed_call(name_keys(row), tally)
    if left := sum(1 for _ in shown):
        yield f"... and {left} more; --json lists them all"
    spared = [f"{tally.spared[who]} to the {who}" for who in _ASKED if tally.spared[who]]
    if spared:
        yield f"Questions that would not have been asked: {', '.join(spared)}."
    if tally.beside:
        yield shorten_text(f"Not told by judging again: {', '.join(tally.beside)} (what happens around it).", _WIDTH)
    yield _summarise(tally, make_visible(file))


def build_summary_json(tally: WhatIfTally, file: str) -> Json:
    told: dict[str, Json] = {"kind": "summary", "policy": file, "sessions": tally.sessions}
    told |= {"diverged": tally.diverged, "turns": tally.turns}
    for name, changes in (("calls", tally.changes), ("apart", tally.apart)):
        told[name] = {change: changes[change] for change in CHANGES}
    values = {key: list(pair) for key, pair in tally.values.items()}
    return told | {"spared": {who: tally.spared[who] for who in _ASKED}, "values": values, "beside": list(tally.beside)}


def _format_changed_call(row: Row, tally: WhatIfTally) -> Iterator[str]:
    call = row.call
    what = f"{call.tool} {call.target}".strip() or "the answer in words"
    mark = "  <- first divergence" if row.diverges else ""
    head = f"{row.seq:>6}  {CHANGES[call.change]:<15} "
    yield head + shorten_text(what, _WIDTH - len(head) - len(mark)) + mark
    needs = _NEEDS.get(call.needs, f"another look (`{call.needs}`)")
    after = _describe_side(call.after) if call.after else f"it takes {needs}, which the log does not hold"
    told, moved = [f"{_describe_side(call.before)} -> {after}"], set()
    for bound in row.bounds:
        value = _format_value(bound.after)
        if bound.before != bound.after:
            moved.add(bound.key)
            value = f"{_format_value(bound.before)} -> {value}"
        told.append(f"{bound.name} {bound.value}, bound {value} ({bound.key})")
    for key in row.keys:
        if key not in moved:
            told.append(f"{key}: {' -> '.join(map(_format_value, tally.values[key]))}")
    yield from (_INDENT + shorten_text(line, _WIDTH - len(_INDENT)) for line in told)


def _describe_side(side: Side) -> str:
    if side.standing == "allow":
        return "ran after a yes" if side.asked else "let through"
    held = {"hold": "held", "deny": "denied"}.get(side.standing, side.standing)
    who = "a person is asked" if side.standing == "ask" else f"{held} by {side.gate}"
    return f"{who} ({side.code})"


def _format_value(value: Data) -> str:
    return "none" if value is None else shorten_text(json.dumps(value, ensure_ascii=False), _VALUE)


def _summarise(tally: WhatIfTally, file: str) -> str:
    calls = sum(tally.changes.values())
    if not calls:
        return f"No call is recorded that could be judged under {file}, so nothing is claimed of it."
    differ = [f"{count} {CHANGES[name]}" for name in CHANGES if (count := tally.changes[name]) and name != "unchanged"]
    where = f"Under {file}, of {pluralise(calls, 'call')} in {pluralise(tally.sessions, 'session')}"
    found = f"{where} {', '.join(differ) or 'none comes out differently'}"
    found += f", {tally.changes['unchanged']} unchanged" if differ else ""
    if not tally.diverged:
        return f"{found}."
    found += f"; {pluralise(tally.diverged, 'session')} would have gone another way"
    if not (after := sum(tally.apart.values())):
        return f"{found}."
    different = after - tally.apart["unchanged"]
    return f"{found}, and what follows there ({pluralise(after, 'call')}, {different} different) is counted apart."
