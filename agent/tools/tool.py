"""A tool: what is known of it and the function that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from foregate.schemas.effect import Effect
from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_result import ToolResult
from foregate.schemas.tool_spec import ToolSpec

Run = Callable[[Mapping[str, Json]], Awaitable[ToolResult]]
Classify = Callable[[Mapping[str, Json]], Effect | None]


class Inverse(Protocol):
    """How what a tool changes outside the workspace is kept and put back; ids are those of its resources."""

    def now(self, id: str) -> bytes | None:  # noqa: A002
        """Return what is there, None for nothing."""

    def put_back(self, id: str, data: bytes | None) -> None:  # noqa: A002
        """Make it what it was, None for nothing."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A specification, the function behind it, and the tool's own view of a call's effect, which may only raise it.

    `inverse` serves undo where the tool changes resources of kind `other`.
    """

    spec: ToolSpec
    run: Run
    classify: Classify | None = None
    inverse: Inverse | None = None


class Toolbox:
    """A tool source over tools of this process; raises UsageError where two share a name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.name in self._tools:
                raise UsageError(f"two tools are named `{tool.spec.name}`; rename one")
            self._tools[tool.spec.name] = tool

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools in the order they were given."""
        return [tool.spec for tool in self._tools.values()]

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the tool's own view of the effect; a classifier that fails says the worst."""
        tool = self._tools.get(call.name)
        if tool is None or tool.classify is None or call.arguments is None:
            return None
        try:
            return tool.classify(call.arguments)
        except Exception:
            return Effect.UNKNOWN

    def inverse(self, name: str) -> Inverse | None:
        """Return how a tool's own resources are put back, None where they cannot be."""
        tool = self._tools.get(name)
        return tool.inverse if tool is not None else None

    async def run(self, call: ToolCall) -> ToolResult:
        """Run the call; what the tool raises is a failure the model reads."""
        tool = self._tools[call.name]
        try:
            return await tool.run(call.arguments or {})
        except ForegateError as error:
            return ToolResult(False, str(error), error=type(error).__name__)


def inverse_of(tools: ToolSource, name: str) -> Inverse | None:
    """Return the inverse of a tool of any source; only sources of this process have one."""
    return tools.inverse(name) if isinstance(tools, Toolbox) else None
