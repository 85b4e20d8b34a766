"""The dialects by their names, and a model that speaks one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import SEEK_END, StringIO
from typing import get_args

from foregate.agent.dialects.dialect_model import (
    DialectFollower,
    DialectModel,
    ModelWrapper,
    RoundTripModel,
    parse_response,
)
from foregate.agent.dialects.json.dialect import JsonDialect
from foregate.agent.dialects.tags.names import Names
from foregate.agent.dialects.tags.tag_dialects import ActionTags, ServiceTags
from foregate.agent.dialects.text.dialect import Dialect, DialectName, ParsedResponse, Reader
from foregate.agent.models.rehearsal.model import RehearsalModel
from foregate.agent.session.thinking import strip_thoughts
from foregate.schemas.errors import ToolsRefused, UsageError
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import get_object
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec


class AutoModel(ModelWrapper):
    """A `Model` over another one. It is offered the tools natively; calls found in a text without such are taken.

    An endpoint that refuses tools is taught the first of `dialects` from then on; else words are shown as they come, as
    far as none of the dialects reads anything else. Among dialects that read a text equally well, the first is taken.
    """

    def __init__(self, inner: Model, dialects: Sequence[Dialect]) -> None:
        super().__init__(inner)
        self._dialects = dialects
        self._taught: DialectModel | None = None

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; raises ModelError as the model behind it does."""
        if request.schema is not None or request.purpose != "chat":
            return await self.inner.respond(request, on_text)
        if self._taught is None:
            shown = DialectFollower(
                lambda: ConsensusReader([dialect.build_reader(request.tools) for dialect in self._dialects]), on_text
            )
            try:
                response = await self.inner.respond(request, shown if on_text is not None else None)
            except ToolsRefused:
                self._taught = DialectModel(self.inner, self._dialects[0])
            else:
                response = self.read_calls(strip_thoughts(response), request)
                shown.end(response.text.lstrip())
                return response
        return await self._taught.respond(request, on_text)

    def read_calls(self, response: ModelResponse, request: ModelRequest) -> ModelResponse:
        """Return the response with the calls of its text where it made none natively and may make some.

        What one dialect wrote into an argument may look like a call of another, so the text is taken in the one whose
        calls hold those of all others; then in one whose calls are such as the tools take.
        """
        if response.calls or request.words_only or not request.tools:
            return response
        every = [(dialect, parse_response(response, dialect, request.tools)) for dialect in self._dialects]
        found = [(dialect, one) for dialect, one in every if one.calls]
        if len(found) < 2:
            return found[0][1] if found else response

        def outside(one: ModelResponse) -> int:
            left = ModelResponse(text=one.text)
            return sum(
                bool(parse_response(left, dialect, request.tools).calls) for dialect, other in found if other != one
            )

        return min(
            (one for _, one in found), key=lambda one: (outside(one), not has_only_known_calls(one, request.tools))
        )


def has_only_known_calls(response: ModelResponse, tools: Sequence[ToolSpec]) -> bool:
    """Whether all calls name tools there are and arguments these know."""
    known = {spec.name: get_object(spec.parameters, "properties").keys() for spec in tools}
    read = [(call.name, call.arguments) for call in response.calls]
    return all(arguments is not None and arguments.keys() <= known.get(name, set()) for name, arguments in read)


class ConsensusReader:
    """A `Reader` that has others read along, and shows the text as far as all of them take it for words.

    What any of them takes for a call, a thought or a mark is left out by it, so its words part from the text there.
    Blanks at the beginning are not shown.
    """

    def __init__(self, readers: Sequence[Reader]) -> None:
        self._sides = [_ReaderProgress(reader) for reader in readers]
        self._text = StringIO()
        self._shown = 0

    @property
    def calls(self) -> Sequence[ToolCall]:
        """None: what one dialect reads as a call may be an argument in another, which is known at the end."""
        return ()

    def feed(self, text: str) -> str:
        """Take in the next piece; return the words in it that may be shown now."""
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


class _ReaderProgress:
    """A reader, and how much of a text it has shown as it is."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._same = 0
        self._parted = False

    def follow(self, piece: str, text: StringIO) -> int:
        """Read the next piece of `text`, and return how many of its characters were shown."""
        words = self._reader.feed(piece)
        if words and not self._parted:
            text.seek(self._same)
            there = text.read(len(words))
            parts = (at for at, (one, other) in enumerate(zip(words, there, strict=False)) if one != other)
            size = next(parts, len(there))
            self._same += size
            self._parted = size < len(words)
        return self._same


DIALECTS: tuple[str, ...] = get_args(DialectName)


def build_dialect_model(model: Model, name: str, names: Names | None = None, *, shell: bool = False) -> Model:
    """Return a model that makes its calls in a dialect; `native` is the model itself.

    `names` are those of the configuration; with `shell`, the policy's word, `execute_command` is a line for a shell.
    The rehearsal model, which reads no prompt, is interpreted. Raises UsageError for a dialect nobody knows.
    """
    if name not in DIALECTS:
        raise UsageError(f"there is no dialect `{name[:40]}`; choose one of {', '.join(DIALECTS)}")
    if name == "native":
        return model
    if name == "auto":
        return AutoModel(model, (JsonDialect(), ServiceTags(names), ActionTags(names, shell=shell)))
    dialect = build_dialect(name, names, shell=shell)
    return RoundTripModel(model, dialect) if isinstance(model, RehearsalModel) else DialectModel(model, dialect)


def build_dialect(name: str, names: Names | None = None, *, shell: bool = False) -> Dialect:
    """Return the dialect of a name, of those that are written into text."""
    match name:
        case "json":
            return JsonDialect()
        case "action_tags":
            return ActionTags(names, shell=shell)
        case _:
            return ServiceTags(names)
