"""What happened to a call after it was judged: who was asked, what it was told, whether it was sent again and ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias, assert_never

from msgspec import Struct

from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised
from foregate.schemas.event_body import (
    CallAnswered,
    EffectUndone,
    Kind,
    OutcomeResolved,
    OutcomeUnknown,
    TaskEnded,
    TaskPaused,
    ToolFinished,
    UserMessage,
)
from foregate.schemas.tool_call import ToolCall

_NEEDS: tuple[Kind, ...] = ("need_raised", "need_answered")
_FATES: tuple[Kind, ...] = ("tool_finished", "call_answered", "outcome_unknown", "outcome_resolved", "effect_undone")
_TASK: tuple[Kind, ...] = ("user_message", "model_response", "task_paused", "task_ended")
KINDS: tuple[Kind, ...] = (*_TASK, "turn_judged", *_NEEDS, "tool_started", *_FATES)
"""The kinds of events an aftermath is made of."""

Outcome = Literal["ran", "failed", "unknown", "resolved", "undone", "not_run", "looked"]
What = Literal[Outcome, "asked", "answered", "paused", "replied", "sent_again", "ended"]
Fate: TypeAlias = ToolFinished | CallAnswered | OutcomeUnknown | OutcomeResolved | EffectUndone
"""What says what became of a call."""


class CallHistoryEntry(Struct, frozen=True):
    """One thing that happened: the event, what in a word, and the details that word has."""

    seq: int
    what: What
    call: str = ""
    who: str = ""
    code: str = ""
    text: str = ""


def read_call_history(
    events: Iterable[Event], judged: int, gate: str, call: ToolCall | None
) -> Iterator[CallHistoryEntry]:
    """Yield what became of a call judged at event `judged`, from the events of its response on, until its task ends;
    after that only that its effect was undone. Of its questions those of `gate` count; of the same call sent again the
    first time, and what came of that."""
    ids = {call.id} if call is not None else set[str]()
    open_ = again = ended = False
    for event in events:
        seq, later = event.seq, event.seq > judged
        if ended and not isinstance(event.body, EffectUndone):
            continue
        match event.body:
            case NeedRaised(need=need) if need.gate in (gate, "loop") and not ids.isdisjoint(need.calls):
                open_ = True
                yield CallHistoryEntry(seq, "asked", who=need.who, code=need.code)
            case NeedAnswered(answer=answer) if open_ and answer.gate in (gate, "loop"):
                open_, value = False, answer.value or {}
                said = value.get("choice") or value.get("verdict") or ("a plan" if value else "")
                yield CallHistoryEntry(seq, "answered", who=answer.who, code=str(said), text=answer.error)
            case ModelResponded(continues=None) as body if later and call is not None and not again:
                if same := [recorded.id for recorded in body.calls if recorded.call.digest == call.digest]:
                    again = True
                    ids.add(same[0])
                    yield CallHistoryEntry(seq, "sent_again", same[0])
            case TaskPaused(reason="needs_input", question=question) if later:
                yield CallHistoryEntry(seq, "paused", text=question or "")
            case UserMessage(text=text) if later:
                yield CallHistoryEntry(seq, "replied", text=text)
            case TaskEnded(status=status, note=note) if later:
                ended = True
                yield CallHistoryEntry(seq, "ended", code=status, text=note)
            case ToolFinished() | CallAnswered() | OutcomeUnknown() | OutcomeResolved() | EffectUndone() as body:
                if later and body.call in ids:
                    yield from _read_outcome(seq, body)
            case _:
                pass


def _read_outcome(seq: int, body: Fate) -> Iterator[CallHistoryEntry]:
    match body:
        case ToolFinished(call=call, ok=ok, content=content):
            yield CallHistoryEntry(seq, "ran", call) if ok else CallHistoryEntry(seq, "failed", call, text=content)
        case OutcomeUnknown(call=call, reason=reason):
            yield CallHistoryEntry(seq, "unknown", call, text=reason)
        case OutcomeResolved(call=call):
            yield CallHistoryEntry(seq, "resolved", call)
        case EffectUndone(call=call):
            yield CallHistoryEntry(seq, "undone", call)
        case CallAnswered(call=call, code=code, message=message, observed=observed):
            yield CallHistoryEntry(seq, "not_run", call, code=code, text=message)
            if observed is not None:
                yield CallHistoryEntry(seq, "looked", call, text=observed.tool)
        case _:
            assert_never(body)
