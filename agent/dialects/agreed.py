"""What may be shown of a response while it arrives and nobody knows in which dialect its calls are."""

from __future__ import annotations

from collections.abc import Sequence
from io import SEEK_END, StringIO

from foregate.agent.dialects.text.dialect import ParsedResponse, Reader
from foregate.schemas.tool_call import ToolCall


class ConsensusReader:
    """A `Reader` that has others read along, and shows the text as far as all of them take it for words.

    What any of them takes for a call, a thought or a mark is left out by it, so its words part from the text there.
    Blanks at the beginning are not shown.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._sides = [_ReaderProgress(reader) for reader in readers]
        self._text = StringIO()
        self._shown = 0

    @property
    def calls(self) -> Sequence[ToolCall]:
        """None: what one dialect reads as a call may be an argument in another, which is known at the end."""
        return ()

    def feed(self, text: str) -> str:
        """Take in the next piece; return the words in it that may be shown now."""
        self._text.seek(0, SEEK_END)
        self._text.write(text if self._text.tell() else text.lstrip())
        agreed = min(side.follow(text, self._text) for side in self._sides)
        self._text.seek(self._shown)
        words = self._text.read(agreed - self._shown)
        self._shown = agreed
        return words

    def close(self) -> ParsedResponse:
        """Return the text as words: what it says is up to the dialect that is chosen."""
        return ParsedResponse(self._text.getvalue())


class _ReaderProgress:
    """A reader, and how much of a text it has shown as it is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._same = 0
        self._parted = False

    def follow(self, piece: str, text: StringIO) -> int:
        """Read the next piece of `text`, and return how many of its characters were shown."""
        words = self._reader.feed(piece)
        if words and not self._parted:
            text.seek(self._same)
            there = text.read(len(words))
            parts = (at for at, (one, other) in enumerate(zip(words, there, strict=False)) if one != other)
            size = next(parts, len(there))
            self._same += size
            self._parted = size < len(words)
        return self._same
