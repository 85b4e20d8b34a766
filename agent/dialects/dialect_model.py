"""A model that writes its calls into its text: the dialect is taught to it, read from it and spoken to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from foregate.agent.dialects.dialect import Dialect
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model


class DialectModel:
    """A `Model` over another one. Requests for strict JSON (planner, critic) pass through as they are."""

    def __init__(self, inner: Model, dialect: Dialect) -> None:
        self.inner, self.dialect = inner, dialect

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self.inner.name

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; only words are handed to `on_text`, never tags. Raises ModelError as the model behind it does."""
        if request.schema is not None or request.purpose != "chat":
            return await self.inner.respond(request, on_text)
        if on_text is None:
            return self.understood(await self.inner.respond(self.translated(request)), request)
        reader, shown = self.dialect.reader(request.tools), ""

        def show(piece: str) -> None:
            nonlocal shown
            if words := reader.feed(piece):
                shown += words
                on_text(words)

        response = self.understood(await self.inner.respond(self.translated(request), show), request)
        if response.text.startswith(shown) and len(response.text) > len(shown):
            on_text(response.text[len(shown) :])
        return response

    def translated(self, request: ModelRequest) -> ModelRequest:
        """Return the request without tools: they are taught in words, and past calls and answers are texts."""
        taught = () if request.words_only else request.tools
        section = self.dialect.section(taught) if taught else ""
        messages = list(spoken(request.messages, self.dialect, section))
        return replace(request, messages=messages, tools=(), stop=self.dialect.stop if taught else ())

    def understood(self, response: ModelResponse, request: ModelRequest) -> ModelResponse:
        """Return the response with its text read; calls the endpoint sent natively all the same stay in front."""
        reader = self.dialect.reader(request.tools)
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


def spoken(messages: Sequence[Message], dialect: Dialect, section: str) -> Iterator[Message]:
    """Yield a conversation as texts: the section joins the first system message, answers of one response are one."""
    names: dict[str, str] = {}
    answers: list[tuple[str, str]] = []
    taught = not section
    for message in messages:
        if message.role == "tool":
            answers.append((names.get(message.call, ""), message.text))
            continue
        if answers:
            yield Message("user", dialect.answered(answers))
            answers = []
        names.update((call.id, call.name) for call in message.calls)
        if message.role == "system" and not taught:
            taught = True
            yield Message("system", f"{message.text}\n\n{section}")
        elif message.calls:
            yield Message("assistant", dialect.said(message))
        else:
            yield message
    if answers:
        yield Message("user", dialect.answered(answers))
    if not taught:
        raise AssertionError("a conversation begins with a system message")
