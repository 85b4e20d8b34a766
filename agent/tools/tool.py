"""A tool, and sources of tools: what a source has where it says nothing else, tools as one, several as one, wrapped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from itertools import chain
from operator import is_
from typing import TypeVar

from foregate.agent.workspace.process import HeadTail
from foregate.agent.workspace.workspace import SurveyBounds
from foregate.schemas.errors import ForegateError, InvalidJson, RuntimeLost, SyncError, UsageError, WorkspaceError
from foregate.schemas.protocols import FileChange, Inverse, Reconciled, RunContext, ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ToolSpec

T = TypeVar("T")
Arguments = Mapping[str, Json]
Run = Callable[[Arguments], Awaitable[ToolResult]]
Classify = Callable[[Arguments], Effect | None]
FillArguments = Callable[[Arguments], Arguments]
PreviewCall = Callable[[Arguments], Sequence[FileChange]]
"""Works out a call's changes without making them; raises what running would raise, and touches nothing."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A specification, the function behind it, and the tool's own view of a call's effect, which may only raise it.

    `inverse` serves undo of resources of kind `other`; `preview` shows a person the changes. `fill_arguments` works out
    what a call leaves to the tool, such as the command of `run_tests`, so that this is judged; it gets unchecked
    arguments, and raises WorkspaceError where it cannot tell. `offered` says whether the tool is still there; None is
    always.
    """

    spec: ToolSpec
    run: Run
    classify: Classify | None = None
    inverse: Inverse | None = None
    preview: PreviewCall | None = None
    fill_arguments: FillArguments | None = None
    offered: Callable[[], bool] | None = None


class BaseToolSource:
    """A source of tools to derive from. It needs `specs` and `run`; the rest has defaults that loosen nothing.

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
        """Return nothing: it is unknown beforehand."""
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


class _ForwardingToolSource(BaseToolSource):
    """Has everything that is about one tool done by the source that `_find_source` gives for its name."""

    def _find_source(self, tool: str) -> ToolSource:
        raise NotImplementedError

    def classify(self, call: ToolCall) -> Effect | None:
        return self._find_source(call.name).classify(call)

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        return self._find_source(call.name).fill_arguments(call)

    def survey(self, call: ToolCall) -> Survey | None:
        return self._find_source(call.name).survey(call)

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        return self._find_source(call.name).preview(call)

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        return await self._find_source(call.name).run(call, context)

    def inverse(self, tool: str) -> Inverse | None:
        return self._find_source(tool).inverse(tool)


class WrappedToolSource(_ForwardingToolSource):
    """A source that does what another does, for those that add to it or change a part of it."""

    def __init__(self, inner: ToolSource) -> None:
        self.inner = inner

    def _find_source(self, tool: str) -> ToolSource:
        return self.inner

    def specs(self) -> Sequence[ToolSpec]:
        return self.inner.specs()

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        await self.inner.refresh(calls)

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        return await self.inner.reconcile(call, digest)

    def for_session(self, session: str) -> ToolSource:
        """Return a source like this one around the inner source as it serves one session."""
        inner = self.inner.for_session(session)
        if inner is self.inner:
            return self
        around = copy(self)
        around.inner = inner
        return around


class ToolSources(_ForwardingToolSource):
    """Several sources as one, their tools in order; raises UsageError where two offer a tool of one name."""

    def __init__(self, sources: Sequence[ToolSource]) -> None:
        self._sources = tuple(sources)
        self._offered: tuple[Sequence[ToolSpec], ...] = ()
        self._specs: tuple[ToolSpec, ...] = ()
        self._owner: dict[str, ToolSource] = {}
        self.specs()

    def _find_source(self, tool: str) -> ToolSource:
        return self._owner.get(tool, _NO_SOURCE)

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools of all sources, the very same sequence while each source returns the same."""
        offered = tuple(source.specs() for source in self._sources)
        if len(offered) == len(self._offered) and all(map(is_, offered, self._offered)):
            return self._specs
        owners = [(spec.name, source) for source, specs in zip(self._sources, offered, strict=True) for spec in specs]
        # A tool that is gone is still asked about calls made before.
        self._owner |= index_by_name(owners)
        self._offered, self._specs = offered, tuple(chain.from_iterable(offered))
        return self._specs

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        for source in self._sources:
            await source.refresh([call for call in calls if self._owner.get(call.name) is source])

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return what the first source that can tell knows of a call."""
        for source in self._sources:
            if (found := await source.reconcile(call, digest)) is not None:
                return found
        return None

    def for_session(self, session: str) -> ToolSource:
        return ToolSources([source.for_session(session) for source in self._sources])


_NO_SOURCE = BaseToolSource()
"""What knows nothing of a tool nobody offers."""


class Toolbox(BaseToolSource):
    """A tool source over tools of this process; raises UsageError where two share a name."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._tools = index_by_name((tool.spec.name, tool) for tool in tools)
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
        return known.inverse if (known := self._tools.get(tool)) else None

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        """Return what the call would make of files, none where its tool cannot say; raises what running would."""
        tool = self._tools.get(call.name)
        if tool is None or tool.preview is None or call.arguments is None:
            return ()
        return tool.preview(_give_arguments(tool, call))

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Run the call; what the tool raises is a failure the model reads; RuntimeLost and SyncError are passed on."""
        tool = self._tools[call.name]
        try:
            with SurveyBounds(context.survey):
                return await tool.run(_give_arguments(tool, call))
        except (RuntimeLost, SyncError):
            raise
        except ForegateError as error:
            return ToolResult(False, str(error), error=type(error).__name__)


def _give_arguments(tool: Tool, call: ToolCall) -> Mapping[str, Json]:
    """Return the arguments; to a user's tool a copy, for what it does to them must reach no call that is judged."""
    given = call.arguments or {}
    return deepcopy(dict(given)) if tool.spec.provenance == "python" else given


def cap_text(text: str, cap: int) -> tuple[str, int]:
    """Return `text` cut to about `cap` bytes of UTF-8, head and tail, and the number of bytes left out."""
    if len(text) * 4 <= cap:
        return text, 0
    data = text.encode("utf-8", "replace")
    if len(data) <= cap:
        return text, 0
    kept = HeadTail(cap)
    kept.feed(data)
    return kept.text()


def index_by_name(things: Iterable[tuple[str, T]]) -> dict[str, T]:
    """Return what belongs to tools by their names; raise UsageError where two have one name."""
    found: dict[str, T] = {}
    for name, thing in things:
        if name in found:
            raise UsageError(f"two tools are named `{name}`; rename one")
        found[name] = thing
    return found
