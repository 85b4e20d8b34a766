"""What the model was sent before each response, and how chat endpoints spell it.

The log holds it, exactly, and this reads it off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct

from foregate.evidence.state.conversation import Conversation, build_message
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import (
    CallAnswered,
    ContextCompressed,
    OutcomeUnknown,
    TaskEnded,
    ToolFinished,
    UserMessage,
)
from foregate.schemas.message import Message, WireNames, format_messages, read_messages
from foregate.schemas.protocols import Blobs
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import FillRequest, PlanStepChanged
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

Hide = Callable[[bytes], bytes]
"""Masks what a blob holds before it is read."""


class ModelConversation:
    """The conversation as the model gets it, as the session's own state keeps it. Mutated by `take`."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self._open: set[str] = set()

    @property
    def messages(self) -> list[Message]:
        """The messages so far."""
        return self.conversation.messages

    def apply(self, event: Event) -> Message | None:
        """Take in an event, and return the message it adds."""
        answered = False
        match event.body:
            case ContextCompressed() as body:
                self.conversation.compress(body)
            case ModelResponded(calls=calls):
                self._open = {call.id for call in calls}
            case TaskEnded():
                self._open = set()
            case ToolFinished(call=call) | CallAnswered(call=call) | OutcomeUnknown(call=call):
                answered = call in self._open
                self._open.discard(call)
            case _:
                pass
        message = build_message(event, answered)
        if message is not None:
            self.conversation.add_message(message, by_user=isinstance(event.body, UserMessage))
        return message


class SentRequest(Struct, frozen=True):
    """A response (its event number), what was sent for it, and whether that is what everybody said so far.

    The execution model of a plan is sent a context of its own for each task: `apart`.
    """

    seq: int
    messages: tuple[Message, ...]
    apart: bool = False


def read_sent_requests(events: Iterable[Event], blobs: Blobs, hide: Hide) -> Iterator[SentRequest]:
    """Yield what was sent for each response of a session, in order; raise LogError for a blob that is missing."""
    heard, request = ModelConversation(), ""
    for event in events:
        match event.body:
            case ModelResponded(places=None) if request:
                yield SentRequest(event.seq, tuple(read_messages(hide(blobs.get(request)))), True)
                request = ""
            case ModelResponded():
                yield SentRequest(event.seq, tuple(heard.messages))
            case PlanStepChanged(ask=FillRequest(request=sent)):
                request = sent
            case _:
                pass
        heard.apply(event)


class ToolOffer:
    """The tools a model was offered: `names` spells theirs for endpoints, `definitions` has the form of a request."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = tools
        self.names = WireNames([tool.name for tool in tools])
        self.definitions = [_format_definition(tool, self.names) for tool in tools]


class ToolOffers(dict[int, ToolOffer]):
    """Offers by their tools, each made once: the steps of a session share theirs."""

    def __call__(self, tools: Sequence[ToolSpec]) -> ToolOffer:
        """Return the offer of these tools."""
        return self.get(id(tools)) or self.setdefault(id(tools), ToolOffer(tools))


def format_assistant(text: str, calls: tuple[ToolCall, ...], names: WireNames) -> dict[str, Json]:
    """Return one message of the model."""
    found = format_messages([Message("assistant", text, calls)], names)
    return found[0] if found else {"role": "assistant", "content": text}


def _format_definition(tool: ToolSpec, names: WireNames) -> dict[str, Json]:
    function: dict[str, Json] = {
        "name": names.to_wire(tool.name),
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}
