"""Has effects on this machine: runs calls, and puts what was judged of a sandbox into the workspace in one step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from difflib import unified_diff
from pathlib import Path

from msgspec.structs import replace

from foregate.agent.loop.applying import apply_changes, find_conflicts, keep_images
from foregate.agent.loop.executor import CANCELLED, CallExecutor, check_permit, draft_finish, draft_unknown
from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.loop.stored_changes import name_parted
from foregate.agent.session.result import CallNotStarted
from foregate.agent.session.session import Session
from foregate.agent.survey.sandboxed import ChangeSurveyor
from foregate.agent.tools.tool import cap_text
from foregate.agent.workspace.cancelled_work import run_to_end, wait_until_over
from foregate.agent.workspace.confinement import hold_turn
from foregate.agent.workspace.path_state import Conflict
from foregate.agent.workspace.work_sandbox import discard_sandbox, is_kept
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.task import OpenSandbox
from foregate.schemas import strict_json
from foregate.schemas.errors import SyncError, WorkspaceError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import AnswerCode, SandboxEnded, ToolStarted
from foregate.schemas.protocols import FileChange
from foregate.schemas.sandbox import PathChange, SandboxedChanges, decode_changes
from foregate.schemas.tool_call import CallFacts, Permit, Survey, ToolResult


async def apply_sandboxed(
    session: Session, permit: Permit, facts: CallFacts, ended: OpenSandbox, found: SandboxedChanges
) -> ToolResult | CallNotStarted:
    """Apply what the sandbox of a call changed, by the permit for exactly that; return the result of the whole call.

    Records `tool_started` durably before anything is changed and `tool_finished` after it. Nothing is applied where a
    path is no longer what the sandbox saw, or while another sandbox of the workspace is at work. Raises NoPermit
    without an unused permit for this call.
    """
    check_permit(session, permit, facts.call)
    async with AsyncExitStack() as held:
        try:
            await held.enter_async_context(hold_turn(session.workspace))
        except WorkspaceError as error:
            return CallNotStarted("tool_failed", str(error))
        return await _apply(session, permit, facts, ended, found)


async def _apply(
    session: Session, permit: Permit, facts: CallFacts, ended: OpenSandbox, found: SandboxedChanges
) -> ToolResult | CallNotStarted:
    call, upper = facts.call, Path(found.upper, "upper")
    place = Snapshots(session.workspace, session.policy, session.blobs)
    try:
        if conflicts := await asyncio.to_thread(find_conflicts, session.workspace, found.changes):
            raise Conflict(conflicts)
        images = await asyncio.to_thread(keep_images, place, found.changes, upper)
    except WorkspaceError as error:
        return CallNotStarted(_name_error(error), str(error))
    # What was read before the change may not be so after it.
    session.prefetched.clear()
    started = ToolStarted(
        call=call.id,
        tool=call.name,
        target=ended.body.target,
        permit=permit,
        side_effect="at_most_once",
        effect=facts.effect,
        before=(),
        confinement=facts.survey.work,
        applies=ended.seq,
        images=images,
    )
    await session.record(Draft(started, "sandbox"))
    try:
        await session.log.settle()
    except asyncio.CancelledError:
        # Nothing was changed.
        await session.record(draft_finish(started, CANCELLED, 0, "tool"))
        raise
    clock = time.monotonic_ns()
    applying = asyncio.ensure_future(asyncio.to_thread(apply_changes, place, images, upper))
    # A cancel waits: all of the changes are applied, or none.
    cancelled = await wait_until_over(applying)
    try:
        applied = applying.result()
    except SyncError as error:
        await session.record(draft_unknown(facts, str(error)))
        applied = ToolResult(False, str(error), unknown=True)
    except WorkspaceError as error:
        # All of it was brought back.
        applied = ToolResult(False, str(error), error=_name_error(error))
    lost = name_parted(place.blobs, images) if applied.ok else ""
    result = applied if applied.unknown else build_result(ended.body, applied, lost)
    if not result.unknown:
        elapsed = ended.body.duration + (time.monotonic_ns() - clock) // 1_000_000
        await session.record(draft_finish(started, result, elapsed, "tool"))
    if cancelled:
        raise asyncio.CancelledError
    return result


def _name_error(error: WorkspaceError) -> AnswerCode:
    """Return the code of why nothing was applied: only what somebody else changed is looked at again."""
    return "stale_evidence" if isinstance(error, Conflict) else "tool_failed"


def build_result(ended: SandboxEnded, applied: ToolResult, lost: str = "") -> ToolResult:
    """Return the result of a call from how its program ended, and from applying what it had changed.

    It says what it says outside of a sandbox, and where all is well no more than what was `lost`.
    """
    content = ended.content
    after = lost if applied.ok else f"\n\n{applied.content}"
    if after:
        content = f"{content.rstrip()}{after}".lstrip("\n")
    return replace(
        applied,
        ok=ended.ok and applied.ok,
        content=content,
        evidence=(*ended.evidence, *applied.evidence),
        error=applied.error or ended.error,
        dropped=ended.dropped,
        exit_code=ended.exit_code,
    )


_SHOWN = 200
"""Paths that are shown one by one."""


def list_file_changes(workspace: Workspace, found: SandboxedChanges, largest: int) -> list[FileChange]:
    """Return the files that were changed, as they are and as they would be, those left out that are larger."""
    changes = []
    for change in found.changes:
        before, after = change.before, change.after
        is_file = {before.kind, after.kind} <= {"", "file"}
        if not is_file or max(before.size, after.size) > largest or ".git" in change.path.split("/"):
            continue
        try:
            old = workspace.read(change.path, limit=largest) if before.kind else None
            new = Path(found.upper, "upper", change.path).read_bytes() if after.kind else b""
        except (WorkspaceError, OSError):
            continue
        changes.append(FileChange(change.path, old, new))
    return changes


def format_diff(workspace: Workspace, found: SandboxedChanges, most: int) -> str:
    """Return a line for each path with what became of it, and the diffs of those that are text, in `most` bytes."""
    lines = [*format_paths(found.changes)]
    for change in list_file_changes(workspace, found, most):
        lines += _diff_lines(change)
    return cap_text(strict_json.scrub("\n".join(lines)), most)[0]


def format_paths(changes: Sequence[PathChange]) -> Iterator[str]:
    """Yield `delete a.txt` for each path, git's own left to one line, and how many more there are."""
    own = [change for change in changes if ".git" in change.path.split("/")]
    rest = [change for change in changes if change not in own] if own else list(changes)
    for change in rest[:_SHOWN]:
        path = f"{change.path}/" if "directory" in (change.before.kind, change.after.kind) else change.path
        yield f"{change.effect.value} {path}"
    if len(rest) > _SHOWN:
        yield f"... and {len(rest) - _SHOWN} more"
    if own:
        yield f"edit the repository ({len(own)} files of git's own)"


