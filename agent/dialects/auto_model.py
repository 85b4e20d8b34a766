"""A model of which nobody knows how it makes its calls: natively where it does, else as its text shows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from foregate.agent.dialects.dialect import Dialect
from foregate.agent.dialects.dialect_model import DialectModel, Shown, understood
from foregate.schemas.errors import ToolsRefused
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Model


class AutoModel:
    """A `Model` over another one. It is offered the tools natively; calls found in a text without such are taken.

    The first of `dialects` that finds a call in the text reads it. An endpoint that refuses tools is taught the last
    dialect from then on.
    """

    def __init__(self, inner: Model, dialects: Sequence[Dialect]) -> None:
        self.inner, self._dialects = inner, dialects
        self._taught: DialectModel | None = None

    @property
    def name(self) -> str:
        """The name of the model behind it."""
        return self.inner.name

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; raises ModelError as the model behind it does."""
        if request.schema is not None or request.purpose != "chat":
            return await self.inner.respond(request, on_text)
        if self._taught is None:
            shown = Shown(self._dialects[-1].reader(request.tools), on_text)
            try:
                response = await self.inner.respond(request, shown.feed if on_text is not None else None)
            except ToolsRefused:
                self._taught = DialectModel(self.inner, self._dialects[-1])
            else:
                response = self.read(response, request)
                shown.end(response.text)
                return response
        return await self._taught.respond(request, on_text)

    def read(self, response: ModelResponse, request: ModelRequest) -> ModelResponse:
        """Return the response with the calls of its text where it made none natively and may make some."""
        if response.calls or request.words_only or not request.tools:
            return response
        found = (understood(response, dialect, request.tools) for dialect in self._dialects)
        return next((one for one in found if one.calls), response)
