"""What another policy would have let go of what is recorded: the calls it flips, in an order by chance."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal

from msgspec import Struct

from foregate.audit.pieces import Progress
from foregate.policy.source.layers import Layer
from foregate.schemas import strict_json
from foregate.schemas.protocols import Readable
from foregate.schemas.review import RuledCall
from foregate.telemetry.queries.drawing import shuffle_ruling
from foregate.telemetry.queries.rulings import read_judgement
from foregate.tuning.piece_judge import Row
from foregate.tuning.reach_index import ReachIndex
from foregate.tuning.what_if import WhatIf

_WANTING = ("model", "sandbox")
_STOPPED = ("hold", "deny")
Unit = Literal["calls", "sessions"]


class Frame(Struct, frozen=True):
    """The calls that a change lets go, as they are drawn: each by itself, or all of a session together.

    `units` are in the order of the draw; what is drawn first of them is a sample by chance.
    """

    units: tuple[tuple[RuledCall, ...], ...]

    @property
    def calls(self) -> list[RuledCall]:
        """All calls, in the order of the draw."""
        return [ruled for unit in self.units for ruled in unit]

    @property
    def hash(self) -> str:
        """The hash that says which calls these are."""
        return hash_addresses(self.calls)


def hash_addresses(calls: Iterable[RuledCall]) -> str:
    """Return the SHA-256 over the addresses of rulings in order, each with a line end."""
    addresses = sorted(ruled.address for ruled in calls)
    return hashlib.sha256("".join(f"{one}\n" for one in addresses).encode()).hexdigest()


def build_frame(calls: Iterable[RuledCall], unit: Unit, seed: int) -> Frame:
    """Return the frame of some calls in the order of a seed."""
    mixed = sorted(calls, key=lambda ruled: shuffle_ruling(seed, ruled))
    if unit == "calls":
        return Frame(tuple((ruled,) for ruled in mixed))
    together: dict[str, list[RuledCall]] = {}
    for ruled in sorted(mixed, key=lambda ruled: ruled.seq):
        together.setdefault(ruled.session, []).append(ruled)
    order = sorted(together, key=lambda session: hashlib.sha256(f"unit\0{seed}\0{session}".encode()).digest())
    return Frame(tuple(tuple(together[session]) for session in order))


class LetGoFinder:
    """Finds what policies would have let go of the calls of some sessions that were judged until a UTC time.

    What was found for a policy file is kept. With an `index`, which is brought up to the sessions, only the turns are
    judged for it that it can reach. `progress` is told how many pieces of the sessions are through, and of how many.
    """

    def __init__(
        self,
        log: Readable,
        sessions: Sequence[str],
        until: str,
        index: ReachIndex | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._log, self.sessions, self._until = log, sessions, until
        self._index, self._progress = index, progress
        if index is not None:
            with suppress(sqlite3.Error):  # what is not in it is judged
                index.catch_up(sessions, progress=progress)
        self._found: dict[str, dict[str, RuledCall]] = {}

    def find(self, user: Layer) -> dict[str, RuledCall]:
        """Return by its address each call that the user's layer lets go and the log does not.

        So is one that was asked about and would not be, and one that was held and would be up to planner or critic,
        whose answers are unknown. Raises LogError for a log that cannot be judged again, PolicyError for layers that
        make no policy.
        """
        key = strict_json.digest(user.data)
        if key not in self._found:
            judged = WhatIf(self._log, user, index=self._index, progress=self._progress, names_keys=False)
            rows = (row for row in judged.find_changes(self.sessions) if self._is_wanted(row))
            rulings = [read_ruling(self._log, row) for row in rows]
            self._found[key] = {ruled.address: ruled for ruled in rulings}
        return self._found[key]

    def _is_wanted(self, row: Row) -> bool:
        return row.time <= self._until and row.actor in _WANTING and bool(row.call.call) and is_let_go(row)


def is_let_go(row: Row) -> bool:
    """Whether a call that was stopped or asked about would, or might, run without that."""
    change = row.call.change
    return change in ("newly_let_go", "no_longer_asked") or (
        change == "not_decidable" and row.call.before.standing in _STOPPED
    )


def read_ruling(log: Readable, row: Row) -> RuledCall:
    """Return the ruling that decided about the call of a row, as the log holds it; raise TamperedLog for an event that
    is not what was written."""
    event, judgement = read_judgement(log, row.session, row.seq)
    verdict = judgement.find_verdict(row.call.call)
    gates = [decision.gate for decision in judgement.decisions]
    gate = verdict.gate if verdict.gate in gates else gates[0]
    return RuledCall(row.session, row.seq, gate, verdict.call, event.hash, verdict.digest)


def subtract(calls: Mapping[str, RuledCall], others: Mapping[str, RuledCall]) -> list[RuledCall]:
    """Return the calls that are not among others."""
    return [ruled for address, ruled in calls.items() if address not in others]
