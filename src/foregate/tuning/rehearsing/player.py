"""Takes one session through its recording, step by step; between two tasks it is opened anew where it must be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foregate.agent.loop.cancelling import cancel_task
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.planning.planner import make_plan, record_proposal
from foregate.agent.session.snapshots import fold_session
from foregate.evidence.state.lineage import begin_further
from foregate.evidence.state.recorded_turns import InForce
from foregate.evidence.state.session import SessionState
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged, SessionEnded
from foregate.schemas.protocols import Lease
from foregate.tuning.rehearsing.family_replay import FamilyReplay
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_plan import (
    PlanStep,
    RecordedExecution,
    RecordedFailure,
    RecordedProposal,
    RecordedResumption,
    RecordedRetry,
    RecordedRollback,
    RecordedRound,
)
from foregate.tuning.rehearsing.recorded_steps import (
    NothingRecorded,
    RecordedEnd,
    RecordedHalt,
    RecordedMessage,
    RecordedResponse,
    RecordedSwitch,
    RecordedUndo,
    RecordingEnds,
)
from foregate.tuning.rehearsing.rehearsed_plan import RehearsedPlan
from foregate.tuning.rehearsing.rehearsed_session import RehearsedSession

_NOBODY_ANSWERED = "a question is asked here that nobody answered then"


class SessionPlayer:
    """Plays a session that no other one began. `players` are those of the sessions played before it, by name."""

    def __init__(self, family: FamilyReplay, name: str, players: Mapping[str, SessionPlayer]) -> None:
        self.family, self.name, self._players = family, name, players
        self.before: tuple[str, ...] = ()
        """The sessions that it resumes, oldest first."""
        self.progress: Progress
        self.stopped = ""
        """Why it was stopped before its end, "" where it was not."""

    async def play(self) -> None:
        """Play as far as the log goes."""
        try:
            earlier = self._find_earlier()
            self.progress = self.family.open_part(self.name, self.name, earlier)
            await self._play_steps()
        except RecordingEnds:
            self.progress.is_left_open = True
        except NothingRecorded as error:
            self.stopped = str(error)
            if (known := self.family.find_part(self.name)) is not None:
                known[1].stopped = self.stopped

    def _find_earlier(self) -> Progress | None:
        """Return how far the session was played that this one resumes; raise NothingRecorded before its end."""
        link = self.family.find_recording(self.name).started.follows
        if link is None:
            return None
        other = self._players.get(link.session)
        if other is None:
            raise NothingRecorded(f"it resumes session `{link.session}`, which the log does not hold")
        if other.stopped:
            raise NothingRecorded(f"it resumes session `{link.session}`, which was stopped before its end")
        self.before = (*other.before, other.name)
        return other.progress

    async def _begin(self, lease: Lease) -> RehearsedSession:
        state = None
        if self.before:
            *before, newest = self.before
            state = await fold_session(self.family.log, newest, before)
            begin_further(state)
        session = self._open(lease, self.progress.recording.first_in_force, state)
        if self.before:
            session.log.follow(self.before, await session.draft_start())
            await session.record()
        else:
            await session.start()
        return session

    async def _play_steps(self) -> None:
        progress = self.progress
        lease = await self.family.log.claim(self.name, create=True)
        session = await self._begin(lease)
        while (step := progress.step) is not None:
            progress.at += not isinstance(step, (RecordedResponse, RecordedRound, RecordedFailure, RecordedHalt))
            match step:
                case RecordedMessage():
                    await self._send(session, step)
                case RecordedSwitch(body=PolicyChanged(policy=policy)) if policy is not None:
                    session = await self._reopen(session, lease, step)
                case RecordedSwitch():
                    await session.switch(step)
                case RecordedUndo():
                    await session.take_back(step)
                case RecordedEnd():
                    await self._end(session, step)
                case (
                    RecordedProposal()
                    | RecordedExecution()
                    | RecordedResumption()
                    | RecordedRetry()
                    | RecordedRollback()
                ):
                    progress.begin_part(step.seq, step.time)
                    await self._go_on_with_plan(session, step)
                case RecordedResponse() | RecordedRound() | RecordedFailure() if session.state.task is not None:
                    raise NothingRecorded(_NOBODY_ANSWERED)
                case RecordedResponse() | RecordedRound() | RecordedFailure():
                    raise NothingRecorded("the task ends earlier than then, and what came after that is not its own")
                case RecordedHalt(why=why):
                    raise NothingRecorded(why)
        if isinstance(progress.recording.events[-1].body, SessionEnded):
            await session.close()

    def _open(self, lease: Lease, in_force: InForce, state: SessionState | None = None) -> RehearsedSession:
        policy, layers = self.family.policies.replace(in_force), in_force.layers or {}
        return RehearsedSession(self.family, self.progress, policy, lease=lease, layers=layers, state=state)

    async def _reopen(self, session: RehearsedSession, lease: Lease, step: RecordedSwitch) -> RehearsedSession:
        """Return the session under the policy that another process went on with."""
        again = self._open(lease, step.in_force, session.state)
        again.log.follow(self.before)
        if again.policy.hash == session.policy.hash:
            await session.switch(step)
            return session
        changed = PolicyChanged(policy=again.policy.recorded, layers=dict(again.layers), before=session.policy.hash)
        await again.record(Draft(changed, "foregate"))
        await again.switch(step)
        return again

    async def _send(self, session: RehearsedSession, step: RecordedMessage) -> None:
        """Send a recorded message, which answers a question now where it did then."""
        self.progress.pass_time(step.time)
        task = session.state.task
        asks = task.paused if task is not None else ""
        if asks != (step.answers if step.answers == "needs_input" else ""):
            raise NothingRecorded(_NOBODY_ANSWERED if asks else "it answers what is not asked now")
        if self._asks_for_plan(session):
            session.plans.prepare_round()
            model, settings = session.plans.model("planning"), session.plans.configuration
            await make_plan(session, step.text, model, settings, session.plans.assess)
        else:
            await run(session, step.text)

    def _asks_for_plan(self, session: RehearsedSession) -> bool:
        """Whether somebody asked for a plan with the message in hand, and for nothing else."""
        task, found = session.state.task, self.progress.step
        return isinstance(found, RecordedRound) and found.gate == "task_plan" and not (task and task.wants_plan)

    async def _go_on_with_plan(self, session: RehearsedSession, step: PlanStep) -> None:
        """Bring along a plan, have one carried out, or resume one that paused."""
        plans = session.plans
        match step:
            case RecordedProposal(body=body):
                plans.use_configuration(body.configuration)
                told: dict[str, Any] = {"actor": step.actor, "notes": body.notes, "number": body.number}
                await record_proposal(session, body.proposal, plans.configuration, **told)
            case RecordedRetry():
                await plans.try_again(step)
            case RecordedRollback() if session.state.task is not None:
                raise NothingRecorded("a plan that had ended was taken back here, and now it is under way")
            case RecordedRollback(body=body):
                await session.record(Draft(body, "foregate"))
            case RecordedExecution():
                plans.use_configuration(step.configuration)
                if (await plans.follow()).plan is None or plans.state.running:
                    raise NothingRecorded("the plan that was carried out from here on does not wait for that now")
                await plans.take_through(unseen=step.unseen and self._asks_unless_unseen(plans), step=step.step)
            case RecordedResumption() if session.state.task is None or session.state.task.paused != "paused":
                raise NothingRecorded("the plan had paused here, which it does not now")
            case RecordedResumption():
                plans.use_configuration(step.configuration)
                await run_to_outcome(session)

    def _asks_unless_unseen(self, plans: RehearsedPlan) -> bool:
        """Whether a person is asked whatever the plan is, so that one confirmed without asking was so beforehand."""
        return plans.state.number > 1 or plans.configuration.execution.confirmation == "always"

    async def _end(self, session: RehearsedSession, step: RecordedEnd) -> None:
        """Let a task end as it did, where the loop has not ended it by itself."""
        if session.state.task is None:
            return
        if step.body.status != "cancelled":
            raise NothingRecorded(_NOBODY_ANSWERED)
        await cancel_task(session)
