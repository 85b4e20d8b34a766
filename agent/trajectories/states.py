"""What the model was sent before each response: the log holds it, exactly, and this reads it off."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from foregate.agent.context.conversation import Conversation
from foregate.agent.transcript import message_of
from foregate.schemas.event import Event
from foregate.schemas.kept_messages import read_messages
from foregate.schemas.message import Message
from foregate.schemas.protocols import Blobs

Hide = Callable[[bytes], bytes]
"""Masks what a blob holds before it is read."""


class Heard:
    """The conversation as the model gets it, as the session's own state keeps it. Mutated by `take`."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self._open: set[str] = set()

    @property
    def messages(self) -> list[Message]:
        """The messages so far."""
        return self.conversation.messages

    def take(self, event: Event) -> Message | None:
        """Take in an event, and return the message it adds."""
        call = event.body.get("call", "")
        answered = call in self._open
        if event.kind == "context_compressed":
            self.conversation.compress(event.body)
        elif event.kind == "model_response":
            self._open = {made["id"] for made in event.body["calls"]}
        elif event.kind == "task_ended":
            self._open = set()
        message = message_of(event, answered)
        if message is not None:
            self.conversation.add(message, by_user=event.kind == "user_message")
        if answered and event.kind in ("tool_finished", "call_answered", "outcome_unknown"):
            self._open.discard(call)
        return message


class Asked(Struct, frozen=True):
    """A response (its event number), what was sent for it, and whether that is what everybody said so far.

    The execution model of a plan is sent a context of its own for each task: `apart`.
    """

    seq: int
    messages: tuple[Message, ...]
    apart: bool = False


def asked(events: Iterable[Event], blobs: Blobs, hide: Hide) -> Iterator[Asked]:
    """Yield what was sent for each response of a session, in order; raise LogError for a blob that is missing."""
    heard, request = Heard(), ""
    for event in events:
        if event.kind == "model_response":
            if request and "places" not in event.body:
                yield Asked(event.seq, tuple(read_messages(hide(blobs.get(request)))), True)
                request = ""
            else:
                yield Asked(event.seq, tuple(heard.messages))
        if event.kind == "plan_step_changed" and event.body.get("ask"):
            request = event.body["ask"].get("request", "")
        heard.take(event)
