"""The keys of a policy by how many recorded decisions a change of them would have turned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from msgspec import Struct

from foregate.audit.change_reach import ChangeReach
from foregate.audit.key_change import KeyChange, list_break_points, list_condition_paths, list_conditions
from foregate.audit.phases import WHO
from foregate.audit.reach_index import ReachIndex
from foregate.audit.reach_pages import FrameKey, ReachPage
from foregate.audit.what_if import WhatIf
from foregate.gates.replay.assumption import Assumption
from foregate.policy.followed import Condition
from foregate.policy.policy import Policy
from foregate.policy.source.keys import POLICY
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.values import is_outside_judging, list_values
from foregate.schemas.protocols import Readable

TRIES = 4
"""Values of a number on either side that are tried, until one turns something."""
_MOST = 10**9


class Lever(Struct, frozen=True):
    """A change of one key: how many recorded calls it would have turned, and how many more (or fewer) would be asked.

    Counted is up to each session's first divergence. `sessions` are those that would have gone another way.
    """

    key: str
    before: Data
    after: Data
    turned: int
    held: int
    let_go: int
    sessions: int
    plans: int
    critiques: int
    prompts: int


class LeverSearch:
    """Tries each key on the turns of sessions; `index` has caught up with them. `quiet` are keys that turned none."""

    def __init__(self, log: Readable, sessions: Sequence[str], index: ReachIndex) -> None:
        self._log, self._sessions, self._index = log, sessions, index
        self.quiet: list[str] = []

    @cached_property
    def _by_session(self) -> dict[str, list[ReachPage]]:
        return {session: pages for session in self._sessions if (pages := self._index.find_pages(session))}

    @cached_property
    def _pages(self) -> list[ReachPage]:
        return [page for pages in self._by_session.values() for page in pages]

    @cached_property
    def _main(self) -> Policy:
        """The policy under which most turns were judged: each key is moved from where it stands there."""
        counts = dict[FrameKey, int]()
        for page in self._pages:
            for turn in page.turns:
                counts[page.frames[turn.frame].key] = counts.get(page.frames[turn.frame].key, 0) + 1
        return self._index.get_frame(max(counts, key=counts.__getitem__)).policy

    def find_levers(self, progress: Callable[[int, int], None] | None = None) -> list[Lever]:
        """Return what each change turns, most first; of a key each change that turns something."""
        if not self._pages:
            return []
        found = list[Lever]()
        paths = [path for path in list_values(self._main) if is_lever(path)]
        for number, path in enumerate(paths):
            if progress is not None:
                progress(number, len(paths))
            levers = [lever for lever in self._try_key(path) if lever.turned]
            if not levers:
                self.quiet.append(format_path(path))
            found += levers
        return sorted(found, key=lambda lever: (-lever.turned, lever.key))

    def _try_key(self, path: Path) -> Iterator[Lever]:
        now = list_values(self._main)[path]
        if path[: len(RULES)] == RULES:
            yield from self._try_value(path, now, None)
        elif self._rests_on(path):
            node = POLICY.find_node(path) or {}
            if isinstance(now, bool) or "enum" in node:
                for other in [not now] if isinstance(now, bool) else node["enum"]:
                    if other != now:
                        yield from self._try_value(path, now, other)
            elif isinstance(now, int):
                yield from self._try_number(path, now, node.get("minimum", 0), node.get("maximum", _MOST))

    def _try_number(self, path: Path, now: int, least: int, most: int) -> Iterator[Lever]:
        """Yield the nearest value up and down at which something turns; of one read whole half of it and its double."""
        points = list(list_break_points(self._conditions, path, self._main, least, most))
        below, above = [p for p in reversed(points) if p < now], [p for p in points if p > now]
        for side, other in ((below, max(least, now // 2)), (above, min(most, 2 * now))):
            for value in (side or [other] * (other != now))[:TRIES]:
                lever = next(self._try_value(path, now, value), None)
                if lever is not None and lever.turned:
                    yield lever
                    break

    def _try_value(self, path: Path, now: Data, other: Data) -> Iterator[Lever]:
        """Yield what comes of one other value, nothing where it makes no policy."""
        change = KeyChange({path: other})
        judged = WhatIf(self._log, change, 0, self._index, Assumption())
        try:
            sessions = self._list_reached(change)
            rows = [row for row in judged.find_changes(sessions) if not row.apart]
        except ValueError:
            return
        changes = judged.tally.changes
        parts = (judged.phases.before, judged.phases.at)
        more = {who: sum(part.asked[who] - part.was[who] for part in parts) for who in WHO}
        yield Lever(
            format_path(path),
            now,
            other,
            len(rows),
            changes["newly_held"],
            changes["newly_let_go"],
            judged.tally.diverged,
            more["planner"],
            more["critic"],
            more["person"],
        )

    def _list_reached(self, change: KeyChange) -> list[str]:
        """Return the sessions that hold a turn the change can reach: in no other can anything turn."""
        reach, get = ChangeReach(change), self._index.get_frame
        return [
            session
            for session, pages in self._by_session.items()
            if any(reach.list_reached(page, get) for page in pages)
        ]

    @cached_property
    def _conditions(self) -> list[Condition]:
        return list_conditions(self._pages)

    @cached_property
    def _read(self) -> set[tuple[str, ...]]:
        return {path for condition in self._conditions for path in list_condition_paths(condition)}

    def _rests_on(self, path: Path) -> bool:
        """Whether any turn rests on a value, or on what holds it."""
        key = tuple(map(str, path))
        return any(read[: len(key)] == key or key[: len(read)] == read for read in self._read)


def is_lever(path: Path) -> bool:
    """Whether a key is tried: a number, a word of a few, a switch or a rule, that says how turns are judged."""
    if is_outside_judging(path):
        return False
    if path[: len(RULES)] == RULES:
        return True
    node = POLICY.find_node(path) or {}
    return node.get("type") in ("integer", "boolean") or "enum" in node