def _diff_lines(change: FileChange) -> Iterator[str]:
    old, new = (data.decode("utf-8", "replace").splitlines() for data in (change.before or b"", change.after))
    if b"\0" in change.after or b"\0" in (change.before or b""):
        return
    yield from unified_diff(old, new, f"a/{change.path}", f"b/{change.path}", lineterm="")


class MachineRunner(CallExecutor):
    """Has an effect on the session's workspace, and on whatever its tools reach."""

    async def survey_changes(self, ended: OpenSandbox, found: SandboxedChanges, command: CallFacts) -> Survey:
        surveyor = ChangeSurveyor(self._session.workspace, self._session.policy, self._session.state, found)
        return await asyncio.to_thread(surveyor.survey, command.call, ended.body.changes, command.survey)

    async def apply(
        self, permit: Permit, facts: CallFacts, ended: OpenSandbox, found: SandboxedChanges
    ) -> ToolResult | CallNotStarted:
        return await apply_sandboxed(self._session, permit, facts, ended, found)

    def find_changes(self, ended: SandboxEnded) -> SandboxedChanges | None:
        found = SandboxedChanges(decode_changes(self._session.blobs.get(ended.changes)), ended.upper)
        return found if is_kept(found) else None

    async def discard(self, found: SandboxedChanges) -> None:
        await run_to_end(discard_sandbox, found)

    def format_changes(self, found: SandboxedChanges) -> str:
        return format_diff(self._session.workspace, found, self._session.policy.files.max_output // 2)
