"""What is known of a server: what it refuses, how it answers, and where each fact was found; see `servers.yaml`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from ruamel.yaml import YAML

TABLE = Path(__file__).with_name("servers.yaml")


class Row(BaseModel):
    """A part of the table; a name that is not known here is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Fact(Row):
    """Something that a server does. `source` is a public address; `unconfirmed` where only one report says it."""

    source: str = Field(pattern=r"^https://\S+$")
    unconfirmed: bool = False


class Refusal(Fact):
    """What a server answers where `when` is true of a request, see `rules.CONDITIONS`; without `when` it is once.

    `case` names a case of its own for what only some models or settings refuse, played in the way `by`; the others are
    always there. `body` is sent as JSON, a text as it is, with the words of the condition filled in. `ends` are words
    that the sentence must hold where there is no way round, `offers` how many tools more the session has. `inside`
    sends it in a stream of status 200. `wait` is how many seconds the server asks to be left alone.
    """

    when: Mapping[str, Any] = {}
    case: str = ""
    by: Literal["whole", "streamed", "strict"] = "whole"
    status: int = 400
    headers: Mapping[str, str] = {}
    body: Any = None
    inside: bool = False
    ends: str = ""
    offers: int = 0
    wait: float | None = None


class Thoughts(Fact):
    """Where thoughts come: a field of the message, `details` as OpenRouter's, `parts` of the content, or `tags`."""

    place: Literal["reasoning_content", "reasoning", "details", "parts", "tags"]


class Streams(Fact):
    """How an answer is cut into chunks; the defaults are those of OpenAI."""

    piece: int = 4
    """Characters of arguments in a chunk; 0 sends a call in one."""
    index: Literal["count", "zero", "null", "absent"] = "count"
    every: Sequence[Literal["id", "name", "role"]] = ()
    """What each chunk of a call repeats."""
    again: Literal["", "chunk", "last", "arguments"] = ""
    """What is sent twice: each chunk of a whole call, the whole call in the last chunk, or its arguments there."""
    opens: str = ""
    """Arguments that come before the real ones."""
    finish: Literal["tool_calls", "stop", "", "null"] = "tool_calls"
    usage: Literal["chunk", "last", "choice", "none"] = "chunk"
    done: bool = True
    between: str = ""
    """What is sent between two events, such as a comment."""
    mark: bool = False
    """Whether a byte order mark comes first."""
    lines: str = "\n"
    first: Mapping[str, Any] | None = None
    """A chunk that comes before all others."""
    single: bool = False
    """Whether the calls of a chunk are one object instead of a list."""


class Answers(Row):
    """How an answer looks: the ids of its calls, and what else is in it."""

    ids: str = "call_{letters24}"
    name: str = "{name}"
    content: Literal["null", "empty", "absent", "words"] = "null"
    """What stands beside calls."""
    arguments: Literal["text", "object"] = "text"
    finish: Literal["tool_calls", "stop"] = "tool_calls"
    message: Mapping[str, Any] = {}
    call: Mapping[str, Any] = {}
    """Fields that only this server knows."""
    one: bool = False
    """Whether a message holds one call at most."""
    written: Literal["", "hermes", "mistral", "llama", "deepseek", "kimi", "glm"] = ""
    """The tokens in which a server that reads none of them leaves calls in the text; see `written.py`."""
    sources: Sequence[str] = ()


class Server(Row):
    """A row of the table; `set` is what a person sets, None for another face of a server that has a row."""

    name: str
    address: str
    model: str
    set: str | None = None
    answers: Answers = Answers()
    streams: Streams | None = None
    thoughts: Thoughts | None = None
    refuses: Sequence[Refusal] = ()
    too_long: Refusal | None = None
    bad_call: Refusal | None = None
    limit: Refusal | None = None
    dialect: str = ""


@cache
def read_table() -> Mapping[str, Server]:
    """Return the servers by name, in the order of the table."""
    rows = [Server.model_validate(row) for row in YAML(typ="safe", pure=True).load(TABLE.read_text("utf-8"))]
    return {row.name: row for row in rows}


def list_facts(row: Server) -> Sequence[Fact]:
    """Return every fact of a row."""
    single = (row.streams, row.thoughts, row.too_long, row.bad_call, row.limit)
    return [*row.refuses, *(fact for fact in single if fact is not None)]
