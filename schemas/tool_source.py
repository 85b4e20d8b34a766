"""What a source of tools is to the rest: the whole contract between the executor and whatever runs calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ToolSpec


class FileChange(Struct, frozen=True):
    """What a call would make of the file at `path`: its bytes as they are now (None for nothing) and afterwards.

    `shown_by` names the arguments that whoever sees both has seen.
    """

    path: str
    before: bytes | None
    after: bytes
    shown_by: tuple[str, ...] = ()


class RunContext(Struct, frozen=True):
    """What a call runs under: the survey it was judged on, and whether a person's yes let it through."""

    survey: Survey
    approved: bool = False


class Reconciled(Struct, frozen=True):
    """What came of a call whose outcome was unknown: whether it took effect, and its result."""

    done: bool
    result: ToolResult


class Inverse(Protocol):
    """How what a tool changes outside the workspace is kept and put back; ids are those of its resources."""

    def now(self, id: str) -> bytes | None:  # noqa: A002
        """Return what is there, None for nothing."""

    def put_back(self, id: str, data: bytes | None) -> None:  # noqa: A002
        """Make it what it was, None for nothing."""


class ToolSource(Protocol):
    """Lists tools and runs calls. Never judges; only the executor calls `run`.

    A source of your own derives from BaseToolSource, which has a default for everything but `specs` and `run`.
    """

    def specs(self) -> Sequence[ToolSpec]:
        """Return the tools, in the order they are offered; the very same sequence where nothing has changed."""

    def classify(self, call: ToolCall) -> Effect | None:
        """Return the tool's own view of this call's effect (it may only raise it), or None."""

    def fill_arguments(self, call: ToolCall) -> Mapping[str, Json]:
        """Return what the tool would fill into a call, to be judged with it; raise WorkspaceError if it cannot tell."""

    async def refresh(self, calls: Sequence[ToolCall]) -> None:
        """Survey calls whose tools touch things elsewhere, for `survey`; raise RuntimeLost where it cannot."""

    def survey(self, call: ToolCall) -> Survey | None:
        """Return what the last `refresh` found for a call, None where it did not survey the call."""

    def preview(self, call: ToolCall) -> Sequence[FileChange]:
        """Return what the call would make of files, none where the tool cannot say; raise what running would raise."""

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        """Run the call. Return a failure that the model should read; raise RuntimeLost where the tools are gone."""

    async def reconcile(self, call: str, digest: str) -> Reconciled | None:
        """Return what came of an earlier call, by id and digest; None where the source cannot tell, or not now."""

    def inverse(self, tool: str) -> Inverse | None:
        """Return how what a tool changes outside the workspace is undone, None where it cannot be."""

    def for_session(self, session: str) -> ToolSource:
        """Return the source as it serves the session of this name; most serve all alike."""
