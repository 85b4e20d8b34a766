"""An explanation in sentences: what was asked, ruled and measured, what would have changed it, and what came next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from foregate.gates.replay.counterfactuals import Counterfactual
    from foregate.tuning.explanation import Explanation

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


def describe_in_parts(explained: Explanation) -> dict[str, Iterator[str]]:
    """Return the sentences of an explanation by what they are about."""
    return {
        "asked": describe_call(explained),
        "ruling": describe_ruling(explained),
        "numbers": describe_numbers(explained),
        "instead": describe_counterfactuals(explained),
        "next": describe_history(explained),
    }


def describe_call(explained: Explanation, *, arguments: bool = True) -> Iterator[str]:
    """Yield which call the decision is about, who made it, its arguments unless they are shown apart, and who named its
    target first."""
    point, asked = explained.point, explained.asked
    where = f"turn {point.turn} of task {point.task}, {point.time[:19].replace('T', ' ')} UTC"
    if not asked.tool:
        answered = "the model answered in words, and the answer was judged."
        yield f"In {where} {answered if point.gate == 'postlude' else 'the calls of the response were judged.'}"
        return
    effect = _EFFECT.get(asked.effect, f", which would {asked.effect}")
    yield f"In {where} {_ACTOR.get(point.actor, point.actor)} {_name_call(asked.tool, asked.target)}{effect}."
    if arguments:
        yield f"Its arguments: {_cut_text(asked.arguments, _ARGUMENTS)}"
    if asked.sent:
        filled = ", before results of earlier steps were put in" if asked.sent.startswith("{") else ""
        yield f"The model sent{filled}: {_cut_text(asked.sent, _ARGUMENTS)}"
    if said := _SAID.get(asked.said_first):
        at = f" (event {asked.said_at})" if asked.said_at else ""
        yield f"Its target was {said}{at}."
    if explained.mandate:
        yield _end_sentence(explained.mandate)
    if asked.more:
        yield f"{asked.more} more call{'' if asked.more == 1 else 's'} stood in the same response."


def describe_ruling(explained: Explanation) -> Iterator[str]:
    """Yield what the gate ruled, why, and what it ruled on the calls beside it."""
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


def describe_numbers(explained: Explanation) -> Iterator[str]:
    """Yield each number against its bound, and the mode of the gate, with where their values come from."""
    for number in explained.numbers:
        yield f"{number.name} {number.value}, bound {number.bound} (`{number.key}`, {number.origin})"
    if explained.mode_from:
        yield f"`{explained.point.gate}.mode: {explained.mode}` ({explained.mode_from})"


def describe_counterfactuals(explained: Explanation) -> Iterator[str]:
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
            return f"{who[0].upper()}{who[1:]}, whose answer is unknown"
        case "asks":
            start = "It would have fired" if passed else "It would have passed here"
            return f"{start}, and {who}" if lever.by == "person" else f"{start}, and {who}, whose answer is unknown"
        case then:
            return f"It would have been {then} by {lever.by}"


def describe_history(explained: Explanation) -> Iterator[str]:
    """Yield what came after it, an event a sentence."""
    for happened in explained.next:
        what = "unanswered" if happened.what == "answered" and not happened.code else happened.what
        who = "a person" if (what, happened.who) == ("asked", "person") else f"the {happened.who}"
        who = str(happened.by) if happened.by is not None else who
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
