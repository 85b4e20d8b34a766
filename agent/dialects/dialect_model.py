"""A model that writes its calls into its text: the dialect is taught to it, read from it and spoken to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from io import SEEK_END, StringIO
from itertools import groupby
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.dialects.dialect import Dialect, DialectName, Names, ParsedResponse, ReadableDialect, Reader
from foregate.agent.dialects.foreign_calls import ForeignFollower, take_response
from foregate.agent.dialects.json_dialect import JsonDialect
from foregate.agent.dialects.prose import may_be_bare, refuse_bare_markup
from foregate.agent.dialects.token_reader import TokenFormats, TokenReader, refuse_calls
from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.agent.session.compression import strip_thoughts
from foregate.schemas.errors import ToolsRefused, UsageError
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import Follower, ModelResponse
from foregate.schemas.protocols import LearningModel, Model
from foregate.schemas.strict_json import get_object
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec

_TOKENS: ReadableDialect = TokenFormats()
_WAITING = 1000
"""Characters without a word that are not shown yet."""


class ModelWrapper:
    """A `Model` over another one, by whose name it goes. Requests for strict JSON (planner, critic) pass through.

    However the calls are said, those of other agents' tools are taken for ours; `names` are those of the configuration.
    """

    def __init__(self, inner: Model, names: Names | None = None) -> None:
        self.inner, self.names = inner, names or Names()

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self.inner.name

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; only words are handed to `on_text`, never tags. Raises ModelError as the model behind it does."""
        if request.schema is not None or request.purpose != "chat":
            return await self.inner.respond(request, on_text)
        if isinstance(on_text, Follower):
            on_text = ForeignFollower(request.tools, self.names, on_text)
        return take_response(await self._respond(request, on_text), request.tools, self.names)

    async def _respond(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> ModelResponse:
        known = self._list_tool_names(request) if request.tools else frozenset[str]()
        shown = DialectFollower(lambda: TokenReader(request.tools), on_text, known)
        said = await self.inner.respond(request, shown if on_text is not None else None)
        response = refuse_calls(said, request.tools)
        if request.tools:
            response = refuse_bare_markup(response, known)
        shown.end(response.text)
        return response

    def _list_tool_names(self, request: ModelRequest) -> frozenset[str]:
        return frozenset((*(spec.name for spec in request.tools), *self.names.tags))


class DialectModel(ModelWrapper):
    """A model that is taught a dialect."""

    def __init__(self, inner: Model, dialect: Dialect, names: Names | None = None) -> None:
        super().__init__(inner, names)
        self.dialect = dialect

    async def _respond(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> ModelResponse:
        shown = DialectFollower(lambda: self.dialect.build_reader(request.tools), on_text)
        said = await self.inner.respond(self._build_text_request(request), shown if on_text is not None else None)
        response = refuse_bare_markup(parse_response(said, self.dialect, request.tools))
        shown.end(response.text)
        return response

    def _build_text_request(self, request: ModelRequest) -> ModelRequest:
        """Return the request without tools: they are taught in words, and past calls and answers are texts."""
        taught = () if request.words_only else request.tools
        section = self.dialect.build_section(taught) if taught else ""
        messages = list(render_messages(request.messages, self.dialect, section))
        return replace(request, messages=messages, tools=(), stop=self.dialect.stop if taught else ())


class RoundTripModel(DialectModel):
    """A model that answers by rules, made to say its calls in a dialect, which is then read as any other text."""

    async def _respond(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> ModelResponse:
        response = await self.inner.respond(request, on_text)
        if not response.calls:
            return response
        text = self.dialect.render_message(Message("assistant", response.text, response.calls, order=response.order))
        return parse_response(replace(response, text=text, calls=(), order=None), self.dialect, request.tools)


class DialectFollower(Follower):
    """Hands on the words and calls of a text in a dialect as they come; what is no word is never handed on as one.

    Tags of no tool and names of results wait for a word; `known` is as in `find_bare_markup`.
    """

    def __init__(
        self, reader: Callable[[], Reader], to: Callable[[str], None] | None, known: frozenset[str] | None = None
    ) -> None:
        super().__init__(to)
        self._known = known
        self._new, self._reader, self._shown, self._waiting, self._told = reader, reader(), "", "", 0

    def __call__(self, piece: str) -> None:
        """The next piece of the text has come."""
        self._waiting += self._reader.feed(piece)
        waits = not self._shown and len(self._waiting) <= _WAITING and may_be_bare(self._waiting, self._known)
        if self._waiting and not waits:
            self._shown += self._waiting
            super().__call__(self._waiting)
            self._waiting = ""
        calls = self._reader.calls
        while self._told < len(calls):
            self._told += 1
            self.call(calls[self._told - 1])

    def restart(self, why: str) -> None:
        """The text begins again, and so does its reading."""
        self._reader, self._shown, self._waiting, self._told = self._new(), "", "", 0
        super().restart(why)

    def end(self, text: str) -> None:
        """Hand over what is left of the words, now that all of them are known."""
        if text.startswith(self._shown) and len(text) > len(self._shown):
            super().__call__(text[len(self._shown) :])


def parse_response(response: ModelResponse, dialect: ReadableDialect, tools: Sequence[ToolSpec]) -> ModelResponse:
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
        raw=response.text if parsed.calls else response.raw,
    )


def render_messages(messages: Sequence[Message], dialect: Dialect, section: str) -> Iterator[Message]:
    """Yield a conversation as texts: the section joins the first system message, answers of one response are one."""
    names: dict[str, str] = {}
    taught = not section
    for are_answers, group in groupby(messages, lambda message: message.role == "tool"):
        if are_answers:
            answers = [(names.get(message.call, ""), message.text) for message in group]
            yield Message("user", dialect.render_answers(answers))
            continue
        for message in group:
            names.update((call.id, call.name) for call in message.calls)
            if message.role == "system" and not taught:
                taught = True
                yield Message("system", f"{message.text}\n\n{section}")
            elif message.calls:
                yield Message("assistant", dialect.render_message(message))
            else:
                yield message
    if not taught:
        raise AssertionError("a conversation begins with a system message")


class AutoModel(ModelWrapper):
    """A model that is offered the tools natively; where it calls none, calls found in its text are taken.

    An endpoint that refuses tools is taught the first of `dialects` from then on; else words are shown as they come, as
    far as none of the dialects reads anything else. Among dialects that read a text equally well, the first is taken.
    """

    def __init__(self, inner: Model, dialects: Sequence[Dialect], names: Names | None = None) -> None:
        super().__init__(inner, names)
        self._dialects = dialects
        self._taught: DialectModel | None = None

    async def _respond(self, request: ModelRequest, on_text: Callable[[str], None] | None) -> ModelResponse:
        learning = self.inner if isinstance(self.inner, LearningModel) else None
        if self._taught is None and learning is not None and request.tools and not learning.takes_tools:
            self._taught = DialectModel(self.inner, self._dialects[0], self.names)
        if self._taught is None:
            known = self._list_tool_names(request)
            shown = DialectFollower(
                lambda: ConsensusReader([one.build_reader(request.tools) for one in (_TOKENS, *self._dialects)]),
                on_text,
                known,
            )
            try:
                response = await self.inner.respond(request, shown if on_text is not None else None)
            except ToolsRefused:
                if learning is not None:
                    learning.learn_no_tools()
                self._taught = DialectModel(self.inner, self._dialects[0], self.names)
            else:
                read = refuse_calls(self._read_calls(strip_thoughts(response), request), request.tools)
                response = refuse_bare_markup(read, known)
                shown.end(response.text.lstrip())
                return response
        return await self._taught.respond(request, on_text)

    def _read_calls(self, response: ModelResponse, request: ModelRequest) -> ModelResponse:
        """Return the response with the calls of its text where it made none natively and may make some.

        What one dialect wrote into an argument may look like a call of another, so the text is taken in the one whose
        calls hold those of all others; then in one whose calls are such as the tools take.
        """
        if response.calls or request.words_only or not request.tools:
            return response
        every = [(one, parse_response(response, one, request.tools)) for one in (_TOKENS, *self._dialects)]
        found = [(dialect, one) for dialect, one in every if one.calls]
        if len(found) < 2:
            return found[0][1] if found else response

        def rate(one: ModelResponse) -> tuple[int, bool]:
            left, others = ModelResponse(text=one.text), [dialect for dialect, other in found if other != one]
            outside = sum(bool(parse_response(left, dialect, request.tools).calls) for dialect in others)
            return outside, not _has_only_known_calls(one, request.tools)

        return min((one for _, one in found), key=rate)


def _has_only_known_calls(response: ModelResponse, tools: Sequence[ToolSpec]) -> bool:
    known = {spec.name: get_object(spec.parameters, "properties").keys() for spec in tools}
    read = [(call.name, call.arguments) for call in response.calls]
    return all(arguments is not None and arguments.keys() <= known.get(name, set()) for name, arguments in read)


class ConsensusReader:
    """A `Reader` that shows a text, but for blanks at its beginning, as far as all `readers` take it for words."""

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._sides = [_ReaderProgress(reader) for reader in readers]
        self._text = StringIO()
        self._shown = 0

    @property
    def calls(self) -> Sequence[ToolCall]:
        """None: what one dialect reads as a call may be an argument in another, which is known at the end."""
        return ()

    def feed(self, text: str) -> str:
        self._text.seek(0, SEEK_END)
        self._text.write(text if self._text.tell() else text.lstrip())
        agreed = min(side.follow(text, self._text) for side in self._sides)
        self._text.seek(self._shown)
        words = self._text.read(agreed - self._shown)
        self._shown = agreed
        return words

    def close(self) -> ParsedResponse:
        """Return the text as words: what it says is up to the dialect that is chosen."""
        return ParsedResponse(self._text.getvalue())


class _ReaderProgress(Struct):
    """A reader, and how much of a text it has shown as it is."""

    reader: Reader
    same: int = 0
    parted: bool = False

    def follow(self, piece: str, text: StringIO) -> int:
        """Read the next piece of `text`, and return how many of its characters were shown."""
        words = self.reader.feed(piece)
        if words and not self.parted:
            text.seek(self.same)
            there = text.read(len(words))
            pairs = enumerate(zip(words, there, strict=False))
            size = next((at for at, (one, other) in pairs if one != other), len(there))
            self.same += size
            self.parted = size < len(words)
        return self.same


def build_dialect_model(model: Model, name: str, names: Names | None = None, *, shell: bool = False) -> Model:
    """Return a model that makes its calls in a dialect; `native` is the way of its endpoint.

    `names` are those of the configuration; with `shell`, the policy's word, `execute_command` is a line for a shell.
    The rehearsal model, which reads no prompt, is interpreted. Raises UsageError for an unknown dialect.
    """
    known = get_args(DialectName)
    if name not in known:
        raise UsageError(f"there is no dialect `{name[:40]}`; choose one of {', '.join(known)}")
    if name == "native":
        return ModelWrapper(model, names)
    dialects = build_dialects(names, shell=shell)
    if name == "auto":
        return AutoModel(model, tuple(dialects.values()), names)
    speaking = RoundTripModel if isinstance(model, RehearsalModel) else DialectModel
    return speaking(model, dialects[name], names)


def build_dialects(names: Names | None = None, *, shell: bool = False) -> Mapping[str, Dialect]:
    """Return the dialects that are written into text, by name; those taken first are first."""
    # Most models speak natively.
    from foregate.agent.dialects.tag_dialects import ActionTags, ServiceTags

    return {"json": JsonDialect(), "service_tags": ServiceTags(names), "action_tags": ActionTags(names, shell=shell)}
