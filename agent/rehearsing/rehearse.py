"""Playing a recorded session again under another policy, through the loop itself, until its log holds nothing more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from foregate.agent.loop.cancelling import cancel_task
from foregate.agent.loop.runner import run
from foregate.agent.rehearsing.counts import SessionCounts, count_events
from foregate.agent.rehearsing.policies import PolicyAgain
from foregate.agent.rehearsing.progress import Progress
from foregate.agent.rehearsing.recording import (
    NothingRecorded,
    RecordedEnd,
    RecordedHalt,
    RecordedMessage,
    RecordedResponse,
    RecordedSwitch,
    Recording,
    RecordingEnds,
)
from foregate.agent.rehearsing.rehearsed_session import RecordedTools, RehearsedSession
from foregate.evidence.state.session import SessionState
from foregate.gates.replay.assumption import Assumption
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.protocols import Lease
from foregate.telemetry.audit.rebuild_turn import InForce
from foregate.telemetry.log.memory_log import MemoryLog

_CHILD = "it is a child task, which is played with nothing of its parent"
_FOLLOWS = "it goes on with a session that had ended, which is not played again"


@dataclass(frozen=True)
class Rehearsal:
    """A session played again: what it came to as far as it was played, and what the same part came to then.

    `stopped` says why the log holds nothing from event `at` on, "" where the session was played to its end. `events`
    are those that playing it again recorded, `assumed` how often somebody's answer was assumed, and under `repeats` how
    many calls took what came of them when they were sent again, which they were only because a gate had held them.
    `version` is the Foregate whose gates judged it then.
    """

    session: str
    now: SessionCounts
    then: SessionCounts
    stopped: str = ""
    at: int = 0
    events: Sequence[Event] = ()
    assumed: dict[str, int] = field(default_factory=dict)
    version: str = ""


async def rehearse(events: Sequence[Event], policies: PolicyAgain, assumed: Assumption) -> Rehearsal:
    """Play a recorded session again; nothing runs, nobody is asked, and nothing is written but in memory.

    Raises LogError where the events are no session, and PolicyError where its layers make no policy.
    """
    recording = Recording(events)
    player = _Player(recording, policies, Progress(recording, assumed))
    stopped = await player.play()
    at = player.find_place()
    played = await player.log.read(recording.name) if recording.name in await player.log.sessions() else ()
    then = count_events(event for event in events if event.seq < at)
    counted = {who: often for who, often in sorted(player.progress.assumptions.items()) if often}
    now, version = count_events(played), events[0].foregate
    return Rehearsal(recording.name, now, then, stopped, at if stopped else 0, played, counted, version)


class _Player:
    """Takes one session through its recording, step by step; between two tasks it is opened anew where it must be."""

    def __init__(self, recording: Recording, policies: PolicyAgain, progress: Progress) -> None:
        self.recording, self.policies, self.progress = recording, policies, progress
        self.log = MemoryLog()
        self.is_left_open = False
        self._tools = RecordedTools(recording.started.catalogue)

    async def play(self) -> str:
        """Play as far as the log goes; return why it was stopped before the end, "" where it was not."""
        try:
            await self._play_steps()
        except RecordingEnds:
            self.is_left_open = True
            return ""
        except NothingRecorded as error:
            return str(error)
        return ""

    def find_place(self) -> int:
        """Return the first event that was not played; of a session that was left open what it waited for is none."""
        step, response = self.progress.step, self.progress.response
        if self.is_left_open and response is not None and not self.recording.was_judged(response):
            return response.seq + 1
        return step.seq if step is not None else self.recording.last + 1

    async def _play_steps(self) -> None:
        started, progress = self.recording.started, self.progress
        if started.depth or started.follows is not None:
            raise NothingRecorded(_CHILD if started.depth else _FOLLOWS)
        lease = await self.log.claim(self.recording.name, create=True)
        session = self._open(lease, self.recording.first_in_force)
        await session.record(Draft(replace(started, policy=session.policy.recorded), "foregate"))
        while (step := progress.step) is not None:
            match step:
                case RecordedMessage():
                    progress.at += 1
                    await self._send(session, step)
                case RecordedSwitch(body=PolicyChanged(policy=policy)) if policy is not None:
                    progress.at += 1
                    session = await self._reopen(session, lease, step)
                case RecordedSwitch():
                    progress.at += 1
                    await session.switch(step)
                case RecordedEnd():
                    progress.at += 1
                    await self._end(session, step)
                case RecordedResponse():
                    raise NothingRecorded("the task ends earlier than then, and what came after that is not its own")
                case RecordedHalt(why=why):
                    raise NothingRecorded(why)

    def _open(self, lease: Lease, in_force: InForce, state: SessionState | None = None) -> RehearsedSession:
        policy = self.policies.replace(in_force)
        return RehearsedSession(
            self.progress,
            self.policies,
            policy,
            log=self.log,
            lease=lease,
            tools=self._tools,
            layers=in_force.layers or {},
            state=state,
        )

    async def _reopen(self, session: RehearsedSession, lease: Lease, step: RecordedSwitch) -> RehearsedSession:
        """Return the session under the policy that another process went on with."""
        again = self._open(lease, step.in_force, session.state)
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
            what = "a question is asked here that nobody answered then" if asks else "it answers what is not asked now"
            raise NothingRecorded(what)
        await run(session, step.text)

    async def _end(self, session: RehearsedSession, step: RecordedEnd) -> None:
        """Let a task end as it did, where the loop has not ended it by itself."""
        if session.state.task is None:
            return
        if step.body.status != "cancelled":
            raise NothingRecorded("a question is asked here that nobody answered then")
        await cancel_task(session)
