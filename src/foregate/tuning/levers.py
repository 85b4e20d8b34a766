"""The keys of a policy by how many recorded decisions a change of them would have turned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property, partial
from typing import NamedTuple

from msgspec import Struct

from foregate.gates.replay.assumption import find_domain, list_other_words
from foregate.policy.policy import Policy
from foregate.policy.source.keys import POLICY
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import WORDS, list_values
from foregate.schemas.protocols import Readable
from foregate.tuning.change_set import ChangeSet, ConditionIndex, find_reached, list_break_points
from foregate.tuning.pieces import PieceWorkers, Progress, SessionPiece, Workers, split_session
from foregate.tuning.reach_index import FrameKey, ReachIndex, ReachPage, read_condition
from foregate.tuning.trials import Trial, TrialCounts, TrialJudge, TrialPiece, TrialStore, change_policy, number_trial

TRIES = 4
"""Values of a number on either side that are tried before the last one there is, until one turns something."""
_UNMOVED: Trial = (("limits", "turns"), 0)
"""A trial of a key that judging does not read: of turns that do not come out as recorded anyway."""
_EACH = 10
"""Of so many pieces one is tried first, to learn which values are worth trying on the others in one reading."""


class Lever(Struct, frozen=True):
    """A change of one key: how many recorded calls it would have turned, and how many more (or fewer) would be asked.

    Counted is up to each session's first divergence. `sessions` are those that would have gone another way, or may
    have: of `unseen` calls it is unknown, since looking at them again might find something else.
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
    unseen: int = 0

    @property
    def is_told(self) -> bool:
        """Whether the log tells of a call or a question that the change would have turned."""
        return bool(self.turned or self.count_questions())

    def count_questions(self) -> int:
        """Return how many questions more or fewer there are, of planner, critic and person."""
        return abs(self.plans) + abs(self.critiques) + abs(self.prompts)


class _Attempt(NamedTuple):
    """Values of a key that are tried one after the other, until one turns something."""

    path: Path
    before: Data
    values: Sequence[Data]


