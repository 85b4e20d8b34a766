"""What recorded turns rest on, as stored: a page for a piece of a session, each condition written once."""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Struct

from foregate.gates.replay.reach import CallTraits, Followed, ReachReader
from foregate.policy.followed import Condition
from foregate.schemas.judgement import Who
from foregate.schemas.turn import Turn
from foregate.tuning.phases import list_asked

FrameKey = tuple[str, str, str]
"""Under what a turn was judged: the hashes of its policy, of what was recorded of its layers, and of its tools."""


class IndexedTurn(Struct, frozen=True, array_like=True):
    """A turn as the index knows it: its calls' digests, who was asked, whether it comes out as recorded under its own
    policy, and the numbers of its page's frame, of the conditions it rests on, and of its calls' traits."""

    seq: int
    task: int
    digests: tuple[str, ...]
    asked: tuple[Who, ...]
    is_same: bool
    frame: int
    conditions: tuple[int, ...]
    calls: tuple[int, ...]


class PageFrame(Struct, frozen=True, array_like=True):
    """Under what turns of a page were judged: the conditions they rest on, by number, and which of them all rest on."""

    key: FrameKey
    conditions: dict[int, str]
    built: tuple[int, ...]

    def is_built_on_any(self, conditions: Set[int]) -> bool:
        """Whether all turns rest on one of some conditions."""
        return not conditions.isdisjoint(self.built)


class ReachPage(Struct, frozen=True, array_like=True):
    """The turns of a piece of a session, in order. Conditions stand as their JSON."""

    frames: tuple[PageFrame, ...]
    traits: tuple[CallTraits, ...]
    turns: tuple[IndexedTurn, ...]

    def list_conditions(self) -> Iterator[str]:
        """Yield the conditions of all frames."""
        for frame in self.frames:
            yield from frame.conditions.values()

    def list_frames(self) -> list[FrameKey]:
        """Return what the turns were judged under, in their order."""
        return [self.frames[number].key for number in dict.fromkeys(turn.frame for turn in self.turns)]


class PageWriter:
    """Puts a page together, turn by turn."""

    def __init__(self) -> None:
        self._frames: dict[FrameKey, tuple[int, ReachReader, set[int]]] = {}
        self._traits: dict[CallTraits, int] = {}
        self._turns: list[IndexedTurn] = []

    def add(
        self, seq: int, turn: Turn, frame: FrameKey, reader: ReachReader, followed: Followed, is_same: bool
    ) -> None:
        """Add a turn that was judged under a frame."""
        if frame not in self._frames:
            self._frames[frame] = len(self._frames), reader, set(reader.built)
        number, _, used = self._frames[frame]
        used.update(followed.conditions)
        calls = tuple([self._traits.setdefault(one, len(self._traits)) for one in followed.calls])
        digests = tuple([call.digest for call in turn.calls]) or ("",)  # an answer in words counts as one
        rests_on = tuple(followed.conditions), calls
        self._turns.append(IndexedTurn(seq, turn.task, digests, list_asked(turn), is_same, number, *rests_on))

    def finish(self) -> bytes:
        """Return the page."""
        frames = [
            PageFrame(key, {one: write_condition(reader.conditions[one]) for one in used}, reader.built)
            for key, (_, reader, used) in self._frames.items()
        ]
        return msgspec.msgpack.encode(ReachPage(tuple(frames), tuple(self._traits), tuple(self._turns)))


_PAGES = msgspec.msgpack.Decoder(ReachPage)


def read_page(data: bytes) -> ReachPage:
    """Return a page; raise ValueError for what is none."""
    return _PAGES.decode(data)


@lru_cache(maxsize=65536)
def write_condition(condition: Condition) -> str:
    """Return a condition as JSON."""
    return msgspec.json.encode(condition).decode()


@lru_cache(maxsize=65536)
def read_condition(text: str) -> Condition:
    """Return a condition from its JSON."""
    return cast(Condition, freeze(msgspec.json.decode(text)))


def freeze(value: Any) -> Any:
    """Return a value of JSON with tuples for its lists."""
    return tuple(map(freeze, value)) if isinstance(value, list) else value
