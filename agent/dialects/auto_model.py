"""A model of which nobody knows how it makes its calls: natively where it does, else as its text shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foregate.agent.dialects.agreed import ConsensusReader
from foregate.agent.dialects.dialect_model import DialectFollower, DialectModel, ModelWrapper, parse_response
from foregate.agent.dialects.text.dialect import Dialect
from foregate.agent.session.thinking import strip_thoughts
from foregate.schemas.errors import ToolsRefused
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import get_object
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
