"""What happened to a call after it was judged: who was asked, what it was told, whether it was sent again and ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from foregate.schemas.call_events import CallAnswered, EffectUndone, OutcomeResolved, OutcomeUnknown, ToolFinished
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind
from foregate.schemas.judging_events import NeedAnswered, NeedRaised
from foregate.schemas.need import Answer
from foregate.schemas.response_events import ModelResponded
from foregate.schemas.task_events import TaskEnded, TaskPaused, UserMessage
from foregate.schemas.tool_call import ToolCall

KINDS: tuple[Kind, ...] = (
    "user_message",
    "model_response",
    "turn_judged",
    "need_raised",
    "need_answered",
    "tool_started",
    "tool_finished",
    "call_answered",
    "outcome_unknown",
    "outcome_resolved",
    "effect_undone",
    "task_paused",
    "task_ended",
)
"""The kinds of events an aftermath is made of."""

What = Literal[
    "asked",
    "answered",
    "ran",
    "failed",
    "unknown",
    "resolved",
    "undone",
    "not_run",
    "looked",
    "paused",
    "replied",
    "sent_again",
    "ended",
]


Fate: TypeAlias = ToolFinished | CallAnswered | OutcomeUnknown | OutcomeResolved | EffectUndone
"""What says what became of a call."""


class Happened(Struct, frozen=True):
    """One thing that happened: the event, what in a word, and the details that word has."""

    seq: int
    what: What
    call: str = ""
    who: str = ""
    code: str = ""
    text: str = ""


def aftermath(events: Iterable[Event], judged: int, gate: str, call: ToolCall | None) -> Iterator[Happened]:
    """Yield what became of a call judged at event `judged`, from the events of its response on, until its task ends.

    After that only that its effect was undone counts.
    Of its questions only those of `gate` count; of the same call sent again the first time, and what came of that.
    """
    ids = {call.id} if call is not None else set[str]()
    open_ = again = ended = False
    for event in events:
        seq, later = event.seq, event.seq > judged
        if ended and not isinstance(event.body, EffectUndone):
            continue
        match event.body:
            case NeedRaised(need=need) if need.gate in (gate, "loop") and not ids.isdisjoint(need.calls):
                open_ = True
                yield Happened(seq, "asked", who=need.who, code=need.code)
            case NeedAnswered(answer=answer) if open_ and answer.gate in (gate, "loop"):
                open_ = False
                yield _answered(seq, answer)
            case ModelResponded(continues=None) as body if later and call is not None and not again:
                same = [recorded.id for recorded in body.calls if recorded.call.digest == call.digest]
                if same:
                    again = True
                    ids |= set(same[:1])
                    yield Happened(seq, "sent_again", same[0])
            case TaskPaused(reason="needs_input", question=question) if later:
                yield Happened(seq, "paused", text=question or "")
            case UserMessage(text=text) if later:
                yield Happened(seq, "replied", text=text)
            case TaskEnded(status=status, note=note) if later:
                ended = True
                yield Happened(seq, "ended", code=status, text=note)
            case ToolFinished() | CallAnswered() | OutcomeUnknown() | OutcomeResolved() | EffectUndone() as body:
                if later and body.call in ids:
                    yield from _fate(seq, body)
            case _:
                pass


def _answered(seq: int, answer: Answer) -> Happened:
    value = answer.value or {}
    said = value.get("choice") or value.get("verdict") or ("a plan" if value else "")
    return Happened(seq, "answered", who=answer.who, code=str(said), text=answer.error)


def _fate(seq: int, body: Fate) -> Iterator[Happened]:
    match body:
        case ToolFinished(call=call, ok=ok, content=content):
            yield Happened(seq, "ran", call) if ok else Happened(seq, "failed", call, text=content)
        case OutcomeUnknown(call=call, reason=reason):
            yield Happened(seq, "unknown", call, text=reason)
        case OutcomeResolved(call=call):
            yield Happened(seq, "resolved", call)
        case EffectUndone(call=call):
            yield Happened(seq, "undone", call)
        case CallAnswered(call=call, code=code, message=message, observed=observed):
            yield Happened(seq, "not_run", call, code=code, text=message)
            if observed is not None:
                yield Happened(seq, "looked", call, text=observed.tool)
        case _:
            assert_never(body)
