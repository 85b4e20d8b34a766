"""Where the sessions of a family diverge: a child task or a further session also where the one it rests on does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import NamedTuple

from foregate.schemas.event_body import SessionStarted
from foregate.schemas.protocols import Readable
from foregate.schemas.session_link import find_root
from foregate.tuning.phases import Phases, TurnOutcome


class Rest(NamedTuple):
    """What a session rests on: another one as far as its event `until`, all of it where that is not finite."""

    session: str
    until: float


class FamilyPhases:
    """Counts the turns of sessions in `phases`, family by family, once all of one were judged.

    `sessions` are all that are judged; of one that belongs to another which is not among them only itself is known.
    """

    def __init__(self, log: Readable, sessions: Sequence[str], phases: Phases) -> None:
        self._log, self._phases, self._known = log, phases, set(sessions)
        self._missing = Counter(find_root(name, self._known) for name in sessions)
        self._judged: dict[str, dict[str, list[TurnOutcome]]] = {}

    def add_session(self, name: str, outcomes: list[TurnOutcome]) -> None:
        """Take in what became of all turns of a session."""
        root = find_root(name, self._known)
        self._judged.setdefault(root, {})[name] = outcomes
        self._missing[root] -= 1
        if not self._missing[root]:
            self._count_family(self._judged.pop(root))

    def _count_family(self, judged: dict[str, list[TurnOutcome]]) -> None:
        if not any(judged.values()):
            return  # nothing is assumed, and what became of single turns is not asked about
        rests = {name: find_rest(self._log, name) for name in judged} if len(judged) > 1 else {}
        own = {name: min((one.seq for one in turns if one.diverges), default=inf) for name, turns in judged.items()}
        until = find_divergences(own, {name: rest for name, rest in rests.items() if rest is not None})
        for name, turns in judged.items():
            self._phases.begin_session(until[name])
            self._phases.add(turns)


def find_rest(log: Readable, name: str) -> Rest | None:
    """Return what a session rests on: the one whose task it is, or which it resumes; None for nothing that is known."""
    first = next(iter(log.events(name, until=1)), None)
    started = first.body if first is not None else None
    if not isinstance(started, SessionStarted):
        return None
    if started.depth:
        return Rest(started.parent, started.parent_event)
    return Rest(started.follows.session, inf) if started.follows is not None else None


def find_divergences(own: dict[str, float], rests: dict[str, Rest]) -> dict[str, float]:
    """Return by session the event up to which no session it rests on, and no child task of it, has diverged.

    `own` are the events at which sessions diverge by themselves. What a child task did, its parent hears when it goes
    on; where a session had diverged before, all of what it begins and all that goes on with it has too.
    """
    until = dict.fromkeys(own, inf)
    order = sorted(own, key=partial(_count_parents, rests))
    for name in reversed(order):
        rest = rests.get(name)
        if rest is not None and rest.session in own and rest.until < inf and min(own[name], until[name]) < inf:
            until[rest.session] = min(until[rest.session], rest.until)
    for name in order:
        rest = rests.get(name)
        if rest is not None and rest.session in own and min(own[rest.session], until[rest.session]) < rest.until:
            until[name] = 0
    return until


def _count_parents(rests: dict[str, Rest], name: str) -> int:
    """Return how many sessions a session rests on, one after the other, itself counted."""
    seen = {name}
    while (rest := rests.get(name)) is not None and rest.session not in seen:
        name = rest.session
        seen.add(name)
    return len(seen)
