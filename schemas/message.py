"""A message of the conversation as a model gets it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import Struct

from foregate.schemas.model_response import Block
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec


class Message(Struct, frozen=True):
    """One message. `calls` and `order` only on `assistant`; `call` (the answered call's own id) only on `tool`."""

    role: Literal["system", "user", "assistant", "tool"]
    text: str
    calls: tuple[ToolCall, ...] = ()
    call: str = ""
    order: Block | None = None


class ModelRequest(Struct, frozen=True):
    """What a model is asked. `schema` (name and JSON Schema) asks for strict JSON; `words_only` forbids calls.

    `purpose` is `chat`, `plan`, `critique`, `task_plan` or `plan_results`; adapters send it nowhere, deterministic
    models read it. Generation ends before any of the texts in `stop`, where the endpoint can do that; whoever reads the
    answer cuts it. `temperature` is 0 to 2 and `max_tokens` bounds the tokens of the response; None leaves either to
    the endpoint.
    """

    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    words_only: bool = False
    schema_name: str = ""
    schema: Mapping[str, Json] | None = None
    purpose: Literal["chat", "plan", "critique", "task_plan", "plan_results"] = "chat"
    temperature: float | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
