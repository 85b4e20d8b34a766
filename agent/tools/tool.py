"""A tool: what is known of it and the function that runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass

from foregate.agent.workspace.workspace import confine_to_survey
from foregate.schemas.errors import ForegateError, InvalidJson, RuntimeLost, UsageError, WorkspaceError
from foregate.schemas.protocols import FileChange, Inverse, Reconciled, RunContext, ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ToolSpec


class BaseToolSource:
    """A source of tools to derive from. It needs `specs` and `run`; the rest has defaults, of which none loosens.

    Example:
        class Stock(foregate.BaseToolSource):
            def specs(self):
                return [foregate.ToolSpec("count", "Say how many are left.", {"type": "object"})]

            async def run(self, call, context):
                return foregate.ToolResult(True, "2")
    """

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools; a source without any is of no use."""
        raise NotImplementedError(f"{type(self).__name__} names no tools; define `specs`")

    def classify(self, call: ToolCall) -> Effect | None:
        """Return None: what the specification declares holds."""
        return None

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        """Return nothing: what a call says is all it does."""
        return {}

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        """Do nothing: what the tools touch lies here."""

    def survey(self, call: ToolCall) -> Survey | None:
        """Return None: what the tools touch lies here."""
        return None

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        """Return nothing: nobody knows beforehand."""
        return ()

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Run the call."""
        raise NotImplementedError(f"{type(self).__name__} runs nothing; define `run`")

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return None: a call whose outcome is unknown stays unknown."""
        return None

    def inverse(self, tool: str) -> Inverse | None:
        """Return None: what the tools change outside the workspace cannot be undone."""
        return None

    def for_session(self, session: str) -> ToolSource:
        """Return the source itself: it serves all sessions alike."""
        return self


class WrappedToolSource(BaseToolSource):
    """A source that does what another does, for those that add to it or change a part of it."""

    def __init__(self, inner: ToolSource) -> None:
        self.inner = inner

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of the inner source."""
        return self.inner.specs()

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the inner source's view."""
        return self.inner.classify(call)

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        """Return what the inner source's tool would fill in."""
        return self.inner.fill_arguments(call)

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        """Have the inner source survey calls."""
        await self.inner.refresh(calls)

    def survey(self, call: ToolCall) -> Survey | None:
        """Return what the inner source found."""
        return self.inner.survey(call)

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        """Return what the inner source foresees."""
        return self.inner.preview(call)

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Have the inner source run the call."""
        return await self.inner.run(call, context)

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return what the inner source knows of a call."""
        return await self.inner.reconcile(call, digest)

    def inverse(self, tool: str) -> Inverse | None:
        """Return how the inner source undoes what a tool changed."""
        return self.inner.inverse(tool)

    def for_session(self, session: str) -> ToolSource:
        """Return a source like this one around the inner source as it serves one session."""
        inner = self.inner.for_session(session)
        if inner is self.inner:
            return self
        around = copy(self)
        around.inner = inner
        return around


class ToolSources(BaseToolSource):
    """Several sources as one, their tools in order; raises UsageError where two offer a tool of one name."""

    def __init__(self, sources: Sequence[ToolSource]) -> None:
        self._sources = tuple(sources)
        self._offered: tuple[Sequence[ToolSpec], ...] = ()
        self._specs: tuple[ToolSpec, ...] = ()
        self._owner: dict[str, ToolSource] = {}
        self.specs()

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of all sources, the very same sequence while each source returns the same."""
        offered = tuple(source.specs() for source in self._sources)
        if len(offered) == len(self._offered) and all(map(_is_same, offered, self._offered)):
            return self._specs
        owner: dict[str, ToolSource] = {}
        for source, specs in zip(self._sources, offered, strict=True):
            for spec in specs:
                if spec.name in owner:
                    raise UsageError(f"two tools are named `{spec.name}`; rename one")
                owner[spec.name] = source
        self._offered, self._specs = offered, tuple(spec for specs in offered for spec in specs)
        self._owner |= owner  # a tool that is gone is still asked about calls made before
        return self._specs

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the view of the source that has the tool."""
        return source.classify(call) if (source := self._owner.get(call.name)) else None

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        """Return what the tool would fill in."""
        return source.fill_arguments(call) if (source := self._owner.get(call.name)) else {}

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        """Have each source survey its calls."""
        for source in self._sources:
            await source.refresh([call for call in calls if self._owner.get(call.name) is source])

    def survey(self, call: ToolCall) -> Survey | None:
        """Return what the source that has the tool found."""
        return source.survey(call) if (source := self._owner.get(call.name)) else None

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        """Return what the source that has the tool foresees."""
        return source.preview(call) if (source := self._owner.get(call.name)) else ()

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Have the source that has the tool run the call."""
        return await self._owner[call.name].run(call, context)

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return what the first source that can tell knows of a call."""
        for source in self._sources:
            if (found := await source.reconcile(call, digest)) is not None:
                return found
        return None

    def inverse(self, tool: str) -> Inverse | None:
        """Return how the source that has the tool undoes what it changed."""
        return source.inverse(tool) if (source := self._owner.get(tool)) else None

    def for_session(self, session: str) -> ToolSource:
        """Return the sources as they serve one session."""
        return ToolSources([source.for_session(session) for source in self._sources])


def _is_same(first: object, second: object) -> bool:
    return first is second


Arguments = Mapping[str, Json]
Run = Callable[[Arguments], Awaitable[ToolResult]]
Classify = Callable[[Arguments], Effect | None]
FillArguments = Callable[[Arguments], Arguments]
PreviewCall = Callable[[Arguments], Sequence[FileChange]]
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
