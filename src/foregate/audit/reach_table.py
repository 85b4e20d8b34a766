"""Which turns of indexed sessions rest on what, to be asked for many changes at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import IntFlag, auto
from functools import cached_property

from foregate.audit.change_reach import FrameChange
from foregate.audit.reach_pages import FrameKey, ReachPage, read_condition
from foregate.gates.replay.call_traits import CallTraits
from foregate.gates.replay.reach import OF_GATES, list_condition_paths
from foregate.policy.followed import Condition, Path
from foregate.policy.source.strict_yaml import Path as KeyPath

TurnPlace = tuple[str, int]
"""A turn: its session, and the event that judged it."""


class Part(IntFlag):
    """A part of judging a turn again: looking at its calls, their facts, the judgement itself."""

    LOOKS = auto()
    FACTS = auto()
    JUDGED = auto()


EVERY_PART = Part.LOOKS | Part.FACTS | Part.JUDGED


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
        for text in self._texts:
            for path in set(list_condition_paths(self.conditions[text])):
                for size in range(1, len(path) + 1):
                    found[path[:size]].append(text)
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
            for text in self._by_path.get(path[:size], ()):
                if path[:size] in list_condition_paths(self.conditions[text]):
                    yield text


class FrameTable(Conditions):
    """The turns that were judged under one frame, by what they rest on; a condition without turns is of all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[TurnPlace] = []
        self.calls: defaultdict[CallTraits, list[TurnPlace]] = defaultdict(list)
        self._resting: defaultdict[str, list[tuple[TurnPlace, Part]]] = defaultdict(list)
        self._built: set[str] = set()

    def add_page(self, session: str, number: int, page: ReachPage) -> None:
        """Take in the turns of a page that were judged under the frame of this number."""
        frame = page.frames[number]
        self.add_texts(frame.conditions.values())
        self._built.update(frame.conditions[one] for one in frame.built)
        for turn in page.turns:
            if turn.frame == number:
                place = session, turn.seq
                self.turns.append(place)
                for part, rests_on in ((Part.LOOKS, turn.looks), (Part.FACTS, turn.facts), (Part.JUDGED, turn.judged)):
                    for one in rests_on:
                        self._resting[frame.conditions[one]].append((place, part))
                for one in turn.calls:
                    self.calls[page.traits[one]].append(place)

    def find_reached(self, key: KeyPath, change: FrameChange) -> dict[TurnPlace, Part]:
        """Return the turns that a change of one key can reach, with the parts of their judging that it can reach."""
        broken = {text for text in self.list_about(key) if change.can_reach(text)}
        carried = Part(0) if key[0] in OF_GATES else Part.FACTS
        if change.change.reaches_all:
            return dict.fromkeys(self.turns, EVERY_PART)
        found: dict[TurnPlace, Part] = {}
        if not broken.isdisjoint(self._built):  # what the gates are made of
            found = dict.fromkeys(self.turns, Part.JUDGED | carried)
        for text in broken:
            for place, part in self._resting[text]:
                found[place] = found.get(place, part) | part | (carried if part is Part.JUDGED else part)
        for traits, places in self.calls.items() if change.change.changes_rules else ():
            if change.can_match(traits):
                found.update(dict.fromkeys(places, EVERY_PART))
        return found


def list_frame_conditions(pages: Iterable[ReachPage]) -> dict[FrameKey, Conditions]:
    """Return by frame the conditions that its turns rest on."""
    found = defaultdict[FrameKey, Conditions](Conditions)
    for page in pages:
        for frame in page.frames:
            found[frame.key].add_texts(frame.conditions.values())
    return dict(found)


def build_tables(by_session: Mapping[str, Iterable[ReachPage]]) -> dict[FrameKey, FrameTable]:
    """Return by frame what its turns rest on."""
    found = defaultdict[FrameKey, FrameTable](FrameTable)
    for session, pages in by_session.items():
        for page in pages:
            for number, frame in enumerate(page.frames):
                found[frame.key].add_page(session, number, page)
    return dict(found)
