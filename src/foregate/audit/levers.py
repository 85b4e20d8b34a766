"""The keys of a policy by how many recorded decisions a change of them would have turned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial

from msgspec import Struct
from msgspec.structs import replace

from foregate.audit.change_reach import FrameChange
from foregate.audit.kept_trials import KeptTrials
from foregate.audit.key_change import list_break_points
from foregate.audit.lever_trials import Trial, TrialCounts, TrialJudge, change_policy
from foregate.audit.pieces import Progress, SessionPiece, Workers, work_on_pieces
from foregate.audit.reach_index import ReachIndex
from foregate.audit.reach_pages import FrameKey, ReachPage
from foregate.audit.reach_table import (
    EVERY_PART,
    Conditions,
    FrameTable,
    Part,
    TurnPlace,
    build_tables,
    list_frame_conditions,
)
from foregate.policy.policy import Policy
from foregate.policy.source.keys import POLICY
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import WORDS, list_values
from foregate.schemas.protocols import Readable

TRIES = 4
"""Values of a number on either side that are tried before the last one there is, until one turns something."""
_MOST = 10**9
_BESIDE = ("limits", "turns")
"""A key that judging does not read."""


class Lever(Struct, frozen=True):
    """A change of one key: how many recorded calls it would have turned, and how many more (or fewer) would be asked.

    Counted is up to each session's first divergence. `sessions` are those that would have gone another way, or may
    have: `unseen` are calls of which that cannot be told, as looking at them again might find something else.
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


class _Attempt(Struct):
    """Values of a key that are tried one after the other, until one turns something."""

    path: Path
    before: Data
    values: list[Data]


