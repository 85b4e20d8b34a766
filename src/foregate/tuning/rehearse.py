"""Plays recorded sessions again under another policy, through the loop itself, family by family and in parallel."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.agent.session.session_log import fold_session
from foregate.gates.replay.assumption import NOTHING, Assumption
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import replace_user_layer
from foregate.schemas.errors import LogError
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised
from foregate.schemas.event_body import CallAnswered, SessionEnded, ToolStarted
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import QuestionStore, Readable
from foregate.schemas.version import __version__
from foregate.tuning.family_replay import FamilyReplay, PolicyReplacer, Read
from foregate.tuning.phases import find_rest
from foregate.tuning.pieces import UNREADABLE, SessionPiece, Workers, work_on_sessions
from foregate.tuning.progress import Progress
from foregate.tuning.recorded_steps import NothingRecorded
from foregate.tuning.recording import Recording
from foregate.tuning.rehearsed_session import play_session


class SessionCounts(Struct, kw_only=True):
    """Requests to the model, to planner and critic; questions to a person; calls held or denied, and calls that ran."""

    requests: int = 0
    planner: int = 0
    critic: int = 0
    prompts: int = 0
    held: int = 0
    ran: int = 0

    def add(self, other: SessionCounts) -> None:
        """Add the counts of another session."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def count_events(events: Iterable[Event]) -> SessionCounts:
    """Return what the events of a session, or of the part of one, tell."""
    found, ran = SessionCounts(), set[str]()
    for event in events:
        match event.body:
            case ModelResponded(continues=None, places=None):
                found.requests += 1
            case NeedAnswered(answer=answer, model_calls=calls) if answer.who == "planner":
                found.planner += calls
            case NeedAnswered(answer=answer, model_calls=calls) if answer.who == "critic":
                found.critic += calls
            case NeedRaised(need=need):
                found.prompts += need.who == "person"
            case CallAnswered(ruling="hold" | "deny"):
                found.held += 1
            case ToolStarted(early=False, applies=None, call=call):
                # One whose child task waited for a person is started once more.
                ran.add(call)
            case _:
                pass
    found.ran = len(ran)
    return found


# "c3.1".
_BY_CALL = compile_late(r"c\d+\.\d+")
_BY_PROGRAM = "a program began this child task outside of any call, and such a task is not played again"
_NOT_REACHED = "it is a child task, and its parent was stopped before it began"
_WAITING = "it is a child task, and its parent was stopped while it waited"


class Rehearsal(Struct, frozen=True):
    """A session played again: the counts of what was played, and of the same part as it was recorded.

    `stopped` says why the log holds nothing from event `at` on, "" where the session was played to its end; a turn in
    which it was stopped counts neither then nor now. `events` are those that playing it again recorded, `assumed` how
    often somebody's answer was assumed, and under `repeats` how many calls took the outcome of when they were sent
    again, which they were only because a gate had held them. `version` is the Foregate whose gates judged it then.
    """

    session: str
    now: SessionCounts = field(default_factory=SessionCounts)
    then: SessionCounts = field(default_factory=SessionCounts)
    stopped: str = ""
    at: int = 0
    events: Sequence[Event] = ()
    assumed: dict[str, int] = field(default_factory=dict)
    version: str = ""


async def rehearse(
    read: Read, sessions: Sequence[str], policies: PolicyReplacer, assumed: Assumption
) -> list[Rehearsal]:
    """Play the recorded sessions of a family again; nothing runs, nobody is asked, nothing is written but in memory.

    `sessions` are named with each before those that resume it; child tasks are played where their parents begin
    them. Returned is the result of each, in that order. One that another Foregate recorded counts only where this one
    comes to the same under its own policy. Raises LogError where their events are no sessions, and PolicyError where
    their layers make no policy.
    """
    family = FamilyReplay(read, policies, assumed)
    found = await _play_family(family, sessions)
    if policies.is_other and any(one.version not in ("", __version__) for one in found):
        same = await _play_family(FamilyReplay(read, PolicyReplacer(None), NOTHING), sessions)
        found = [_check_version(one, own) for one, own in zip(found, same, strict=True)]
    return found


def _check_version(one: Rehearsal, own: Rehearsal) -> Rehearsal:
    """Return a session as it was played, or stopped where it is judged otherwise already under its own policy."""
    if one.version in ("", __version__) or own.now == own.then:
        return one
    why = f"Foregate {one.version} recorded it, and this one comes to something else under the very same policy"
    return Rehearsal(one.session, stopped=why, at=1, version=one.version)


