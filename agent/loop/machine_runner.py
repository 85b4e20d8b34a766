"""What has effects on this machine: runs calls and applies what a sandbox changed, in the workspace of the session."""

from __future__ import annotations

import asyncio

from foregate.agent.loop.apply_sandboxed import apply_sandboxed, format_diff
from foregate.agent.loop.executor import CallExecutor
from foregate.agent.session.result import CallNotStarted
from foregate.agent.survey.sandboxed import ChangeSurveyor
from foregate.agent.workspace.thread import run_to_end
from foregate.agent.workspace.work_sandbox import discard_sandbox, is_kept
from foregate.evidence.state.task import OpenSandbox
from foregate.schemas.event_body import SandboxEnded
from foregate.schemas.sandbox import SandboxedChanges, decode_changes
from foregate.schemas.tool_call import CallFacts, Permit, Survey, ToolResult


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
