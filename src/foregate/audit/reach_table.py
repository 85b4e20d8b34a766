"""Which trials can reach which recorded turns, and what of judging them: asked for many changes at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from foregate.audit.change_reach import FrameChange
from foregate.audit.reach_pages import FrameKey, PageFrame, ReachPage, read_condition
from foregate.gates.replay.reach import is_of_gates, list_condition_paths
from foregate.policy.followed import Condition, Path
from foregate.policy.source.strict_yaml import Path as KeyPath

LOOKS, FACTS, JUDGED = 1, 2, 4
"""Parts of judging a turn again, to be added up: looking at its calls, their facts, the judgement itself. That of a
gate alone is JUDGED, moved to the left by its place in JUDGES."""
EVERY_PART = LOOKS | FACTS | JUDGED


class Conditions:
    """What turns that were judged under one frame rest on."""

    def __init__(self) -> None:
        self._texts: dict[str, None] = {}

    def add_texts(self, texts: Iterable[str]) -> None:
        """Take in conditions as their JSON."""
        self._texts.update(dict.fromkeys(texts))

    @cached_property
    def _by_path(self) -> Mapping[Path, list[str]]:
        """The conditions by the key they are about, and by all that holds it."""
        found = defaultdict[Path, list[str]](list)
        for path, texts in self._by_exact_path.items():
            for size in range(1, len(path) + 1):
                found[path[:size]] += texts
        return found

    @cached_property
    def _by_exact_path(self) -> Mapping[Path, list[str]]:
        found = defaultdict[Path, list[str]](list)
        for text in self._texts:
            for path in set(list_condition_paths(self.conditions[text])):
                found[path].append(text)
        return found

    @cached_property
    def conditions(self) -> Mapping[str, Condition]:
        """What the turns rest on, by its text."""
        return {text: read_condition(text) for text in self._texts}

    def list_about(self, key: KeyPath) -> Iterator[str]:
        """Yield the conditions about a key, what is in it, or what holds it."""
        path = tuple(map(str, key))
        yield from self._by_path.get(path, ())
        for size in range(1, len(path)):
            yield from self._by_exact_path.get(path[:size], ())


def list_frame_conditions(pages: Iterable[ReachPage]) -> dict[FrameKey, Conditions]:
    """Return by frame the conditions that its turns rest on."""
    found = defaultdict[FrameKey, Conditions](Conditions)
    for page in pages:
        for frame in page.frames:
            found[frame.key].add_texts(frame.conditions.values())
    return dict(found)


class FrameTrials:
    """Which of some numbered changes break what turns rest on that were judged under one frame."""

    def __init__(self, conditions: Conditions) -> None:
        self._conditions = conditions
        self._breaking: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        self._of_all: list[int] = []
        self._ruling: list[tuple[int, FrameChange]] = []

    def add(self, number: int, key: KeyPath, change: FrameChange) -> None:
        """Take in a change of one key."""
        if change.change.reaches_all:
            self._of_all.append(number)
            return
        carried = 0 if is_of_gates(key) else FACTS
        for text in set(self._conditions.list_about(key)):
            if change.can_reach(text):
                self._breaking[text].append((number, carried))
        if change.change.changes_rules:
            self._ruling.append((number, change))

    def find_reached(
        self, page: ReachPage, frame: PageFrame, numbers: Collection[int]
    ) -> tuple[dict[int, int], dict[int, list[tuple[int, int]]], dict[int, list[int]]]:
        """Return by the change the parts of judging every turn of a page's frame that it can reach; by a condition the
        changes that break it; and by the number of traits those that may match them."""
        broken = {
            condition: breaking
            for condition, text in frame.conditions.items()
            if (breaking := [one for one in self._breaking.get(text, ()) if one[0] in numbers])
        }
        of_all = add_judged({}, broken, frame.built) | {one: EVERY_PART for one in self._of_all if one in numbers}
        ruling = [(one, change) for one, change in self._ruling if one in numbers]
        matched = {
            number: found
            for number, traits in enumerate(page.traits)
            if (found := [one for one, change in ruling if change.can_match(traits)])
        }
        return of_all, broken, matched


def add_judged(
    parts: dict[int, int], broken: Mapping[int, Sequence[tuple[int, int]]], judged: Sequence[Sequence[int]]
) -> dict[int, int]:
    """Return parts by the change, with those of a judgement that rests on these conditions added."""
    for place, conditions in enumerate(judged):
        for condition in conditions:
            for number, carried in broken.get(condition, ()):
                parts[number] = parts.get(number, 0) | JUDGED << place | carried
    return parts


class TrialTable:
    """Which trials can reach the turns of pages, and what of judging them: turns that do not come out as recorded under
    their own policy are judged for `every` trial."""

    def __init__(self, frames: Mapping[FrameKey, FrameTrials]) -> None:
        self._frames, self.every = frames, list[int]()

    def add(self, number: int, key: KeyPath, changes: Iterable[tuple[FrameKey, FrameChange]]) -> None:
        """Take in a trial of a key with what it changes of each frame."""
        self.every.append(number)
        for frame, change in changes:
            self._frames[frame].add(number, key, change)

    def find_reached(self, page: ReachPage, numbers: Collection[int]) -> dict[int, list[tuple[int, int]]]:
        """Return by turn those of some trials that can reach it, each with the parts of judging it that it can."""
        reached = [self._frames[frame.key].find_reached(page, frame, numbers) for frame in page.frames]
        every = dict.fromkeys((one for one in self.every if one in numbers), EVERY_PART)
        found: dict[int, list[tuple[int, int]]] = {}
        for turn in page.turns:
            of_all, broken, matched = reached[turn.frame]
            parts = dict(of_all)
            for part, conditions in ((LOOKS, turn.looks), (FACTS, turn.facts)):
                for condition in conditions:
                    for number, _ in broken.get(condition, ()):
                        parts[number] = parts.get(number, 0) | part
            add_judged(parts, broken, turn.judged)
            for traits in turn.calls:
                parts.update(dict.fromkeys(matched.get(traits, ()), EVERY_PART))
            if parts := parts if turn.is_same else every:
                found[turn.seq] = sorted(parts.items())
        return found