async def _play_family(family: FamilyReplay, sessions: Sequence[str]) -> list[Rehearsal]:
    for name in sessions:
        if not family.is_child(name):
            await play_session(family, name)
    return [await _build_rehearsal(family, name) for name in sessions]


async def _build_rehearsal(family: FamilyReplay, name: str) -> Rehearsal:
    """Return the result of a session, also of one that its parent did not begin."""
    try:
        recording = family.find_recording(name)
    except NothingRecorded as error:
        return Rehearsal(name, stopped=str(error), at=1)
    version, known = recording.events[0].foregate, family.find_part(name)
    if known is not None:
        return await _count_part(family, *known)
    stopped = _explain_unplayed(family, recording) if recording.started.depth else family.unplayed.get(name, "")
    # Nothing of a child that is not begun now.
    then = SessionCounts() if stopped else count_events(recording.events)
    return Rehearsal(name, then=then, stopped=stopped, at=1 if stopped else 0, version=version)


async def _count_part(family: FamilyReplay, now_named: str, progress: Progress) -> Rehearsal:
    """Return the result of a session that was played, perhaps not to its end."""
    recording, played = progress.recording, await family.log.read(now_named)
    ended = bool(played) and isinstance(played[-1].body, SessionEnded)
    stopped = progress.stopped
    if not stopped and recording.started.depth and not ended and _find_stop(family, recording):
        stopped = _WAITING
    at, until = progress.find_place() if stopped or progress.is_left_open else recording.last + 1, len(played) + 1
    if stopped and progress.mark is not None:
        at, until = progress.mark
    elif progress.response is not None and (progress.is_torn or (stopped and await _is_in_turn(family, now_named))):
        at, until = progress.response.seq, max(event.seq for event in played if _is_response(event))
    then = count_events(event for event in recording.events if event.seq < at)
    now = count_events(event for event in played if event.seq < until)
    assumed = {who: often for who, often in sorted(progress.assumptions.items()) if often}
    version = recording.events[0].foregate
    return Rehearsal(recording.name, now, then, stopped, at if stopped else 0, played, assumed, version)


async def _is_in_turn(family: FamilyReplay, now_named: str) -> bool:
    """Whether a session was stopped in the middle of a turn, which neither count includes."""
    state = await fold_session(family.log, now_named)
    return state.open is not None or state.program is not None


def _is_response(event: Event) -> bool:
    return isinstance(event.body, ModelResponded) and event.body.continues is None


def _explain_unplayed(family: FamilyReplay, recording: Recording) -> str:
    """Return why a child task was not played, "" where its parent was and does not begin it now."""
    call = recording.name.removeprefix(f"{recording.started.parent}.")
    return _find_stop(family, recording) if _BY_CALL.fullmatch(call) else _BY_PROGRAM


def _find_stop(family: FamilyReplay, recording: Recording) -> str:
    """Return why a child task was not reached, "" where the task that led to it was played to its end."""
    while recording.started.depth:
        try:
            recording = family.find_recording(recording.started.parent)
        except NothingRecorded as error:
            return f"it is a child task, and of its parent {error}"
        known = family.find_part(recording.name)
        if known is not None:
            return _NOT_REACHED if known[1].stopped or known[1].is_left_open else ""
    return _NOT_REACHED


class RehearsedPart(Struct):
    """The counts of some of the sessions, then and now, and what was assumed of them, by who."""

    name: Literal["whole", "supposed", "stopped"]
    sessions: int = 0
    then: SessionCounts = field(default_factory=SessionCounts)
    now: SessionCounts = field(default_factory=SessionCounts)
    assumed: Counter[str] = field(default_factory=Counter)

    def add(self, played: Rehearsal) -> None:
        """Take in one session."""
        self.sessions += 1
        self.then.add(played.then)
        self.now.add(played.now)
        self.assumed.update(played.assumed)


class RehearsalTally:
    """The counts of all sessions, in three `parts` that are never added up.

    `whole` were played to their end and are exact, `supposed` too, but for what was assumed, and `stopped` are counted
    up to where each was stopped. That a call was sent again only because it was held is an assumption, too.
    """

    def __init__(self) -> None:
        self.whole, self.supposed = RehearsedPart("whole"), RehearsedPart("supposed")
        self.stopped = RehearsedPart("stopped")
        self.parts = self.whole, self.supposed, self.stopped
        self.versions: Counter[str] = Counter()

    def add(self, played: Rehearsal) -> None:
        """Take in one session."""
        part = self.stopped if played.stopped else self.supposed if played.assumed else self.whole
        part.add(played)
        self.versions[played.version] += 1


