"""From our nouns to a Chat Completions request."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from foregate.agent.models.openai.endpoint import Api
from foregate.agent.models.openai.refusals import LIMITS
from foregate.schemas.message import ModelRequest, WireNames, format_messages
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import ToolSpec

ENCRYPTED = "reasoning.encrypted_content"
"""What is asked of Responses beside the answer: thoughts in a form that goes back, for the endpoint stores nothing."""
MAX_STOPS = 4
MAX_DESCRIPTION = 1024
FORMATS = ("json_schema", "json_object")
NOTES = {
    "json_schema": "the endpoint refuses strict JSON Schemas: JSON mode with the schema in the prompt was used",
    "json_object": "the endpoint refuses JSON mode too: only the prompt asked for JSON",
    "stream_options": "the endpoint refuses to report usage in a stream",
    "include": "the endpoint refuses to send its thoughts in a form that goes back",
    "temperature": "the endpoint refuses the temperature: its own was used",
    "max_tokens": "the endpoint refuses `max_tokens`: the bound on tokens was sent as `max_completion_tokens`",
    "max_completion_tokens": "the endpoint refuses `max_completion_tokens` too: no bound on tokens was sent",
    "long_descriptions": f"the endpoint refuses long tool descriptions: they were cut to {MAX_DESCRIPTION} characters",
}


class WireRequest:
    """A request ready to be written for the wire, again and again in simpler forms; `names` spells its tools'.

    `mark` is that of the endpoint which gets it, see `Endpoint.mark`, and `api` the API it is asked by.
    """

    def __init__(self, request: ModelRequest, mark: str = "", api: Api = "chat") -> None:
        self.request, self.mark, self.api = request, mark, api
        self.names = WireNames([spec.name for spec in request.tools])

    def build_body(self, model: str, *, stream: bool, declined: Collection[str] = ()) -> dict[str, Json]:
        """Return the body without the features `declined`; raise ModelError for a conversation no endpoint takes."""
        request = self.request
        form = next((form for form in FORMATS if form not in declined), "") if request.schema is not None else ""
        told = "" if request.schema is None or form == "json_schema" else _render_schema_request(request.schema)
        sent = format_messages(request.messages, self.names, self.mark, keep_own="own_fields" not in declined)
        messages = _add_to_system(sent, told)
        body: dict[str, Json] = {"model": model, "messages": messages}
        if request.tools:
            longest = MAX_DESCRIPTION if "long_descriptions" in declined else 0
            body["tools"] = [_build_tool(spec, self.names, longest) for spec in request.tools]
            body["tool_choice"] = "none" if request.words_only else "auto"
        if form == "json_schema":
            name = WireNames([request.schema_name or "answer"]).to_wire(request.schema_name or "answer")
            schema: Json = {"name": name, "strict": True, "schema": request.schema}
            body["response_format"] = {"type": form, "json_schema": schema}
        elif form:
            body["response_format"] = {"type": form}
        if request.stop and "stop" not in declined:
            body["stop"] = list(request.stop[:MAX_STOPS])
        if request.temperature is not None and "temperature" not in declined:
            body["temperature"] = request.temperature
        limit = next((name for name in LIMITS if name not in declined), "")
        if request.max_tokens is not None and limit:
            body[limit] = request.max_tokens
        if self.api == "responses" and "include" not in declined:
            body["include"] = [ENCRYPTED]
        if stream:
            body["stream"] = True
            if "stream_options" not in declined:
                body["stream_options"] = {"include_usage": True}
        return body

    def notes(self, stream: bool, declined: Collection[str]) -> tuple[str, ...]:
        """Return a sentence for each declined feature this request would have used."""
        used = {
            **dict.fromkeys(FORMATS, self.request.schema is not None),
            **dict.fromkeys(LIMITS, self.request.max_tokens is not None),
            "stream_options": stream,
            "include": self.api == "responses",
            "temperature": self.request.temperature is not None,
            "long_descriptions": any(len(spec.description) > MAX_DESCRIPTION for spec in self.request.tools),
        }
        return tuple(note for feature, note in NOTES.items() if feature in declined and used[feature])


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


def _build_tool(spec: ToolSpec, names: WireNames, longest: int) -> dict[str, Json]:
    description = spec.description
    if longest and len(description) > longest:
        description = f"{description[: longest - 4]} ..."
    parameters = spec.parameters or {"type": "object", "properties": {}}
    function: dict[str, Json] = {"name": names.to_wire(spec.name), "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _render_schema_request(schema: Mapping[str, Json]) -> str:
    text = json.dumps(schema, ensure_ascii=False, sort_keys=True, default=dict)
    return f"Answer with one JSON object and nothing else. It must fit this JSON Schema:\n{text}"


def _add_to_system(result: list[dict[str, Json]], told: str) -> list[dict[str, Json]]:
    """Return the messages with `told`, if there is any, at the end of the first system message."""
    if not told:
        return result
    if result and result[0]["role"] == "system":
        first = {**result[0], "content": f"{result[0]['content']}\n\n{told}"}
        return [first, *result[1:]]
    return [{"role": "system", "content": told}, *result]
