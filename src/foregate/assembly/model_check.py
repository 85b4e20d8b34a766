"""Trying out a model's endpoint with a few small requests: what it does, and what it needs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from foregate.agent.loop.asking import compute_room
from foregate.agent.models.openai.model import OpenAIModel
from foregate.agent.session.compression import get_measure
from foregate.schemas.errors import ContextTooLong, ModelError
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import ToolSpec

_SYSTEM = "You are asked by a program that tries out what works. Do exactly what is asked, in as few words as you can."
_PARAMETERS: Mapping[str, Json] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "text": {"type": "string", "minLength": 1, "description": "The text to keep."},
        "how": {"anyOf": [{"type": "string", "enum": ["soon", "later"]}, {"type": "null"}], "default": None},
        "times": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["text"],
}
"""Holds the keywords that the schemas of tools usually have, so that one that is refused is found here."""
_TOOL = ToolSpec("foregate_trial", "Keep a text. It does nothing else.", _PARAMETERS)
_STRICT: Mapping[str, Json] = {
    "type": "object",
    "properties": {"ready": {"type": "boolean"}},
    "required": ["ready"],
    "additionalProperties": False,
}
_NOT_ASKED = "not asked"


@dataclass
class Trial:
    """One thing that was tried: how it went, why, and what to do about it; "" for nothing."""

    name: str
    state: str = _NOT_ASKED
    why: str = ""
    cure: str = ""


@dataclass
class ModelCheck:
    """Tries out a model. `requests` and `usage` count what was asked; further forms of a request are among its own."""

    model: OpenAIModel
    usage: Usage = field(default_factory=Usage)
    requests: int = 0

    async def run(self, long: int = 0) -> list[Trial]:
        """Ask at most four small requests, and a long one of so many tokens unless that is 0; return what was tried.

        Where not even words come, nothing more is asked.
        """
        words, call, answer, schema = (Trial(name) for name in ("words", "a call", "its answer", "a strict schema"))
        size = Trial("a long conversation", why="" if long else "ask with `--long`")
        talk = [Message("system", _SYSTEM), Message("user", "Answer with the one word `ready`.")]
        pieces: list[str] = []
        said = await self._try(words, ModelRequest(talk), pieces.append)
        if said is not None:
            words.state = "works" if said.text.strip() else "says nothing"
            words.why = "it streams" if len(pieces) > 1 else "its answers come in one piece"
            await self._try_call(call, answer)
            await self._try_schema(schema)
            if long:
                await self._try_long(size, long)
        return [words, call, answer, schema, size]

    async def _try(
        self, trial: Trial, request: ModelRequest, on_text: Callable[[str], None] | None = None
    ) -> ModelResponse | None:
        self.requests += 1
        try:
            response = await self.model.respond(request, on_text)
        except ModelError as error:
            trial.state = "fails"
            trial.why, _, trial.cure = str(error).rpartition("; ") if "; " in str(error) else (str(error), "", "")
            return None
        self._count(response)
        return response

    def _count(self, response: ModelResponse) -> None:
        one, other = self.usage, response.usage
        tokens = one.input_tokens + other.input_tokens, one.output_tokens + other.output_tokens
        self.usage = Usage(*tokens, one.cost + other.cost)

    async def _try_call(self, call: Trial, answer: Trial) -> None:
        asked = Message("user", f"Call the tool `{_TOOL.name}` with the text `ready`. Say nothing else.")
        talk = [Message("system", _SYSTEM), asked]
        said = await self._try(call, ModelRequest(talk, [_TOOL]))
        if said is None:
            return
        if not said.calls:
            call.state, call.why = "makes none", "it answered in words" if said.text.strip() else "it said nothing"
            call.cure = "try `--dialect auto`, which reads calls in words, or another model"
            return
        said = said.stamp_calls(1)
        first = said.calls[0]
        right = first.name == _TOOL.name and first.arguments is not None and first.arguments.get("text") == "ready"
        call.state = "works" if right else "is made badly"
        call.why = "" if right else f"it called `{first.name[:64]}` with {first.raw[:80] or 'nothing'}"
        own = said.wire.with_reasoning(said.reasoning) if said.wire is not None else None
        talk += [Message("assistant", said.text, said.calls, wire=own)]
        talk += [Message("tool", '{"ok":true,"output":"kept"}', call=one.id) for one in said.calls]
        told = await self._try(answer, ModelRequest([*talk, Message("user", "Answer with the word `done`.")], [_TOOL]))
        if told is not None:
            answer.state = "works" if told.text.strip() or told.calls else "says nothing"

    async def _try_schema(self, schema: Trial) -> None:
        talk = [Message("system", _SYSTEM), Message("user", "Say in JSON that you are ready.")]
        said = await self._try(schema, ModelRequest(talk, words_only=True, schema_name="trial", schema=_STRICT))
        if said is None:
            return
        known = self.model.list_learnt()
        schema.state = "works"
        if "json_schema" in known:
            schema.state = "in words only" if "json_object" in known else "as JSON mode"
        try:
            fits = isinstance(json.loads(said.text).get("ready"), bool)
        except (ValueError, AttributeError, RecursionError):
            fits = False
        if not fits:
            schema.state = "is taken and not kept" if schema.state == "works" else schema.state
            schema.why = "what came does not fit it; planner and critic read what they can, and ask once more"

    async def _try_long(self, size: Trial, tokens: int) -> None:
        measure = get_measure(self.model.name)
        filler = "A line of words that fills the conversation.\n"
        text = filler * max(1, tokens // max(1, measure.of(filler)))
        request = ModelRequest([Message("system", _SYSTEM), Message("user", f"{text}\nAnswer with the word `ready`.")])
        self.requests += 1
        try:
            said = await self.model.respond(request)
        except ContextTooLong as refused:
            room = compute_room(refused, request, measure)
            size.state = f"takes at most {refused.limit} tokens" if refused.limit else "is refused"
            size.why = f"{tokens} were sent; from now on conversations are kept within {room}" if refused.limit else ""
            if refused.limit and room:
                self.model.learn_room(room)
        except ModelError as error:
            size.state, size.why = "fails", str(error)
        else:
            self._count(said)
            size.state = f"takes {said.usage.input_tokens or tokens} tokens"
