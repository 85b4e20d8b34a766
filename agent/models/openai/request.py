"""From our nouns to a Chat Completions request."""

from __future__ import annotations

import json
from collections.abc import Mapping

from foregate.agent.models.openai.abilities import describe, simplify
from foregate.agent.models.openai.ability import LIMITS, Learnt
from foregate.agent.models.openai.endpoint import Api
from foregate.agent.models.openai.simpler_bodies import Body
from foregate.schemas.message import MAX_NAME, ModelRequest, WireNames, format_messages
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import ToolSpec

ENCRYPTED = "reasoning.encrypted_content"
"""What is asked of Responses beside the answer: thoughts in a form that goes back, for the endpoint stores nothing."""
MAX_STOPS = 4


class WireRequest:
    """A request ready to be written for the wire, again and again in simpler forms; `names` spells its tools'.

    `mark` is that of the endpoint which gets it, see `Endpoint.mark`, and `api` the API it is asked by.
    """

    def __init__(self, request: ModelRequest, mark: str = "", api: Api = "chat") -> None:
        self.request, self.mark, self.api = request, mark, api
        self.names = self._usual = WireNames([spec.name for spec in request.tools])

    def build_body(self, model: str, *, stream: bool, learnt: Learnt | None = None) -> tuple[Body, tuple[str, ...]]:
        """Return the body in the form that an endpoint takes, as far as that is known, and a sentence for each change.

        Raises ModelError for a conversation no endpoint takes.
        """
        request, learnt = self.request, learnt or {}
        notes = self._spell_names(learnt)
        body: dict[str, Json] = {"model": model, "messages": format_messages(request.messages, self.names, self.mark)}
        if request.tools:
            body["tools"] = [_build_tool(spec, self.names) for spec in request.tools]
            body["tool_choice"] = "none" if request.words_only else "auto"
        if request.schema is not None:
            name = WireNames([request.schema_name or "answer"]).to_wire(request.schema_name or "answer")
            schema: Json = {"name": name, "strict": True, "schema": request.schema}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        if request.stop:
            body["stop"] = list(request.stop[:MAX_STOPS])
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            body[LIMITS[0]] = request.max_tokens
        if self.api == "responses":
            body["include"] = [ENCRYPTED]
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        simpler, more = simplify(body, learnt)
        return simpler, (*notes, *more)

    def _spell_names(self, learnt: Learnt) -> tuple[str, ...]:
        """Spell the names of tools as the endpoint takes them; return a sentence where that is otherwise than usual."""
        found = [name for name in ("name_length", "plain_names") if name in learnt]
        if not found:
            self.names = self._usual
            return ()
        names, longest = [spec.name for spec in self.request.tools], learnt.get("name_length")
        most = longest if isinstance(longest, int) else MAX_NAME
        self.names = WireNames(names, most, plain="plain_names" in learnt)
        if all(self.names.to_wire(name) == self._usual.to_wire(name) for name in names):
            return ()
        return tuple(describe(name, learnt[name]) for name in found)


def encode_body(body: Mapping[str, Json]) -> bytes:
    """Return the body's JSON as UTF-8; lone surrogates become U+FFFD."""
    return mend_surrogates(json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=dict)).encode("utf-8")


def mend_surrogates(text: str) -> str:
    """Return `text` with surrogate pairs joined and lone surrogates replaced by U+FFFD."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _build_tool(spec: ToolSpec, names: WireNames) -> dict[str, Json]:
    parameters = spec.parameters or {"type": "object", "properties": {}}
    said: dict[str, Json] = {"name": names.to_wire(spec.name), "description": spec.description}
    return {"type": "function", "function": {**said, "parameters": parameters}}
