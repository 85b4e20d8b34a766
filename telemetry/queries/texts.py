"""The texts of an event that are searched, and an excerpt of one around what was found."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from foregate.schemas import event_body, strict_json
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, TurnJudged
from foregate.schemas.task_plan import PlanProposed


def list_texts(event: Event) -> Iterator[tuple[str, str]]:
    """Yield (what, text) of everything in an event that a person, a model, a tool or a plan said.

    What gates say is not among it: that belongs to their decisions.
    """
    match event.body:
        case event_body.UserMessage(text=text):
            yield "request", text
        case ModelResponded() as body:
            yield "answer", body.text
            yield "thought", body.reasoning
            for recorded in body.calls:
                yield "call", f"{recorded.name} {recorded.arguments}"
        case NeedAnswered(answer=answer) if answer.who == "person":
            yield "reply", answer.words
        case event_body.SandboxEnded(content=text) | event_body.ToolFinished(content=text):
            yield "result", text
        case event_body.CallAnswered(observed=observed) if observed is not None:
            yield "result", observed.output
        case event_body.OutcomeUnknown(reason=text):
            yield "result", text
        case event_body.TaskPaused(question=question) if question:
            yield "question", question
        case event_body.TaskEnded(note=note):
            yield "end", note
        case PlanProposed(proposal=plan):
            yield "plan", strict_json.canonical(strict_json.dump(plan)).decode()
        case _:
            pass


def find_excerpt(event: Event, what: str, phrases: Sequence[str], around: int = 60) -> str:
    """Return what was found in an event's text with `around` characters on both sides, "" where it is not there now."""
    texts = list_decision_texts(event) if what == "decision" else list_texts(event)
    whole = [re.compile(_build_pattern(phrase), re.IGNORECASE) for phrase in phrases]
    found = [text for kind, text in texts if kind == what and text.strip()]
    first = next((text for text in found if all(pattern.search(text) for pattern in whole)), found[0] if found else "")
    return cut_excerpt(first, phrases, around)


def list_decision_texts(event: Event) -> Iterator[tuple[str, str]]:
    """Yield ("decision", text) of what gates said in a judged turn, and about the calls."""
    if isinstance(event.body, TurnJudged):
        for row in event.body.judgement.rows:
            more = [text for ruling in row.rulings for text in (ruling.message, ruling.reason)]
            yield "decision", "\n".join(dict.fromkeys(filter(None, (row.tool, row.target, row.summary, *more))))


def split_phrase(phrase: str) -> list[str]:
    """Return the words of a phrase as the full-text index takes them apart, about."""
    return re.findall(r"[^\W_]+", phrase)


def cut_excerpt(text: str, phrases: Sequence[str], around: int) -> str:
    """Return the part of a text around the first phrase that stands in it, on one line, with ellipses where cut."""
    found = None
    for phrase in phrases:
        if found := re.search(_build_pattern(phrase), text, re.IGNORECASE):
            break
    begin, end = (found.start(), found.end()) if found else (0, 0)
    first, last = max(0, begin - around), min(len(text), max(end, begin) + around)
    shown = " ".join(text[first:last].split())
    return f"{'…' if first else ''}{shown}{'…' if last < len(text) else ''}"


def _build_pattern(phrase: str) -> str:
    return r"[\W_]+".join(map(re.escape, split_phrase(phrase)))
