"""The contract of a dialect: it teaches itself to a model, reads what the model says, and writes results back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from foregate.schemas.message import Message
from foregate.schemas.model_response import Block, BlockKind
from foregate.schemas.thoughts import THOUGHTS
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

DialectName = Literal["native", "json", "action_tags", "service_tags", "auto"]
"""How a model may say its calls; `native` is no dialect but the endpoint's own way, `auto` finds out."""
BLOCKS: Mapping[str, BlockKind] = {"parallel": "parallel", "sequential": "sequential"}
RESULT, GENERIC = "result", "call_tool"
RESERVED = frozenset((*THOUGHTS, *BLOCKS, RESULT, GENERIC))
"""Names with the same meaning in every dialect of tags; a tool of such a name is called by `call_tool`."""
_MARKUP = """
    a abbr article aside b blockquote body br button code dd del details div dl dt em footer form h1 h2 h3 h4 h5 h6
    head header hr html i img input ins kbd label li link main mark meta nav ol option p pre q s samp script section
    select small span strong style sub summary sup svg table tbody td textarea th thead title tr u ul var video
    caption center cite figcaption figure font iframe picture source tfoot
"""
MARKUP = frozenset(_MARKUP.split())
"""Tags of HTML that stand in words; they call nothing unless a tool or a service has the name."""


class ParsedResponse(Struct, frozen=True):
    """What a text said in a dialect: words, what was thought aloud, calls with their order, and notes about it.

    A call that was begun and cannot be read is a `ToolCall.broken`. `order` and `deferred` are those of ModelResponse.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    order: Block | None = None
    deferred: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def build_order(items: Sequence[int | Block]) -> Block | None:
    """Return the order that places of calls and blocks of a response say, None where no block is among them."""
    if not any(isinstance(item, Block) for item in items):
        return None
    only = items[0]
    return only if len(items) == 1 and isinstance(only, Block) else Block("sequential", tuple(items))


class Reader(Protocol):
    """Reads one response as it arrives. However the text is split, `close` returns the same."""

    def feed(self, text: str) -> str:
        """Take in the next piece; return the words in it that may be shown now, without tags and thoughts."""

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The calls that are complete by now, in written order."""

    def close(self) -> ParsedResponse:
        """Return what the response said; called once, at its end."""


class ReadableDialect(Protocol):
    """A way to write calls into a text that can be read."""

    def build_reader(self, tools: Sequence[ToolSpec]) -> Reader:
        """Return a reader of one response; only these tools can be called, another name is a call that is refused."""


class Dialect(ReadableDialect, Protocol):
    """A way for a model to write calls into its text. Pure: it reads and writes texts, and knows nothing of effects."""

    stop: tuple[str, ...] = ()
    """Texts before which generation may end; at most four."""

    def build_section(self, tools: Sequence[ToolSpec]) -> str:
        """Return the part of the system prompt that teaches the dialect for these tools."""

    def render_message(self, message: Message) -> str:
        """Return an assistant's message as a model would write it; it reads as the same words, calls and order."""

    def render_answers(self, answers: Sequence[tuple[str, str]]) -> str:
        """Return the answers to calls, (tool name, JSON object text) each, as one text; nothing in it can be a call."""
