"""What a model said in a task, with all that somebody else may have said first taken out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import suppress

from foregate.evidence.ledger import find_strings
from foregate.evidence.state.session import SessionState
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.value import read_value

_LONG = 4000
"""Characters of the newest words that are kept."""
_RUN = 8
"""Characters in a row that tell that something was copied."""
_PLAIN = 3
"""Letters of a word that names nothing by itself."""
# "(src/a.py)".
_TOKEN = compile_late(r"\S+")
# "read" and "file" in "read_file".
_WORD = compile_late(r"[^\W_]+")
# '\n', '\u00e9': the text may be JSON within JSON, in which such stand for a character.
_ESCAPE = compile_late(r"\\+(?:u([0-9a-fA-F]{4})|[nrtbf\"/])")
# "don't", "well-known".
_LETTERS = compile_late(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")


def mask_words(state: SessionState) -> str:
    """Return what the model said since the task began, each name that is not the person's as `<outside 1>`.

    The person's are the words of their messages. Every other that stands in a result or a call of the conversation is
    masked, whole or in part. So is every other number, address, path or code. Where earlier messages were left out of
    the conversation nobody can tell any more: nothing is returned.
    """
    conversation, task = state.conversation, state.task
    if task is None or conversation.left_out:
        return ""
    theirs = [message.text for message in conversation.messages if message.role == "tool"]
    theirs += [call.raw for message in conversation.messages for call in message.calls]
    texts = [
        message.text for message in conversation.messages[conversation.newest + 1 :] if message.role == "assistant"
    ]
    known = KnownWords.of((said.text for said in task.messages if said.actor == "user"), theirs)
    names: dict[str, str] = {}
    return " ".join(known.mask(text, names) for text in "\n".join(texts)[-_LONG:].splitlines()).strip()


class KnownWords:
    """The words of the person, and those of everybody else."""

    def __init__(self, own: frozenset[str], theirs: frozenset[str], text: str) -> None:
        self.own, self.theirs, self.text = own, theirs, text

    @classmethod
    def of(cls, own: Iterable[str], theirs: Iterable[str]) -> KnownWords:
        """Return what is known from the person's messages and from what everybody else said."""
        text = fold("\n".join(way for one in theirs for way in list_ways(one)))
        return cls(frozenset(_WORD.findall(fold("\n".join(own)))), frozenset(_WORD.findall(text)), text)

    def mask(self, text: str, names: dict[str, str]) -> str:
        """Return a text with names masked; `names` numbers them, so that the same name has the same number."""
        found: list[str] = []
        for match in _TOKEN.finditer(text):
            word = match.group()
            shown = names.setdefault(fold(word), f"<outside {len(names) + 1}>") if self.is_foreign(word) else word
            found += [shown] if not found or found[-1] != shown or shown == word else []
        return " ".join(found)

    def is_foreign(self, token: str) -> bool:
        """Whether a token may be anybody's but the person's or the model's own."""
        parts = _WORD.findall(fold(token))
        if all(part in self.own for part in parts):
            return False
        bare = token.strip(".,:;!?\"'`()[]{}<>*_\u201c\u201d")
        value = read_value(bare)
        if not _LETTERS.fullmatch(bare) or value is None or value.kind != "words":
            return True
        strange = [part for part in parts if part not in self.own and len(part) > _PLAIN]
        return self.holds_run(fold(bare)) or any(part in self.theirs or self.holds_run(part) for part in strange)

    def holds_run(self, word: str) -> bool:
        """Whether a stretch of a word stands in what others said."""
        return any(word[at : at + _RUN] in self.text for at in range(len(word) - _RUN + 1))


def list_ways(text: str) -> Iterator[str]:
    """Yield a JSON text itself, the texts in it, and each of these without the escapes of a text within it."""
    yield text
    with suppress(InvalidJson):
        for inner in find_strings(strict_json.parse(text, max_bytes=4 * len(text) + 1)):
            yield inner
            yield _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else " ", inner)


def fold(text: str) -> str:
    """Return a text as words are compared."""
    return unicodedata.normalize("NFKC", text).casefold()