class RehearsalRun:
    """Plays sessions of a log under the user's layer `user`; `tally` is complete once all were played."""

    def __init__(self, log: Readable, user: Layer | None, assumed: Assumption, workers: Workers = 0) -> None:
        self._log, self._user, self._assumed, self._workers = log, user, assumed, workers
        self.tally = RehearsalTally()

    def play(self, sessions: Sequence[str]) -> Iterator[Rehearsal]:
        """Yield each session as it was played, without the events; those that belong together follow each other.

        Raises LogError for a log that cannot be read, and PolicyError where a session's workspace file would be refused
        over the user's.
        """
        families = find_families(self._log, sessions)
        play = partial(
            FamilyPlayer,
            user=self._user,
            assumed=self._assumed,
            families=families,
            wanted=frozenset(sessions),
            open_in=find_holders(self._log, chain.from_iterable(families.values())),
        )
        for _, family in work_on_sessions(self._log, list(families), play, self._workers, whole=True):
            for played in family:
                self.tally.add(played)
                yield played


@dataclass
class FamilyPlayer:
    """Plays whole families, by their first sessions; the policies are read once for all of them.

    `families` names the sessions of each in the order in which they are played, `wanted` those that are asked about,
    and `open_in` the processes that have one open.
    """

    log: Readable
    user: Layer | None
    assumed: Assumption
    families: Mapping[str, Sequence[str]]
    wanted: frozenset[str]
    open_in: Mapping[str, str]

    def __post_init__(self) -> None:
        self._policies = PolicyReplacer(partial(replace_user_layer, self.user))

    def __call__(self, piece: SessionPiece) -> list[Rehearsal]:
        """Return the sessions of a family as they were played; raise LogError where the log cannot be read."""
        names = self.families[piece.session]
        try:
            played = asyncio.run(rehearse(self._read, names, self._policies, self.assumed))
        except UNREADABLE as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            failed = f"session `{piece.session}` cannot be played again ({why})"
            raise LogError(f"{failed}; `foregate audit verify` tells what was changed") from None
        return [replace(one, events=()) for one in played if one.session in self.wanted]

    def _read(self, session: str) -> Sequence[Event]:
        """Return the events of a session, none of one that is not there; raise NothingRecorded where some are gone."""
        if holder := self.open_in.get(session):
            raise NothingRecorded(f"it is open in {holder} and may go on; close it there first")
        if not _is_there(self.log, session):
            return ()
        if erased := self.log.list_erased(session):
            raise NothingRecorded(f"{len(erased)} of its events were erased, the first of them event {min(erased)}")
        return list(self.log.events(session))


def find_families(log: Readable, sessions: Iterable[str]) -> dict[str, list[str]]:
    """Return sessions with all that have to be played before them, by the first: each before those that resume it.

    A child task stands after the session that began it, if that is there.
    """
    found: dict[str, list[str]] = {}
    for name in sessions:
        leading = _find_chain(log, name)
        family = found.setdefault(leading[0], [])
        family += [one for one in leading if one not in family]
    return found


def _find_chain(log: Readable, name: str) -> list[str]:
    """Return the sessions that lead to one, oldest first: those it resumes, and whose child task it is."""
    found = [name]
    while (before := _find_before(log, found[0])) and before not in found:
        found.insert(0, before)
    return found


def _find_before(log: Readable, name: str) -> str:
    """Return the session that one resumes or that began it, "" where the log holds none."""
    rest = find_rest(log, name)
    return rest.session if rest is not None and rest.session and _is_there(log, rest.session) else ""


def _is_there(log: Readable, name: str) -> bool:
    try:
        log.head_anchor(name)
    except LogError:
        return False
    return True


def find_holders(log: Readable, sessions: Iterable[str]) -> dict[str, str]:
    """Return which processes have sessions open, by session."""
    if not isinstance(log, QuestionStore):
        return {}
    return asyncio.run(_find_holders(log, sessions))


async def _find_holders(log: QuestionStore, sessions: Iterable[str]) -> dict[str, str]:
    found = {name: await log.find_holder(name) for name in sessions}
    return {name: holder for name, holder in found.items() if holder}
