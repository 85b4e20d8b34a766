"""Recorded sessions played again under another policy, each through the loop, in parallel, in the order of the log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.audit.pieces import UNREADABLE, SessionPiece, Workers, work_on_sessions
from foregate.gates.replay.assumption import Assumption
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import replace_user_layer
from foregate.schemas.errors import LogError
from foregate.schemas.event import Event
from foregate.schemas.protocols import QuestionStore, Readable
from foregate.tuning.phases import find_rest
from foregate.tuning.rehearsing.family_replay import PolicyAgain
from foregate.tuning.rehearsing.recorded_steps import NothingRecorded
from foregate.tuning.rehearsing.rehearse import Rehearsal, SessionCounts, rehearse


class RehearsedPart(Struct):
    """What some of the sessions came to, then and now, and what was assumed of them, by who."""

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
    """What all sessions came to, in three parts that are never added up.

    `whole` were played to their end and are exact, `supposed` too, but for what was assumed, and `stopped` are counted
    up to where each was stopped. That a call was sent again only because it was held is an assumption, too.
    """

    def __init__(self) -> None:
        self.whole, self.supposed, self.stopped = (
            RehearsedPart("whole"),
            RehearsedPart("supposed"),
            RehearsedPart("stopped"),
        )
        self.versions: Counter[str] = Counter()

    @property
    def parts(self) -> tuple[RehearsedPart, ...]:
        """The three parts, the surest first."""
        return self.whole, self.supposed, self.stopped

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


class FamilyPlayer:
    """Plays whole families, by their first sessions; the policies are kept from one to the next.

    `families` names the sessions of each in the order in which they are played, `wanted` those that are asked about,
    and `open_in` the processes that have one open.
    """

    def __init__(
        self,
        log: Readable,
        user: Layer | None,
        assumed: Assumption,
        families: Mapping[str, Sequence[str]],
        wanted: frozenset[str],
        open_in: Mapping[str, str],
    ) -> None:
        self._log, self._assumed, self._families, self._wanted = log, assumed, families, wanted
        self._open_in = open_in
        self._policies = PolicyAgain(partial(replace_user_layer, user))

    def __call__(self, piece: SessionPiece) -> list[Rehearsal]:
        """Return the sessions of a family as they were played; raise LogError where the log cannot be read."""
        names = self._families[piece.session]
        try:
            played = asyncio.run(rehearse(self._read, names, self._policies, self._assumed))
        except UNREADABLE as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            failed = f"session `{piece.session}` cannot be played again ({why})"
            raise LogError(f"{failed}; `foregate audit verify` tells what was changed") from None
        return [replace(one, events=()) for one in played if one.session in self._wanted]

    def _read(self, session: str) -> Sequence[Event]:
        """Return the events of a session, none of one that is not there; raise NothingRecorded where some are gone."""
        if holder := self._open_in.get(session):
            raise NothingRecorded(f"it is open in {holder} and may go on; close it there first")
        if not _is_there(self._log, session):
            return ()
        if erased := self._log.list_erased(session):
            raise NothingRecorded(f"{len(erased)} of its events were erased, the first of them event {min(erased)}")
        return list(self._log.events(session))


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
