"""A tool: what is known of it and the function that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from foregate.agent.tools.tool_source import BaseToolSource
from foregate.agent.workspace.confine import confine_to_survey
from foregate.schemas.errors import ForegateError, InvalidJson, RuntimeLost, UsageError, WorkspaceError
from foregate.schemas.protocols import FileChange, Inverse, RunContext
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ToolSpec

Run = Callable[[Mapping[str, Json]], Awaitable[ToolResult]]
Classify = Callable[[Mapping[str, Json]], Effect | None]
FillArguments = Callable[[Mapping[str, Json]], Mapping[str, Json]]


PreviewCall = Callable[[Mapping[str, Json]], Sequence[FileChange]]
"""Works out a call's changes without making them; raises what running would raise, and touches nothing."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A specification, the function behind it, and the tool's own view of a call's effect, which may only raise it.

    `inverse` serves undo where the tool changes resources of kind `other`; `preview` shows a person the changes.
    `fill_arguments` works out from the workspace what a call leaves to the tool (the command of `run_tests`, the
    address behind a remote's name), so that this is what is judged; it gets arguments nobody has checked, and raises
    WorkspaceError where nothing can be worked out. `offered` says whether the tool is still there; None is always.
    """

    spec: ToolSpec
    run: Run
    classify: Classify | None = None
    inverse: Inverse | None = None
    preview: PreviewCall | None = None
    fill_arguments: FillArguments | None = None
    offered: Callable[[], bool] | None = None


class Toolbox(BaseToolSource):
    """A tool source over tools of this process; raises UsageError where two share a name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.spec.name in self._tools:
                raise UsageError(f"two tools are named `{tool.spec.name}`; rename one")
            self._tools[tool.spec.name] = tool
        self._lasting = all(tool.offered is None for tool in self._tools.values())
        self._specs = tuple(tool.spec for tool in self._tools.values())

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools in the order they were given, without those that are gone; the same ones where none goes."""
        if self._lasting:
            return self._specs
        return [tool.spec for tool in self._tools.values() if tool.offered is None or tool.offered()]

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the tool's own view of the effect; a classifier that fails, or names no effect, says the worst."""
        tool = self._tools.get(call.name)
        if tool is None or tool.classify is None or call.arguments is None:
            return None
        try:
            found = tool.classify(_give_arguments(tool, call))
            return Effect(found) if found is not None else None
        except (Exception, SystemExit):
            return Effect.UNKNOWN

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        """Return what the tool would fill into a call; raise WorkspaceError where it cannot tell."""
        tool = self._tools.get(call.name)
        if tool is None or tool.fill_arguments is None or call.arguments is None:
            return {}
        try:
            return tool.fill_arguments(_give_arguments(tool, call))
        except Exception as error:
            if isinstance(error, ForegateError) and not isinstance(error, InvalidJson):
                raise
            raise WorkspaceError(f"what `{call.name}` would do with these arguments cannot be told") from None

    def inverse(self, tool: str) -> Inverse | None:
        """Return how a tool's own resources are put back, None where they cannot be."""
        known = self._tools.get(tool)
        return known.inverse if known is not None else None

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        """Return what the call would make of files, none where its tool cannot say; raises what running would."""
        tool = self._tools.get(call.name)
        if tool is None or tool.preview is None or call.arguments is None:
            return ()
        return tool.preview(_give_arguments(tool, call))

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Run the call; what the tool raises is a failure the model reads, RuntimeLost alone is passed on."""
        tool = self._tools[call.name]
        try:
            with confine_to_survey(context.survey):
                return await tool.run(_give_arguments(tool, call))
        except RuntimeLost:
            raise
        except ForegateError as error:
            return ToolResult(False, str(error), error=type(error).__name__)


def _give_arguments(tool: Tool, call: ToolCall) -> Mapping[str, Json]:
    """Return the arguments; to a user's tool a copy, for what it does to them must reach no call that is judged."""
    given = call.arguments or {}
    return deepcopy(dict(given)) if tool.spec.provenance == "python" else given
