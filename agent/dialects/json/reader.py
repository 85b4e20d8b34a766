"""Reads a response that carries its calls as JSON, as it arrives."""

from __future__ import annotations

from collections.abc import Sequence

from foregate.agent.dialects.json.calls import Calls, Known, gather_calls
from foregate.agent.dialects.json.pieces import TextPiece, TextSplitter
from foregate.agent.dialects.text.dialect import ParsedResponse
from foregate.agent.dialects.text.prose import Words, note_only_thought
from foregate.agent.dialects.text.window import Window
from foregate.schemas import strict_json
from foregate.schemas.model_response import Block
from foregate.schemas.tool_call import ToolCall

_AGAIN = "only the first JSON of a response is read as calls; send this one again, or all of them in one list"


class JsonReader:
    """A `Reader`: the first JSON that holds calls is taken out of the text, the rest are words, thoughts and marks.

    JSON says what it is at its end. Its calls are known when its last bracket is closed, or the fence around it.
    """

    def __init__(self, known: Known = frozenset()) -> None:
        self._known = known
        self._window = Window()
        self._words = Words()
        self._thoughts: list[str] = []
        self._found = Calls([], [], [])
        self._calls: tuple[ToolCall, ...] = ()
        self._order: Block | None = None
        self._later = 0
        pieces = TextSplitter(self._window, self._take)
        self._notes = pieces.notes
        self._running = pieces.read()
        next(self._running)

    @property
    def calls(self) -> Sequence[ToolCall]:
        """The calls that are complete by now; what follows adds to them, or says that all of it was a thought."""
        return self._calls

    def feed(self, text: str) -> str:
        """Take in the next piece; return the words in it that may be shown now."""
        self._window.push(text)
        next(self._running, None)
        return self._words.take_new()

    def close(self) -> ParsedResponse:
        """Return what the response said."""
        self._window.ended = True
        next(self._running, None)
        left_out = self._later - 1
        left = [f"{left_out} more pieces of JSON with calls were left out"] if left_out > 0 else []
        return ParsedResponse(
            self._words.text,
            self._calls,
            "\n".join([*self._thoughts, *self._found.reasons]).strip(),
            self._order,
            tuple(self._found.deferred),
            (*self._notes, *left),
        )

    def _take(self, piece: TextPiece) -> None:
        match piece.kind:
            case "thought":
                self._thoughts.append(piece.inner.strip())
            case "end" if not self._thoughts:
                self._drop_as_thought(piece.whole)
            case "json" if self._gather_calls(piece.inner):
                pass
            case "words" | "json":
                self._words.add(strict_json.scrub(piece.whole))

    def _drop_as_thought(self, closing: str) -> None:
        """Take all that came so far for a thought that began in the prompt: what it called is dropped."""
        if self._calls:
            self._notes.append(note_only_thought(closing))
        self._thoughts.append(self._words.take_all())
        self._found, self._calls, self._order, self._later = Calls([], [], []), (), None, 0

    def _gather_calls(self, text: str) -> bool:
        """Gather the calls in a piece of JSON, and return whether it holds any.

        Those of the first such piece are made, those of the second are refused, and further pieces counted.
        """
        gathered = Calls([], [], [])
        order = gather_calls(text, gathered, self._known)
        if not gathered.calls:
            return False
        if not self._calls:
            self._found, self._order = gathered, order
            self._calls = tuple(gathered.calls)
            return True
        self._later += 1
        if self._later == 1:
            before = len(self._calls)
            self._calls += tuple(
                ToolCall.from_defect(call.name, call.raw, call.defect or _AGAIN) for call in gathered.calls
            )
            self._order = self._order and Block("sequential", (self._order, *range(before, len(self._calls))))
        return True


def parse_text(text: str, known: Known = frozenset()) -> ParsedResponse:
    """Return what a whole text says."""
    reader = JsonReader(known)
    reader.feed(text)
    return reader.close()