class LeverSearch:
    """Tries each key on the turns of sessions; `index` has caught up with them.

    The counts of a trial in each piece of a session are stored with the index: only what is new is judged.

    `progress` is told how many sessions are through, and of how many, each time further values are tried.

    `quiet` are keys that turned none, `unread` those of them that no turn rests on, `beside` those that are about what
    happens around judging.
    """

    def __init__(
        self,
        log: Readable,
        sessions: Sequence[str],
        index: ReachIndex,
        workers: Workers = 0,
        progress: Progress | None = None,
    ) -> None:
        self._log, self._sessions, self._index, self._progress = log, sessions, index, progress
        self._judges, self._known = PieceWorkers(workers), set[int]()
        self.quiet: list[str] = []
        self.unread: list[str] = []
        self.beside: list[str] = []

    @cached_property
    def _pages(self) -> dict[str, list[ReachPage]]:
        return {session: pages for session in self._sessions if (pages := self._index.find_pages(session))}

    @cached_property
    def _conditions(self) -> ConditionIndex:
        """What the turns rest on."""
        texts = (text for pages in self._pages.values() for page in pages for text in page.list_conditions())
        return ConditionIndex(map(read_condition, dict.fromkeys(texts)))

    @cached_property
    def _sets(self) -> dict[FrameKey, ChangeSet]:
        keys = (frame.key for pages in self._pages.values() for page in pages for frame in page.frames)
        return {key: ChangeSet(self._index.get_frame(key).policy) for key in dict.fromkeys(keys)}

    @cached_property
    def _pieces(self) -> dict[SessionPiece, ReachPage]:
        pages = self._pages.items()
        return {piece: page for name, own in pages for piece, page in zip(split_session(self._log, name), own)}  # noqa: B905

    @cached_property
    def _kept(self) -> TrialStore:
        heads = {name: self._index.get_head(name) for name in self._pages}
        return TrialStore(self._index.kept, heads, list(self._pieces))

    @cached_property
    def _main(self) -> Policy:
        """The policy under which most turns were judged: each key is moved from where it stands there."""
        turns = Counter[FrameKey]()
        for pages in self._pages.values():
            for page in pages:
                turns.update(page.frames[turn.frame].key for turn in page.turns)
        return self._index.get_frame(max(self._sets, key=lambda key: turns[key])).policy

    def find_levers(self) -> list[Lever]:
        """Return what each change turns, most first; of a key each change that turns something."""
        if not self._pages:
            return []
        movable = {path: value for path, value in list_values(self._main).items() if is_movable(path)}
        values = {path: value for path, value in movable.items() if not is_outside_judging(path)}
        self.beside = [format_path(path) for path in movable if path not in values]
        attempts = [one for path, now in values.items() for one in self._plan_attempts(path, now)]
        pieces, found = list(self._pieces), list[Lever]()
        with closing(self._judges):
            if len(pieces) > _EACH:
                some = zip(attempts, self._settle(attempts, pieces[::_EACH]), strict=True)
                self._try_all([_UNMOVED, *((one.path, value) for one, (tried, _) in some for value in tried)], pieces)
            for one, (tried, counts) in zip(attempts, self._settle(attempts, pieces), strict=True):
                if counts is not None:
                    found.append(build_lever(one.path, one.before, tried[-1], counts))
        turned = {lever.key for lever in found}
        self.quiet = [key for path in values if (key := format_path(path)) not in turned]
        self.unread = [key for path in values if (key := format_path(path)) in self.quiet and not self._is_read(path)]
        return sorted(found, key=lambda lever: (-lever.turned, -lever.count_questions(), -lever.unseen, lever.key))

    def _settle(
        self, attempts: Sequence[_Attempt], pieces: Sequence[SessionPiece]
    ) -> list[tuple[Sequence[Data], TrialCounts | None]]:
        """Return which values of each attempt were tried on pieces, and what the last comes to if it turned any."""
        tried, found = [0] * len(attempts), dict[int, TrialCounts]()
        while left := [n for n, one in enumerate(attempts) if n not in found and tried[n] < len(one.values)]:
            trials = [(attempts[n].path, attempts[n].values[tried[n]]) for n in left]
            unmoved, *counted = self._try_all([_UNMOVED, *trials], pieces)
            for n, counts in zip(left, counted, strict=True):
                tried[n] += 1
                if counts is not None and counts.differs_from(unmoved or TrialCounts()):
                    found[n] = counts
        return [(one.values[: tried[n]], found.get(n)) for n, one in enumerate(attempts)]

    def _is_read(self, path: Path) -> bool:
        """Whether a recorded turn rests on a key; each may rest on a rule."""
        is_rule = path[: len(RULES)] == RULES
        return is_rule or bool(self._conditions.list_about(path))

    def _plan_attempts(self, path: Path, now: Data) -> Iterator[_Attempt]:
        """Yield what is tried of a key: a rule taken out, each other word, a number moved up and down."""
        if path[: len(RULES)] == RULES:
            yield _Attempt(path, now, [None])
        elif self._is_read(path):
            yield from (_Attempt(path, now, [other]) for other in list_other_words(path, now))
            if isinstance(now, int) and not isinstance(now, bool):
                yield from self._plan_number(path, now, *find_domain(path))

    def _plan_number(self, path: Path, now: int, least: int, most: int) -> Iterator[_Attempt]:
        """Yield the nearest values up and down at which something turns, and the last one there is; of a number that
        is read whole half of it, twice it and that."""
        points = list_break_points(self._conditions.list_about(path), path, self._main, least, most)
        below, above = [p for p in reversed(points) if p < now], [p for p in points if p > now]
        for side, other, end in ((below, max(least, now // 2), least), (above, min(most, 2 * now), most)):
            tried = dict.fromkeys([*(side or [other])[:TRIES], end])
            yield _Attempt(path, now, [value for value in tried if value != now])

    def _try_all(self, trials: Sequence[Trial], pieces: Sequence[SessionPiece]) -> list[TrialCounts | None]:
        """Return what each trial comes to in pieces that can reach a turn and makes a policy."""
        kept = self._kept
        numbers = list(map(number_trial, trials))
        missing = {piece: new for piece in pieces if (new := kept.find_new(piece, numbers))}
        reached = self._find_reached(dict(zip(numbers, trials, strict=True)), missing) if missing else {}
        events = sum(len(some) for piece in reached.values() for some in piece.wanted.values())
        # The others follow, by the same processes.
        events = events * len(self._pieces) // max(1, len(pieces))
        judged = self._judges.work(self._log, reached.values(), events, TrialJudge)
        try:
            for done, (piece, (_, counts)) in enumerate(zip(reached, judged, strict=True), start=1):
                kept.add(piece, missing.pop(piece), counts)
                if self._progress is not None:
                    self._progress(done, len(reached))
            for piece, new in missing.items():
                kept.add(piece, new, {})
        finally:
            kept.commit()
        sums = kept.sum_up(numbers, pieces)
        return [sums.get(number) for number in numbers]

    def _find_reached(
        self, trials: Mapping[int, Trial], missing: Mapping[SessionPiece, Collection[int]]
    ) -> dict[SessionPiece, TrialPiece]:
        """Return what of pieces is to be judged, each under those of its trials that can reach it."""
        for number, (path, value) in trials.items():
            if number not in self._known:
                self._known.add(number)
                for changes in self._sets.values():
                    changes.add(number, path, partial(change_policy, changes.before, (path, value)))
        found: dict[SessionPiece, TrialPiece] = {}
        for piece, new in missing.items():
            if wanted := find_reached(self._pieces[piece], self._sets, new):
                place = piece.session, piece.after, piece.until, piece.in_force_at
                found[piece] = TrialPiece(*place, tuple(wanted), trials, wanted)
        return found


def build_lever(path: Path, before: Data, after: Data, counts: TrialCounts) -> Lever:
    """Return a change of a key with what it comes to."""
    calls, more = counts.calls, counts.more
    asked = (more["planner"], more["critic"], more["person"])
    key, held, let_go = format_path(path), calls["newly_held"], calls["newly_let_go"]
    return Lever(key, before, after, counts.turned, held, let_go, counts.sessions, *asked, counts.unseen)


def is_movable(path: Path) -> bool:
    """Whether a key can be tried: a number, a word of a few, a switch or a rule."""
    if path[:2] in WORDS:
        return False
    if path[: len(RULES)] == RULES:
        return True
    node = POLICY.find_node(path) or {}
    return "const" not in node and (node.get("type") in ("integer", "boolean") or "enum" in node)