class LeverSearch:
    """Tries each key on the turns of sessions; `index` has caught up with them.

    What a trial comes to in a piece of a session is kept with the index, as it is found: only what is new is judged.

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
        self._log, self._sessions, self._index, self._workers = log, sessions, index, workers
        self._progress = progress
        self.quiet: list[str] = []
        self.unread: list[str] = []
        self.beside: list[str] = []

    @cached_property
    def _pages(self) -> dict[str, list[ReachPage]]:
        return {session: pages for session in self._sessions if (pages := self._index.find_pages(session))}

    @cached_property
    def _conditions(self) -> dict[FrameKey, Conditions]:
        return list_frame_conditions(page for pages in self._pages.values() for page in pages)

    @cached_property
    def _trials(self) -> KeptTrials:
        return KeptTrials(self._log, self._index.kept, {name: self._index.get_head(name) for name in self._pages})

    @cached_property
    def _values(self) -> dict[FrameKey, dict[Path, Data]]:
        return {key: list_values(self._index.get_frame(key).policy) for key in self._conditions}

    @cached_property
    def _otherwise(self) -> list[TurnPlace]:
        """The turns that do not come out as recorded under their own policy, so that every change counts them."""
        pages = ((session, page) for session, pages in self._pages.items() for page in pages)
        return [(session, turn.seq) for session, page in pages for turn in page.turns if not turn.is_same]

    @cached_property
    def _unmoved(self) -> TrialCounts:
        """What comes of moving nothing that judging reads: of turns that do not come out as recorded anyway."""
        return self._try_all([(_BESIDE, 0)]).get(0, TrialCounts())

    @cached_property
    def _main(self) -> Policy:
        """The policy under which most turns were judged: each key is moved from where it stands there."""
        turns = Counter[FrameKey]()
        for pages in self._pages.values():
            for page in pages:
                turns.update(page.frames[turn.frame].key for turn in page.turns)
        return self._index.get_frame(max(self._conditions, key=lambda key: turns[key])).policy

    def find_levers(self) -> list[Lever]:
        """Return what each change turns, most first; of a key each change that turns something."""
        if not self._pages:
            return []
        movable = {path: value for path, value in list_values(self._main).items() if is_movable(path)}
        values = {path: value for path, value in movable.items() if not is_outside_judging(path)}
        self.beside = [format_path(path) for path in movable if path not in values]
        attempts = [one for path, now in values.items() for one in self._plan_attempts(path, now)]
        found = list[Lever]()
        while attempts := [one for one in attempts if one.values]:
            trials = [(one.path, one.values.pop(0)) for one in attempts]
            counts = self._try_all(trials)
            for number, (one, (_, value)) in enumerate(zip(attempts, trials, strict=True)):
                if number in counts and counts[number].differs_from(self._unmoved):
                    one.values.clear()
                    found.append(build_lever(one.path, one.before, value, counts[number]))
        turned = {lever.key for lever in found}
        self.quiet = [key for path in values if (key := format_path(path)) not in turned]
        self.unread = [key for path in values if (key := format_path(path)) in self.quiet and not self._is_read(path)]
        return sorted(found, key=lambda lever: (-lever.turned, -lever.count_questions(), -lever.unseen, lever.key))

    def _is_read(self, path: Path) -> bool:
        """Whether a recorded turn rests on a key; each may rest on a rule."""
        is_rule = path[: len(RULES)] == RULES
        return is_rule or any(next(one.list_about(path), None) for one in self._conditions.values())

    def _plan_attempts(self, path: Path, now: Data) -> Iterator[_Attempt]:
        """Yield what is tried of a key: a rule taken out, each other word, a number moved up and down."""
        if path[: len(RULES)] == RULES:
            yield _Attempt(path, now, [None])
        elif self._is_read(path):
            node = POLICY.find_node(path) or {}
            if isinstance(now, bool) or "enum" in node:
                others = [not now] if isinstance(now, bool) else node["enum"]
                yield from (_Attempt(path, now, [other]) for other in others if other != now)
            elif isinstance(now, int):
                yield from self._plan_number(path, now, node.get("minimum", 0), node.get("maximum", _MOST))

    def _plan_number(self, path: Path, now: int, least: int, most: int) -> Iterator[_Attempt]:
        """Yield the nearest values up and down at which something turns, and the last one there is; of a number that
        is read whole half of it, twice it and that."""
        frames = self._conditions.values()
        about = dict.fromkeys(one.conditions[text] for one in frames for text in one.list_about(path))
        points = list(list_break_points(about, path, self._main, least, most))
        below, above = [p for p in reversed(points) if p < now], [p for p in points if p > now]
        for side, other, end in ((below, max(least, now // 2), least), (above, min(most, 2 * now), most)):
            tried = dict.fromkeys([*(side or [other])[:TRIES], end])
            yield _Attempt(path, now, [value for value in tried if value != now])

    def _try_all(self, trials: Sequence[Trial]) -> dict[int, TrialCounts]:
        """Return by number what each trial comes to that can reach a turn and makes a policy."""
        missing = {piece: numbers for piece in self._trials.pieces if (numbers := self._trials.find_new(piece, trials))}
        wanted = self._list_wanted(trials, missing)
        reached = [
            replace(piece, only=seqs)
            for piece in missing
            if (seqs := tuple(seq for seq in sorted(wanted.get(piece.session, ())) if piece.after < seq <= piece.until))
        ]
        events = sum(len(numbers) for turns in wanted.values() for numbers in turns.values())
        prepare = partial(TrialJudge, trials=trials, wanted=wanted)
        judged = work_on_pieces(self._log, reached, events, prepare, self._workers)
        try:
            for done, (piece, counts) in enumerate(judged, start=1):
                own = replace(piece, only=None)
                self._trials.add(own, trials, missing.pop(own), counts)
                if self._progress is not None:
                    self._progress(done, len(reached))
            for piece, numbers in missing.items():
                self._trials.add(piece, trials, numbers, {})
        finally:
            self._trials.commit()
        return self._trials.sum_up(trials)

    def _list_wanted(
        self, trials: Sequence[Trial], missing: Mapping[SessionPiece, Collection[int]]
    ) -> dict[str, dict[int, list[tuple[int, int]]]]:
        """Return by session and turn the trials that are to be judged, and what of the turn they can reach."""
        new: dict[str, list[tuple[SessionPiece, Collection[int]]]] = {}
        for piece, numbers in missing.items():
            new.setdefault(piece.session, []).append((piece, numbers))
        tables = build_tables({session: self._pages[session] for session in new})
        wanted: dict[str, dict[int, list[tuple[int, int]]]] = {}
        for number in sorted({number for numbers in missing.values() for number in numbers}):
            with suppress(ValueError):
                for (session, seq), part in self._find_reached(trials[number], tables).items():
                    if any(piece.after < seq <= piece.until and number in one for piece, one in new.get(session, ())):
                        wanted.setdefault(session, {}).setdefault(seq, []).append((number, int(part)))
        return wanted

    def _find_reached(self, trial: Trial, tables: Mapping[FrameKey, FrameTable]) -> dict[TurnPlace, Part]:
        """Return the turns a trial can reach, and what of them; raise ValueError where it makes no policy."""
        path, value = trial
        reached = dict[TurnPlace, Part]()
        for key, table in tables.items():
            frame = self._index.get_frame(key)
            touched = path[: len(RULES)] == RULES or next(table.list_about(path), None) is not None
            if touched and self._values[key].get(path) != value:
                change = FrameChange(frame, change_policy(frame.policy, trial))
                reached.update(table.find_reached(path, change))
        reached.update(dict.fromkeys(self._otherwise, EVERY_PART))
        return reached


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
