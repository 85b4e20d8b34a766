"""Changes that are written down before anything is labelled for them, and the recorded calls that they let go."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from operator import itemgetter
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from foregate.assembly.home import find_judged_sessions, find_session
from foregate.policy.source.edit import TextChange, change_text
from foregate.policy.source.key_names import parse_key
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import layer_policy
from foregate.policy.source.strict_yaml import Data, format_path, parse_yaml
from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError, UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Readable
from foregate.schemas.review import ChangeProposed, ProposedStep, RuledCall
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import ReviewLog
from foregate.telemetry.queries.reviews import Proposal, Reviews
from foregate.telemetry.queries.rulings import read_judgement
from foregate.telemetry.queries.samples import shuffle_ruling, split_in_halves
from foregate.tuning.piece_judge import Row
from foregate.tuning.pieces import Progress
from foregate.tuning.reach_index import ReachIndex
from foregate.tuning.what_if import WhatIf

_WANTING = ("model", "sandbox")
_STOPPED = ("hold", "deny")
Unit = Literal["calls", "sessions"]


class ProposalFrame(Struct, frozen=True):
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


def build_frame(calls: Iterable[RuledCall], unit: Unit, seed: int) -> ProposalFrame:
    """Return the frame of some calls in the order of a seed."""
    mixed = sorted(calls, key=lambda ruled: shuffle_ruling(seed, ruled))
    if unit == "calls":
        return ProposalFrame(tuple((ruled,) for ruled in mixed))
    together: dict[str, list[RuledCall]] = {}
    for ruled in sorted(mixed, key=lambda ruled: ruled.seq):
        together.setdefault(ruled.session, []).append(ruled)
    order = sorted(together, key=lambda session: hashlib.sha256(f"unit\0{seed}\0{session}".encode()).digest())
    return ProposalFrame(tuple(tuple(together[session]) for session in order))


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
            # What is not in it is judged.
            with suppress(sqlite3.Error):
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


Dial: TypeAlias = Sequence[TextChange]
"""One key with the values it is to have, in the order they are tried."""
_MOST = 64
"""Settings that are tried at most: each is judged over all sessions."""


class Wanted(Struct, frozen=True, kw_only=True):
    """What is asked of a path: of what a setting lets go at most `allowed` thousandths may be wrong, shown with
    `confidence` thousandths. `base` is the text of the policy file in force, named `file`."""

    base: str
    file: str
    allowed: int
    confidence: int
    seed: int
    sessions: tuple[str, ...] = ()


def build_layer(base: str, file: str, values: Mapping[str, Data]) -> Layer:
    """Return the layer of a policy file with other values; raise PolicyError where that makes no policy."""
    changes = [TextChange(parse_key(key), value) for key, value in values.items()]
    data, lines = parse_yaml(change_text(base, file, changes), file)
    layer = Layer(file, file, data, lines)
    try:
        layer_policy(layer)
    except PolicyError as error:
        raise PolicyError(f"as changed, {error}") from None
    return layer


async def propose(
    log: SqliteLog,
    kept: ReviewLog,
    dials: Sequence[Dial],
    wanted: Wanted,
    by: Identity,
    now: str,
    index: ReachIndex | None = None,
    progress: Progress | None = None,
) -> tuple[Proposal, LetGoFinder]:
    """Write down a path, and return it with what was found for it; `index` and `progress` are those of a LetGoFinder.

    It holds the values of one dial as they are given, or the settings of several in an order found on one half of the
    sessions. Raises UsageError where no call is judged, for a path that lets nothing go, or goes from loose to
    strict.
    """
    names = [await find_session(log, name) for name in wanted.sessions]
    sessions = await find_judged_sessions(log, names)
    reviews, unit = await kept.read(), "calls" if len(dials) == 1 else "sessions"
    finder = LetGoFinder(log, sessions, now, index, progress)
    before = finder.find(build_layer(wanted.base, wanted.file, {}))
    found = []
    for values in _list_settings(dials):
        calls = finder.find(build_layer(wanted.base, wanted.file, values))
        found.append((values, subtract(calls, before)))
    steps = list(_write_path(found) if unit == "calls" else write_search(found, reviews, wanted.seed))
    if not any(step.population for step in steps):
        where = "" if unit == "calls" else " in both halves of the sessions"
        raise UsageError(f"no setting of this path lets go a recorded call{where}, so labels can show nothing of it")
    body = ChangeProposed(
        name="",
        base=wanted.base,
        steps=tuple(steps),
        unit="calls" if unit == "calls" else "sessions",
        allowed=wanted.allowed,
        confidence=wanted.confidence,
        seed=wanted.seed,
        sessions=len(sessions),
        by=by,
        among=tuple(sessions) if names else (),
    )
    name = f"c-{strict_json.digest(strict_json.dump(body, exclude=frozenset({'by'})))[:10]}"
    known = reviews.proposals.get(name)
    if known is not None:
        return known, LetGoFinder(log, sessions, known.time, index, progress)
    await kept.add_proposal(replace(body, name=name), now)
    return (await kept.read()).proposals[name], finder


def _list_settings(dials: Sequence[Dial]) -> list[dict[str, Data]]:
    """Return every combination of the values; raise UsageError for too many."""
    settings = [{format_path(change.path): change.value for change in chosen} for chosen in product(*dials)]
    if len(settings) > _MOST:
        raise UsageError(f"these are {len(settings)} settings, and {_MOST} are tried at most; give fewer values")
    return settings


def _write_path(found: Sequence[tuple[dict[str, Data], list[RuledCall]]]) -> Iterator[ProposedStep]:
    """Yield the settings of one dial as they are given; raise UsageError where one lets go fewer than one before."""
    most, last = 0, ""
    for values, calls in found:
        said = describe_values(values)
        if len(calls) < most:
            fewer = f"`{said}` lets go {len(calls)} recorded calls and `{last}` before it {most}"
            raise UsageError(f"{fewer}; write the path from strict to loose")
        most, last = len(calls), said
        yield ProposedStep(values, len(calls), hash_addresses(calls))


def write_search(
    found: Sequence[tuple[dict[str, Data], list[RuledCall]]], reviews: Reviews, seed: int
) -> Iterator[ProposedStep]:
    """Yield settings of several keys in the order in which they are tested on the other half of the sessions.

    On the first half those come first in which fewest labels speak against it. Of those that let go the same calls, one
    is tested.
    """
    ranked = []
    for values, calls in found:
        choosing, testing = _split_calls(calls, seed)
        against = sum(not is_right(reviews, ruled) for ruled in choosing if reviews.list_labels(ruled))
        if choosing and testing:
            order = against, len(choosing), strict_json.canonical(dict(values))
            ranked.append((order, values, frozenset(calls), testing))
    seen: set[frozenset[RuledCall]] = set()
    for _, values, let_go, testing in sorted(ranked, key=itemgetter(0)):
        if let_go not in seen:
            seen.add(let_go)
            yield ProposedStep(values, len({ruled.session for ruled in testing}), hash_addresses(testing))


def _split_calls(calls: Sequence[RuledCall], seed: int) -> tuple[list[RuledCall], list[RuledCall]]:
    choosing, _ = split_in_halves({ruled.session for ruled in calls}, seed)
    first = set(choosing)
    return [one for one in calls if one.session in first], [one for one in calls if one.session not in first]


def is_right(reviews: Reviews, ruled: RuledCall) -> bool:
    """Whether everybody who labelled a ruling found it too strict, so that the call may be let go; unclear is no."""
    labels = {given.body.label for given in reviews.list_labels(ruled)}
    return labels == {"too strict"}


def select_tested(calls: Sequence[RuledCall], unit: Unit, seed: int) -> list[RuledCall]:
    """Return the calls that a setting is tested on: all, or those of the half of the sessions that chose nothing."""
    return list(calls) if unit == "calls" else _split_calls(calls, seed)[1]


def describe_values(values: Mapping[str, Data]) -> str:
    """Return a setting in words, as `narration.min_chars: 10`."""
    return ", ".join(f"{key}: {format_value(value)}" for key, value in values.items())


def format_value(value: Data) -> str:
    """Return a value as YAML has it on one line; JSON is YAML, too."""
    plain = isinstance(value, (int, str)) and not isinstance(value, bool)
    return str(value) if plain else strict_json.canonical(value).decode()
