"""What a program says to a chat: a message, a command or the answer to a question, as JSON or as plain text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from foregate.cli.chat.slash import is_command
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, InvalidJson
from foregate.schemas.strict_json import as_object

KEYS: Mapping[str, Mapping[str, str]] = {
    "approval": {"y": "yes", "yes": "yes", "a": "grant", "n": "no", "no": "no"},
    "loop": {"a": "anyway", "s": "stop", "m": "more"},
    "tools": {"y": "yes", "yes": "yes", "n": "no", "no": "no"},
}
"""Per gate that asks: what plain text answers, and the answer it is."""
_MAY_HAVE = {"message": frozenset(), "command": frozenset(), "answer": frozenset(("text", "request"))}
_FORMS = '{"message": TEXT}, {"command": TEXT} or {"answer": WORD}'


class Misheard(ForegateError):
    """A line that cannot be taken for anything."""


class Utterance(Struct, frozen=True):
    """One line. `text` is the message, the command or the words that go with an answer.

    `choice` is an answer's word, and `request` the hash of the request it is for, "" where it names none.
    """

    kind: Literal["message", "command", "answer"]
    text: str = ""
    choice: str = ""
    request: str = ""


def parse_utterance(line: str, gate: str = "") -> Utterance | None:
    """Return what a line says, None for an empty one; `gate` is who asks a question now, "" for nobody.

    Raises Misheard with one sentence for anything that is not clearly one thing.
    """
    line = line.strip()
    if not line:
        return None
    if line.startswith("{"):
        return parse_json_utterance(line)
    if is_command(line):
        return Utterance("command", line)
    if not gate:
        return Utterance("message", line)
    key, _, words = line.partition(" ")
    choice = KEYS.get(gate, KEYS["approval"]).get(key.lower())
    if choice is None:
        raise Misheard('a question is open: answer it, or send {"message": TEXT}, which answers it with no')
    return Utterance("answer", words.strip(), choice)


def parse_json_utterance(line: str) -> Utterance:
    """Return what a JSON object says."""
    try:
        said = as_object(strict_json.parse(line))
    except InvalidJson as error:
        raise Misheard(f"{error}; send {_FORMS}, or plain text") from None
    kinds = [kind for kind in _MAY_HAVE if kind in said]
    if len(kinds) != 1 or said.keys() - {kinds[0], *_MAY_HAVE[kinds[0]]}:
        raise Misheard(f"this object is none of {_FORMS}")
    texts: dict[str, str] = {}
    for key in (kinds[0], "text", "request"):
        value = said.get(key, "")
        if not isinstance(value, str):
            raise Misheard(f"`{key}` must be a text")
        texts[key] = value
    content = texts[kinds[0]].strip()
    if not content:
        raise Misheard(f"`{kinds[0]}` is empty")
    match kinds[0]:
        case "message":
            return Utterance("message", content)
        case "command":
            return Utterance("command", content)
        case _:
            return Utterance("answer", texts["text"].strip(), content, texts["request"])
