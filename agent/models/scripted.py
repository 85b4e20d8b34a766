"""A model and a person that do what a script says, for tests. They fail on steps missing or left over."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.judgement import Need
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import Follower, ModelResponse, Usage
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

Step = ModelResponse | Exception | Callable[[ModelRequest], ModelResponse]


class ScriptError(ForegateError):
    """The script and what the loop asked do not fit; a fault of the script or of the loop, never retried."""


@dataclass
class ScriptedModel:
    """Plays `steps` in order; a step may be a response, an exception to raise, or a function of the request.

    Call `finish` at the end: it raises ScriptError when steps are left over. `requests` keeps what was asked.
    """

    steps: Iterable[Step]
    name: str = "scripted"
    requests: list[ModelRequest] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rest = list(self.steps)[::-1]

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next step's response, its words and calls handed on; raise ScriptError when the script is over."""
        self.requests.append(request)
        if not self._rest:
            raise ScriptError(f"the script is over, and the model was asked for a {request.purpose} response once more")
        step = self._rest.pop()
        if isinstance(step, Exception):
            raise step
        response = step(request) if callable(step) else step
        if on_text is not None and response.text:
            on_text(response.text)
        if isinstance(on_text, Follower):
            for call in response.calls:
                on_text.call(call)
        return response

    def finish(self) -> None:
        """Raise ScriptError when the loop ended before the script."""
        if self._rest:
            raise ScriptError(f"{len(self._rest)} steps of the script were never asked for")


def says(text: str) -> ModelResponse:
    """Return a response of words only."""
    return ModelResponse(text, usage=Usage(0, len(text) // 4 + 1))


def calls(*wanted: tuple[str, Mapping[str, Json]], text: str = "") -> ModelResponse:
    """Return a response with (tool name, arguments) calls and perhaps words before them."""
    made = tuple(ToolCall.of(name, arguments) for name, arguments in wanted)
    return ModelResponse(text, made, finish_reason="tool_calls")


def answers(value: Mapping[str, Json]) -> ModelResponse:
    """Return a response whose text is strict JSON, as planner and critic give it."""
    return ModelResponse(strict_json.canonical(value).decode())


Answer = Reply | str | None | Callable[[Need], Reply | None]


@dataclass
class ScriptedPerson:
    """Gives `replies` in order: a Reply, a choice, None for not now, or a function of the need.

    Call `finish` at the end: it raises ScriptError when replies are left over. `needs` keeps what was asked.
    """

    replies: Iterable[Answer]
    needs: list[Need] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rest = list(self.replies)[::-1]

    async def answer(self, need: Need) -> Reply | None:
        """Return the next reply; raise ScriptError when the script is over."""
        self.needs.append(need)
        if not self._rest:
            raise ScriptError(f"the script is over, and the person was asked once more (by `{need.gate}`)")
        reply = self._rest.pop()
        if callable(reply):
            return reply(need)
        return Reply(reply) if isinstance(reply, str) else reply

    def finish(self) -> None:
        """Raise ScriptError when the session ended before the script."""
        if self._rest:
            raise ScriptError(f"{len(self._rest)} replies of the script were never asked for")
