"""What `audit explain` prints for people: plain sentences behind five labels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from foregate.cli.commands.what_if import pluralise
from foregate.cli.terminal.layout import format_labelled

if TYPE_CHECKING:
    from foregate.audit.explanation import Explanation
    from foregate.gates.replay.counterfactuals import Counterfactual
    from foregate.telemetry.audit.call_history import CallHistoryEntry

_ARGUMENTS = 300
_TEXT = 240
_RULED = {"allow": "let it pass", "ask": "wants a person's yes", "hold": "held it", "deny": "denied it"}
_BESIDE = {"allow": "let pass", "ask": "waits for a yes", "hold": "held", "deny": "denied"}
_SAID = {
    "user": "named by the user first",
    "workspace": "first seen in the workspace",
    "external": "first seen in text from outside",
    "nobody": "named by nobody before",
}
_ACTOR = {"model": "the model wanted", "runner": "Foregate itself looked with", "postlude": "Foregate checked with"}
_NEXT = {
    "ran": "it ran",
    "failed": "it ran and failed",
    "unknown": "nobody can say whether it took effect",
    "resolved": "its outcome is known now",
    "undone": "its effect was undone",
    "sent_again": "the same call was sent again",
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
        yield (
            f"In {where} the model answered in words, and the answer was judged."
            if point.gate == "postlude"
            else (f"In {where} the calls of the response were judged.")
        )
        return
    what = f"`{asked.tool}`" + (f" on `{asked.target}`" if asked.target else "")
    effect = f", which would {asked.effect}" if asked.effect not in ("observation", "unknown") else ""
    effect = ", which only looks" if asked.effect == "observation" else effect
    effect = ", which could do anything" if asked.effect == "unknown" else effect
    yield f"In {where} {_ACTOR.get(point.actor, point.actor)} {what}{effect}."
    yield f"Its arguments: {_cut_text(asked.arguments, _ARGUMENTS)}"
    if asked.sent:
        yield f"The model sent, before results of earlier steps were put in: {_cut_text(asked.sent, _ARGUMENTS)}"
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
        yield f"Reason: {_cut_text('; '.join(reasons), _TEXT)}."
    for other in explained.beside:
        what = f"`{other.tool}`" + (f" on `{other.target}`" if other.target else "")
        why = f": {_cut_text(other.message, _TEXT)}" if other.message else ""
        yield _end_sentence(f"{what} beside it: {_BESIDE[other.standing]} ({other.code}){why}")
    for rule, origin in explained.rules.items():
        yield f"The rule `{rule}`: {origin}."
    if point.consequence is not None and point.consequence.question:
        yield f"It asked: {_cut_text(point.consequence.question, _TEXT)}"
    if point.repetition:
        yield "The same call was held for the same reason before, and nothing had changed."
    if explained.standing == "ask":
        yield f"What asks is settled by the gate `approval`: see {point.seq}.approval."
    if explained.remedy is not None:
        named = ", ".join(str(value) for value in explained.remedy.arguments.values())
        yield f"What would cure it: `{explained.remedy.tool}` on `{_cut_text(named, _TEXT)}`."


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
        yield (
            "No single value of the policy for this gate, and nothing said, seen or granted before would have changed "
            "this: the call itself would have to be another."
        )


def _describe_outcome(lever: Counterfactual, passed: bool) -> str:
    """Return what would have come of the call."""
    match lever.then:
        case "answered":
            return f"The answer would have been judged {lever.by}"
        case "runs":
            return "It would have fired, and the call still run" if passed else "It would have run"
        case "asks_here":
            who = "A person" if lever.by == "person" else f"The {lever.by}"
            return f"{who} would have been asked, whose answer nobody knows"
        case "asks":
            start = "It would have fired" if passed else "It would have passed here"
            if lever.by == "person":
                return f"{start}, and a person would have been asked"
            return f"{start}, and the {lever.by} would have been asked, whose answer nobody knows"
        case then:
            return f"It would have been {then} by {lever.by}"


def _format_history(explained: Explanation) -> Iterator[str]:
    told = False
    for happened in explained.next:
        if sentence := _format_event(happened):
            told = True
            yield f"Event {happened.seq}: {sentence.rstrip('.')}."
    if not told:
        yield "The log ends here."


def _format_event(happened: CallHistoryEntry) -> str:
    text = f": {_cut_text(happened.text, _TEXT)}" if happened.text else ""
    match happened.what:
        case "asked":
            return f"the {happened.who} was asked" if happened.who != "person" else "a person was asked"
        case "answered":
            who = "the person" if happened.who == "person" else f"the {happened.who}"
            return f"{who} answered `{happened.code}`" if happened.code else f"{who} gave no usable answer{text}"
        case "not_run":
            return f"it did not run, and the model was told why ({happened.code})"
        case "looked":
            return f"Foregate took the look itself and showed it to the model (`{happened.text}`)"
        case "paused":
            return f"the task stopped to ask{text}"
        case "replied":
            return f"the user said{text}"
        case "ended":
            return f"the task ended as {happened.code}{text}"
        case "ran" | "resolved" | "undone" | "sent_again":
            return _NEXT[happened.what]
        case what:
            return f"{_NEXT[what]}{text}"


def _end_sentence(text: str) -> str:
    whole = f"{text[0].upper()}{text[1:]}" if text[0].isalpha() else text
    return whole if whole.endswith((".", "?", "!")) else f"{whole}."


def _cut_text(text: str, most: int) -> str:
    one = " ".join(text.split())
    return one if len(one) <= most else f"{one[: most - 1]}…"
