"""What recorded turns rest on, as it is kept: a page for a piece of a session, whose conditions are told once."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from msgspec import Struct

from foregate.audit.phases import list_asked
from foregate.gates.replay.call_traits import CallTraits
from foregate.gates.replay.reach import TurnReach
from foregate.policy.followed import Condition
from foregate.schemas.judgement import Who
from foregate.schemas.turn import Turn

FrameKey = tuple[str, str, str]
"""Under what a turn was judged: the hashes of its policy, of what was recorded of its layers, and of its tools."""


class IndexedTurn(Struct, frozen=True, array_like=True):
    """A turn as the index knows it: its calls' digests, who was asked, whether it comes out as
    recorded under its own policy, and the numbers of its page's frame, conditions and traits."""

    seq: int
    task: int
    digests: tuple[str, ...]
    asked: tuple[Who, ...]
    is_same: bool
    frame: int
    judged: tuple[int, ...]
    surveyed: tuple[int, ...]
    calls: tuple[int, ...]


class ReachPage(Struct, frozen=True, array_like=True):
    """The turns of a piece of a session, in order. Conditions and traits stand as their JSON."""

    frames: tuple[FrameKey, ...]
    conditions: tuple[str, ...]
    traits: tuple[str, ...]
    turns: tuple[IndexedTurn, ...]

    def list_frames(self) -> list[FrameKey]:
        """Return what the turns were judged under, in their order."""
        return [self.frames[number] for number in dict.fromkeys(turn.frame for turn in self.turns)]


class PageWriter:
    """Puts a page together, turn by turn."""

    def __init__(self) -> None:
        self._frames: dict[FrameKey, int] = {}
        self._conditions: dict[Condition, int] = {}
        self._traits: dict[CallTraits, int] = {}
        self._turns: list[IndexedTurn] = []

    def add(self, seq: int, turn: Turn, frame: FrameKey, reach: TurnReach) -> None:
        """Add a turn."""
        conditions = self._conditions
        judged, surveyed = (
            tuple([conditions.setdefault(one, len(conditions)) for one in noted])
            for noted in (reach.judged, reach.surveyed)
        )
        calls = tuple(self._traits.setdefault(one, len(self._traits)) for one in reach.calls)
        number = self._frames.setdefault(frame, len(self._frames))
        digests = tuple(call.digest for call in turn.calls) or ("",)  # an answer in words counts as one
        rests_on = (number, judged, surveyed, calls)
        self._turns.append(IndexedTurn(seq, turn.task, digests, list_asked(turn), reach.is_same, *rests_on))

    def finish(self) -> bytes:
        """Return the page."""
        conditions = tuple(msgspec.json.encode(one).decode() for one in self._conditions)
        traits = tuple(msgspec.json.encode(one).decode() for one in self._traits)
        return msgspec.msgpack.encode(ReachPage(tuple(self._frames), conditions, traits, tuple(self._turns)))


_PAGES = msgspec.msgpack.Decoder(ReachPage)
_TRAITS = msgspec.json.Decoder(CallTraits)


def read_page(data: bytes) -> ReachPage:
    """Return a page; raise ValueError for what is none."""
    return _PAGES.decode(data)


def read_condition(text: str) -> Condition:
    """Return a condition from its JSON."""
    return cast(Condition, freeze(msgspec.json.decode(text)))


def read_traits(text: str) -> CallTraits:
    """Return what a call is like from its JSON."""
    return _TRAITS.decode(text)


def freeze(value: Any) -> Any:
    """Return a value of JSON with tuples for its lists."""
    return tuple(map(freeze, value)) if isinstance(value, list) else value
