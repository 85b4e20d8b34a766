"""A model that writes its calls into its text: the dialect is taught to it, read from it and spoken to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from foregate.agent.dialects.text.dialect import Dialect, Reader
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import Follower, ModelResponse
from foregate.schemas.protocols import Model
from foregate.schemas.tool_spec import ToolSpec


class ModelWrapper:
    """What stands in front of a model and goes by its name."""

    def __init__(self, inner: Model) -> None:
        self.inner = inner

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self.inner.name


class DialectModel(ModelWrapper):
    """A `Model` over another one. Requests for strict JSON (planner, critic) pass through as they are."""

    def __init__(self, inner: Model, dialect: Dialect) -> None:
        super().__init__(inner)
        self.dialect = dialect

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; only words are handed to `on_text`, never tags. Raises ModelError as the model behind it does."""
        if request.schema is not None or request.purpose != "chat":
            return await self.inner.respond(request, on_text)
        shown = DialectFollower(lambda: self.dialect.build_reader(request.tools), on_text)
        said = await self.inner.respond(self.build_text_request(request), shown if on_text is not None else None)
        response = parse_response(said, self.dialect, request.tools)
        shown.end(response.text)
        return response

    def build_text_request(self, request: ModelRequest) -> ModelRequest:
        """Return the request without tools: they are taught in words, and past calls and answers are texts."""
        taught = () if request.words_only else request.tools
        section = self.dialect.build_section(taught) if taught else ""
        messages = list(render_messages(request.messages, self.dialect, section))
        return replace(request, messages=messages, tools=(), stop=self.dialect.stop if taught else ())


class RoundTripModel(ModelWrapper):
    """A model that answers by rules, made to say its calls in a dialect, which is then read as any other text."""

    def __init__(self, inner: Model, dialect: Dialect) -> None:
        super().__init__(inner)
        self.dialect = dialect

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; raises ModelError as the model behind it does."""
        response = await self.inner.respond(request, on_text)
        if request.schema is not None or request.purpose != "chat" or not response.calls:
            return response
        text = self.dialect.render_message(Message("assistant", response.text, response.calls, order=response.order))
        return parse_response(replace(response, text=text, calls=(), order=None), self.dialect, request.tools)


class DialectFollower(Follower):
    """Hands on the words and calls of a text in a dialect as they come; what is no word is never handed on as one."""

    def __init__(self, reader: Callable[[], Reader], to: Callable[[str], None] | None) -> None:
        super().__init__(to)
        self._new, self._reader, self._shown, self._told = reader, reader(), "", 0

    def __call__(self, piece: str) -> None:
        """The next piece of the text has come."""
        if words := self._reader.feed(piece):
            self._shown += words
            super().__call__(words)
        calls = self._reader.calls
        while self._told < len(calls):
            self._told += 1
            self.call(calls[self._told - 1])

    def restart(self, why: str) -> None:
        """The text begins again, and so does its reading."""
        self._reader, self._shown, self._told = self._new(), "", 0
        super().restart(why)

    def end(self, text: str) -> None:
        """Hand over what is left of the words, now that all of them are known."""
        if text.startswith(self._shown) and len(text) > len(self._shown):
            super().__call__(text[len(self._shown) :])


def parse_response(response: ModelResponse, dialect: Dialect, tools: Sequence[ToolSpec]) -> ModelResponse:
    """Return the response with its text read; calls the endpoint sent natively all the same stay in front."""
    reader = dialect.build_reader(tools)
    reader.feed(response.text)
    parsed = reader.close()
    calls = (*response.calls, *parsed.calls)
    finish = "tool_calls" if calls and response.finish_reason == "stop" else response.finish_reason
    return replace(
        response,
        text=parsed.text,
        calls=calls,
        reasoning="\n".join(part for part in (response.reasoning, parsed.reasoning) if part),
        order=parsed.order if not response.calls else None,
        deferred=parsed.deferred if not response.calls else (),
        finish_reason=finish,
        notes=(*response.notes, *parsed.notes),
    )


def render_messages(messages: Sequence[Message], dialect: Dialect, section: str) -> Iterator[Message]:
    """Yield a conversation as texts: the section joins the first system message, answers of one response are one."""
    names: dict[str, str] = {}
    answers: list[tuple[str, str]] = []
    taught = not section
    for message in messages:
        if message.role == "tool":
            answers.append((names.get(message.call, ""), message.text))
            continue
        if answers:
            yield Message("user", dialect.render_answers(answers))
            answers = []
        names.update((call.id, call.name) for call in message.calls)
        if message.role == "system" and not taught:
            taught = True
            yield Message("system", f"{message.text}\n\n{section}")
        elif message.calls:
            yield Message("assistant", dialect.render_message(message))
        else:
            yield message
    if answers:
        yield Message("user", dialect.render_answers(answers))
    if not taught:
        raise AssertionError("a conversation begins with a system message")
