"""What happened to a call after it was judged: who was asked, what it was told, whether it was sent again and ran."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from foregate.schemas.event import Event, Kind
from foregate.schemas.model_response import call_of
from foregate.schemas.strict_json import Json
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
        body = event.body
        if ended and event.kind != "effect_undone":
            continue
        match event.kind:
            case "need_raised" if _about(body["need"], gate, ids):
                open_ = True
                yield Happened(event.seq, "asked", who=body["need"]["who"], code=body["need"].get("code", ""))
            case "need_answered" if open_ and body["answer"]["gate"] in (gate, "loop"):
                open_ = False
                yield _answered(event)
            case "model_response" if event.seq > judged and call is not None and not again and "continues" not in body:
                same = [c["id"] for c in body.get("calls", ()) if call_of(c).digest == call.digest]
                if same:
                    again = True
                    ids |= set(same[:1])
                    yield Happened(event.seq, "sent_again", same[0])
            case "task_paused" if event.seq > judged and body["reason"] == "needs_input":
                yield Happened(event.seq, "paused", text=body.get("question", ""))
            case "user_message" if event.seq > judged:
                yield Happened(event.seq, "replied", text=body["text"])
            case "task_ended" if event.seq > judged and not ended:
                ended = True
                yield Happened(event.seq, "ended", code=body["status"], text=body.get("note", ""))
            case _ if event.seq > judged and body.get("call") in ids:
                yield from _fate(event)


def _about(need: Mapping[str, Json], gate: str, ids: set[str]) -> bool:
    return need["gate"] in (gate, "loop") and not ids.isdisjoint(need["calls"])


def _answered(event: Event) -> Happened:
    answer = event.body["answer"]
    value = answer.get("value")
    said = (value or {}).get("choice") or (value or {}).get("verdict") or ("a plan" if value else "")
    return Happened(event.seq, "answered", who=answer["who"], code=str(said), text=answer.get("error", ""))


def _fate(event: Event) -> Iterator[Happened]:
    body = event.body
    match event.kind:
        case "tool_finished":
            done: What = "ran" if body["ok"] else "failed"
            yield Happened(event.seq, done, body["call"], text="" if body["ok"] else body["content"])
        case "outcome_unknown":
            yield Happened(event.seq, "unknown", body["call"], text=body["reason"])
        case "outcome_resolved":
            yield Happened(event.seq, "resolved", body["call"])
        case "effect_undone":
            yield Happened(event.seq, "undone", body["call"])
        case "call_answered":
            yield Happened(event.seq, "not_run", body["call"], code=body["code"], text=body["message"])
            if (seen := body.get("observed")) is not None:
                yield Happened(event.seq, "looked", body["call"], text=seen["tool"])
