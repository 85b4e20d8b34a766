"""What commands print for people about decisions: one explained, many counted, and all judged again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from typing import TYPE_CHECKING

from foregate.cli.terminal.layout import format_labelled, make_visible, pluralise, shorten_text

if TYPE_CHECKING:
    from foregate.audit.explanation import Explanation
    from foregate.audit.what_if import Row, WhatIfTally
    from foregate.gates.replay.counterfactuals import Counterfactual
    from foregate.gates.replay.redecide import Side
    from foregate.policy.source.strict_yaml import Data
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.audit.decisions import Statistics

_ARGUMENTS, _TEXT = 300, 240
_RULED = {"allow": "let it pass", "ask": "wants a person's yes", "hold": "held it", "deny": "denied it"}
_BESIDE = {"allow": "let pass", "ask": "waits for a yes", "hold": "held", "deny": "denied"}
_SAID = {
    "user": "named by the user first",
    "workspace": "first seen in the workspace",
    "external": "first seen in text from outside",
    "nobody": "named by nobody before",
}
_NOTHING = (
    "No single value of the policy for this gate, and nothing said, seen or granted before would have changed "
    "this: the call itself would have to be another."
)
_ACTOR = {
    "model": "the model wanted",
    "runner": "Foregate itself looked with",
    "postlude": "Foregate checked with",
    "sandbox": "the sandbox held the changes of",
}
_EFFECT = {"observation": ", which only looks", "unknown": ", which could do anything"}
_NEXT = {
    "asked": "{who} was asked",
    "answered": "{who} answered `{code}`",
    "unanswered": "{who} gave no usable answer{text}",
    "ran": "it ran",
    "failed": "it ran and failed{text}",
    "not_run": "it did not run, and the model was told why ({code})",
    "sandboxed": "it ran in a sandbox{text}",
    "shown": "the model was shown what it would have changed",
    "looked": "Foregate took the look itself and showed it to the model (`{whole}`)",
    "unknown": "nobody can say whether it took effect{text}",
    "resolved": "its outcome is known now",
    "undone": "its effect was undone",
    "sent_again": "the same call was sent again",
    "paused": "the task stopped to ask{text}",
    "replied": "the user said{text}",
    "ended": "the task ended as {code}{text}",
}


def format_explanation(explained: Explanation, width: int) -> Iterator[str]:
    """Yield the explanation in `width` columns; every text that is not our own stays behind its label."""
    point = explained.point
    yield f"{explained.session}/{point.address}"
    rows = (
        ("asked", _format_call(explained)),
        ("ruling", _format_ruling(explained)),
        ("numbers", _format_numbers(explained)),
        ("instead", _format_counterfactuals(explained)),
        ("next", _format_history(explained)),
    )
    for label, sentences in rows:
        for number, sentence in enumerate(sentences):
            for line in format_labelled(label if number == 0 else "", sentence, width):
                yield line.plain.rstrip()


def _format_call(explained: Explanation) -> Iterator[str]:
    point, asked = explained.point, explained.asked
    where = f"turn {point.turn} of task {point.task}, {point.time[:19].replace('T', ' ')} UTC"
    if not asked.tool:
        answered = "the model answered in words, and the answer was judged."
        yield f"In {where} {answered if point.gate == 'postlude' else 'the calls of the response were judged.'}"
        return
    effect = _EFFECT.get(asked.effect, f", which would {asked.effect}")
    yield f"In {where} {_ACTOR.get(point.actor, point.actor)} {_name_call(asked.tool, asked.target)}{effect}."
    yield f"Its arguments: {_cut_text(asked.arguments, _ARGUMENTS)}"
    if asked.sent:
        filled = ", before results of earlier steps were put in" if asked.sent.startswith("{") else ""
        yield f"The model sent{filled}: {_cut_text(asked.sent, _ARGUMENTS)}"
    if said := _SAID.get(asked.said_first):
        at = f" (event {asked.said_at})" if asked.said_at else ""
        yield f"Its target was {said}{at}."
    if asked.more:
        yield f"{pluralise(asked.more, 'more call')} stood in the same response."


def _format_ruling(explained: Explanation) -> Iterator[str]:
    point = explained.point
    done = _RULED.get(explained.standing, "judged the answer" if point.gate == "postlude" else "let calls run")
    done = "had nothing to say against it" if point.code == f"{point.gate}_passed" else done
    shadow = ", in shadow: recorded, not applied" if point.mode == "shadow" else ""
    yield f"The gate `{point.gate}` {done} ({point.code}{shadow})."
    if point.summary:
        yield _end_sentence(point.summary)
    reasons = dict.fromkeys(ruling.reason for ruling in point.rulings if ruling.code == point.code and ruling.reason)
    if reasons and not all(reason in point.summary for reason in reasons):
        yield f"Reason: {_cut_text('; '.join(reasons))}."
    for other in explained.beside:
        what, why = _name_call(other.tool, other.target), f": {_cut_text(other.message)}" if other.message else ""
        yield _end_sentence(f"{what} beside it: {_BESIDE[other.standing]} ({other.code}){why}")
    for rule, origin in explained.rules.items():
        yield f"The rule `{rule}`: {origin}."
    if point.consequence is not None and point.consequence.question:
        yield f"It asked: {_cut_text(point.consequence.question)}"
    if point.repetition:
        yield "The same call was held for the same reason before, and nothing had changed."
    if explained.standing == "ask":
        yield f"What asks is settled by the gate `approval`: see {point.seq}.approval."
    if explained.remedy is not None:
        named = ", ".join(str(value) for value in explained.remedy.arguments.values())
        yield f"What would cure it: `{explained.remedy.tool}` on `{_cut_text(named)}`."


def _format_numbers(explained: Explanation) -> Iterator[str]:
    for number in explained.numbers:
        yield f"{number.name} {number.value}, bound {number.bound} (`{number.key}`, {number.origin})"
    if explained.mode_from:
        mode = "shadow" if explained.point.mode == "shadow" else "enforce"
        yield f"`{explained.point.gate}.mode: {mode}` ({explained.mode_from})"


def _format_counterfactuals(explained: Explanation) -> Iterator[str]:
    """Yield what would have changed the ruling, together what would have come to the same."""
    passed = explained.standing in ("", "allow")
    found: dict[str, dict[str, list[str]]] = {}
    for lever in explained.levers:
        ways = found.setdefault(_describe_outcome(lever, passed), {})
        words = ways.setdefault(lever.key if lever.relation == "=" else lever.says, [])
        words.append(f"`{str(lever.value).lower()}`" if words else lever.says)
    for outcome, ways in found.items():
        yield f"{outcome}: {'; '.join(' or '.join(words) for words in ways.values())}."
    if not found and not passed:
        yield _NOTHING


def _describe_outcome(lever: Counterfactual, passed: bool) -> str:
    who = f"{'a' if lever.by == 'person' else 'the'} {lever.by} would have been asked"
    match lever.then:
        case "answered":
            return f"The answer would have been judged {lever.by}"
        case "runs":
            return "It would have fired, and the call still run" if passed else "It would have run"
        case "asks_here":
            return f"{who[0].upper()}{who[1:]}, whose answer nobody knows"
        case "asks":
            start = "It would have fired" if passed else "It would have passed here"
            return f"{start}, and {who}" if lever.by == "person" else f"{start}, and {who}, whose answer nobody knows"
        case then:
            return f"It would have been {then} by {lever.by}"


def _format_history(explained: Explanation) -> Iterator[str]:
    for happened in explained.next:
        what = "unanswered" if happened.what == "answered" and not happened.code else happened.what
        who = "a person" if (what, happened.who) == ("asked", "person") else f"the {happened.who}"
        text = f": {_cut_text(happened.text)}" if happened.text else ""
        said = _NEXT[what].format(who=who, code=happened.code, text=text, whole=happened.text)
        yield f"Event {happened.seq}: {said.rstrip('.')}."
    if not explained.next:
        yield "The log ends here."


def _name_call(tool: str, target: str) -> str:
    return f"`{tool}` on `{target}`" if target else f"`{tool}`"


def _end_sentence(text: str) -> str:
    whole = f"{text[0].upper()}{text[1:]}" if text[0].isalpha() else text
    return whole if whole.endswith((".", "?", "!")) else f"{whole}."


def _cut_text(text: str, most: int = _TEXT) -> str:
    one = " ".join(text.split())
    return one if len(one) <= most else f"{one[: most - 1]}…"


def format_statistics(found: Statistics) -> Iterator[str]:
    counted = {"session": found.sessions, "task": found.tasks, "judged turn": found.turns, "call": found.calls}
    yield ", ".join(pluralise(count, noun) for noun, count in counted.items())
    shadows = any(counts.shadow_asked for counts in found.gates.values())
    yield f"{'gate':<12} {'asked':>8} {'fired':>8} {'overridden':>11}" + (f" {'in shadow':>18}" if shadows else "")
    for gate, counts in found.gates.items():
        shadow = f" {counts.shadow_asked:>8} asked {counts.shadow_fired:>4} fired" if shadows else ""
        yield f"{gate:<12} {counts.asked:>8} {counts.fired:>8} {counts.overridden:>11}{shadow}".rstrip()
    per_task = f", {found.held / found.tasks:.1f} per task" if found.tasks else ""
    yield from _format_row("held", f"{pluralise(found.held, 'call')} held or denied{per_task}")
    advice = found.advice.items()
    costs = [f"{who} {pluralise(by.calls, 'request')} and {pluralise(by.tokens, 'token')}" for who, by in advice]
    yield from _format_row("advice", "; ".join(costs))
    yield from _format_row("approvals", _format_approvals(found))
    asked = found.questions
    if asked["asked"]:
        said = ", ".join(f"{asked[choice]} `{choice}`" for choice in ("anyway", "stop", "more"))
        yield from _format_row("repeated", f"{pluralise(asked['asked'], 'question')} about calls held again: {said}")
    silent = [name for name, count in found.rules.items() if not count]
    yield from _format_row("rules", f"never fired: {', '.join(silent)}" if silent else "none that never fired")


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
_WORDS = {
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


def format_changes(rows: Iterable[Row], tally: WhatIfTally, file: str) -> Iterator[str]:
    """Yield the table, up to each session's first divergence, and the closing sentences."""
    shown = (row for row in rows if not row.apart)
    for session, of_session in groupby(islice(shown, SHOWN), key=lambda row: row.session):
        yield shorten_text(session, _WIDTH)
        for row in of_session:
            yield from _format_changed_call(row, tally)
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
        told[name] = {change: changes[change] for change in _WORDS}
    values = {key: list(pair) for key, pair in tally.values.items()}
    return told | {"spared": {who: tally.spared[who] for who in _ASKED}, "values": values, "beside": list(tally.beside)}


def _format_changed_call(row: Row, tally: WhatIfTally) -> Iterator[str]:
    call = row.call
    what = f"{call.tool} {call.target}".strip() or "the answer in words"
    mark = "  <- first divergence" if row.diverges else ""
    head = f"{row.seq:>6}  {_WORDS[call.change]:<15} "
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
    differ = [f"{count} {_WORDS[name]}" for name in _WORDS if (count := tally.changes[name]) and name != "unchanged"]
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
