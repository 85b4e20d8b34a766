"""Where the sessions of a family are played: one log in memory, their policies, and how far each has been played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from foregate.evidence.state.recorded_turns import InForce
from foregate.gates.replay.assumption import Assumption
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.schemas.event import Body, Event
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from foregate.tuning.progress import Progress
from foregate.tuning.recorded_steps import NothingRecorded, RecordedHalt, find_end
from foregate.tuning.recording import Recording

ReplacePolicy = Callable[[Mapping[str, Json]], Policy]
"""From the layers of a recorded session to the policy it would have had."""


class PolicyReplacer:
    """Restores recorded policies, each once, and replaces them; `change` of None keeps each as it was."""

    def __init__(self, change: ReplacePolicy | None) -> None:
        self._change = change
        self._restored: dict[str, Policy] = {}

    @property
    def is_other(self) -> bool:
        """Whether policies are replaced at all."""
        return self._change is not None

    def restore(self, in_force: InForce) -> Policy:
        """Return the policy that was in force; raise NothingRecorded where no event says which."""
        if in_force.policy is None:
            raise NothingRecorded("no event says which policy was in force")
        if in_force.policy_hash not in self._restored:
            self._restored[in_force.policy_hash] = restore_policy(in_force.policy)
        return self._restored[in_force.policy_hash]

    def replace(self, in_force: InForce) -> Policy:
        """Return the policy to play under instead; raises PolicyError where the layers make none."""
        return self.restore(in_force) if self._change is None else self._change(in_force.layers or {})


_IN_CHILD = "in its child task "

Read = Callable[[str], Sequence[Event]]
"""Returns the recorded events of a session, none of one that is not there; raises NothingRecorded where some are
missing."""


class FamilyReplay:
    """What sessions share that belong together: their parent's child tasks and those that resume an ended one."""

    def __init__(self, read: Read, policies: PolicyReplacer, assumed: Assumption) -> None:
        self.policies = policies
        self.log, self.blobs = MemoryLog(), MemoryBlobs()
        self.parts: dict[str, Progress] = {}
        """How far each session has been played, by the name it has now."""
        self.unplayed: dict[str, str] = {}
        """Why sessions were not begun."""
        self._read, self._assumed = read, assumed
        self._recordings: dict[str, Recording] = {}
        self._sought: set[str] = set()

    def find_recording(self, name: str) -> Recording:
        """Return a recorded session, taken apart once; raise NothingRecorded where the log does not hold all of it."""
        if name not in self._recordings:
            events = self._read(name)
            if not events:
                raise NothingRecorded(f"the log holds no session `{name}`")
            self._recordings[name] = Recording(events, self._find_earlier(events[0].body))
        return self._recordings[name]

    def _find_earlier(self, began: Body) -> Recording | None:
        """Return the recording of the session that one with this start resumes, None where the log does not hold it."""
        link = began.follows if isinstance(began, SessionStarted) else None
        if link is None or link.session in self._sought:
            return self._recordings.get(link.session) if link is not None else None
        self._sought.add(link.session)
        # Whoever plays it says why it is not there.
        with suppress(NothingRecorded):
            return self.find_recording(link.session)
        return None

    def is_child(self, name: str) -> bool:
        """Whether a session is a child task; of one that is not there its name tells."""
        try:
            return self.find_recording(name).started.depth > 0
        except NothingRecorded:
            return "." in name

    def open_part(self, name: str, recorded: str) -> Progress:
        """Return how far a session has been played, from its beginning where it has not been at all.

        `recorded` is its name in the recorded log. Raises NothingRecorded where the log does not hold it, or where the
        session that it resumes was not played to its end.
        """
        if name not in self.parts:
            recording = self.find_recording(recorded)
            link = recording.started.follows
            self.parts[name] = Progress(recording, self._assumed, self._find_resumed(link.session) if link else None)
        return self.parts[name]

    def _find_resumed(self, name: str) -> Progress:
        found = self.parts.get(name)
        if name in self.unplayed or (found is not None and found.stopped):
            raise NothingRecorded(f"it resumes session `{name}`, which was stopped before its end")
        if found is None:
            raise NothingRecorded(f"it resumes session `{name}`, which the log does not hold")
        return found

    def find_part(self, recorded: str) -> tuple[str, Progress] | None:
        """Return the name that a recorded session has now and how far it was played, None where it was not begun."""
        return next((part for part in self.parts.items() if part[1].recording.name == recorded), None)

    def leave_open(self, name: str) -> None:
        """Note that a session was played as far as it went then, with something open."""
        if name in self.parts:
            self.parts[name].is_left_open = True

    def stop(self, name: str, why: str) -> str:
        """Note why a session was stopped, and return why its parent is for that where it is a child task."""
        part = self.parts.get(name)
        if part is None:
            self.unplayed[name] = why
            return why
        part.stopped = part.stopped or why
        return why if why.startswith(_IN_CHILD) else f"{_IN_CHILD}`{part.recording.name}`: {why}"

    def check_ended(self, name: str) -> None:
        """Raise NothingRecorded where something was done in a child task once it had ended."""
        part = self.parts[name]
        left = (step for step in part.recording.steps[part.at :] if find_end(step) is None)
        if any(isinstance(step, (Event, RecordedHalt)) for step in left):
            part.stopped = "something was undone in it once it had ended, which is not played again"
            raise NothingRecorded(f"{_IN_CHILD}`{part.recording.name}`: {part.stopped}")
