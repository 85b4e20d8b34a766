"""A session that is played again: the real one, with eyes, hands and answers out of a recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from foregate.agent.rehearsing.policies import PolicyAgain
from foregate.agent.rehearsing.progress import Progress
from foregate.agent.rehearsing.recorded_hands import RecordedHands
from foregate.agent.rehearsing.recorded_interaction import RecordedInteraction
from foregate.agent.rehearsing.recorded_model import RecordedModel
from foregate.agent.rehearsing.recorded_surveyor import RecordedSurveyor
from foregate.agent.rehearsing.recording import NothingRecorded, RecordedSwitch
from foregate.agent.session.absent_person import AbsentPerson
from foregate.agent.session.session import Session
from foregate.agent.tools.tool import BaseToolSource
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.schemas.event import Draft
from foregate.schemas.event_body import CatalogChanged, PolicyChanged
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.protocols import Lease, RunContext
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.schemas.tool_spec import Catalogue, ToolSpec
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog


class RecordedTools(BaseToolSource):
    """The tools that a session was offered, of which none runs."""

    def __init__(self, offered: Sequence[ToolSpec]) -> None:
        self.offered = offered

    def specs(self) -> Sequence[ToolSpec]:
        return self.offered

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        raise NothingRecorded(f"`{call.name[:64]}` would run, and nothing runs when a session is played again")


class RehearsedSession(Session):
    """Runs through the loop like any other, in memory; `state` is that of its log so far, None for a new one."""

    def __init__(
        self,
        progress: Progress,
        policies: PolicyAgain,
        policy: Policy,
        *,
        log: MemoryLog,
        lease: Lease,
        tools: RecordedTools,
        layers: Mapping[str, Json],
        state: SessionState | None = None,
    ) -> None:
        self._progress, self._policies = progress, policies
        started, hands = progress.recording.started, RecordedHands(progress)
        model = RecordedModel(progress, started.model)
        self._hands_again, self._tools = hands, tools
        super().__init__(
            log=log,
            lease=lease,
            blobs=MemoryBlobs(),
            model=model,
            tools=tools,
            policy=policy,
            workspace=MemoryWorkspace(),
            state=state,
            person=AbsentPerson() if progress.recording.attended else None,
            clock=lambda: progress.now,
            listeners=[progress.take_event],
            depth=started.depth,
            layers=layers,
            hands=hands,
        )
        model.session = hands.session = self
        self.interaction = RecordedInteraction(self.log, self.blobs, model, policy, progress)

    def build_surveyor(self, catalogue: Catalogue) -> RecordedSurveyor:
        found = RecordedSurveyor(self._progress, self._policies, self.policy, catalogue)
        self._hands_again.surveyor = found
        return found

    async def switch(self, step: RecordedSwitch) -> None:
        """Record again what was switched in between: modes, permissions, or other tools."""
        match step.body:
            case CatalogChanged(catalogue=catalogue):
                self._tools.offered = catalogue
                await self.update_catalogue()
            case PolicyChanged() as body:
                if body.policy is not None and self._policies.replace(step.in_force).hash != self.policy.hash:
                    raise NothingRecorded("another policy file of the workspace came into force within a task")
                await self._switch_modes(body, step)

    async def _switch_modes(self, body: PolicyChanged, step: RecordedSwitch) -> None:
        permitted = body.permissions
        if permitted is not None:  # what a person permits at a sheet that nobody is shown now is not permitted
            here, used = self.name, self._progress.used
            permitted = tuple(one for one in permitted if one.session != here or one.seq in used)
        again = replace(body, policy=None, layers=None, before=None, permissions=permitted)
        if again != PolicyChanged():
            await self.record(Draft(again, step.actor))

    async def update_permissions(self) -> None:
        """Do nothing: what was permitted is switched when it was."""

    def keep_answer(self, answer: Answer, need: Need) -> None:
        """Keep nothing: what an answer says beyond its calls was recorded as what came of it."""
