"""Which recorded turns a changed policy can reach: the others come out as they did under their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from msgspec.structs import replace

from foregate.audit import pieces as cut  # how many events a piece has is said there alone
from foregate.audit.key_change import Change, Revision
from foregate.audit.pieces import SessionPiece, split_session
from foregate.audit.reach_index import Frame, ReachIndex
from foregate.audit.reach_pages import FrameKey, IndexedTurn, PageFrame, ReachPage, read_condition
from foregate.gates.replay.call_traits import CallTraits
from foregate.gates.replay.reach import PolicyChange
from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import compare_policies
from foregate.schemas.protocols import Readable


class FrameChange:
    """What a user's layer changes of what turns were judged under."""

    def __init__(self, frame: Frame, after: Policy) -> None:
        self.before, self.after = frame.policy, after
        self.change = PolicyChange(self.before, after)
        self._conditions: dict[str, bool] = {}
        self._traits: dict[CallTraits, bool] = {}

    @cached_property
    def differences(self) -> Mapping[Path, tuple[Data, Data]]:
        return compare_policies(self.before, self.after)

    def can_reach(self, condition: str) -> bool:
        """Whether a turn that rests on this condition may come out otherwise."""
        if condition not in self._conditions:
            self._conditions[condition] = self.change.can_reach(read_condition(condition))
        return self._conditions[condition]

    def can_match(self, traits: CallTraits) -> bool:
        """Whether a changed rule may match a call like this."""
        if traits not in self._traits:
            self._traits[traits] = self.change.can_match(traits)
        return self._traits[traits]


class _PageChange:
    """A change as one page numbers what its turns rest on that were judged under one frame."""

    def __init__(self, page: ReachPage, frame: PageFrame, change: FrameChange) -> None:
        self._broken = {number for number, one in frame.conditions.items() if change.can_reach(one)}
        self._matched = {number for number, one in enumerate(page.traits) if change.can_match(one)}
        self._all = change.change.reaches_all or frame.is_built_on_any(self._broken)

    def can_reach(self, turn: IndexedTurn) -> bool:
        if self._all or not turn.is_same:
            return True
        return turn.rests_on_any(self._broken) or not self._matched.isdisjoint(turn.calls)


class ChangeReach:
    """Tells which turns a change can reach; what it makes of each policy is found once."""

    def __init__(self, change: Change) -> None:
        self._revision = Revision(change)
        self._changes: dict[tuple[str, str], FrameChange] = {}

    def find_change(self, key: FrameKey, frame: Frame) -> FrameChange:
        """Return what is changed of a frame; raise PolicyError where a workspace's file would be refused."""
        name = key[:2]
        if name not in self._changes:
            self._changes[name] = FrameChange(frame, self._revision.revise(frame.policy, frame.layers))
        return self._changes[name]

    def list_reached(self, page: ReachPage, get_frame: Callable[[FrameKey], Frame]) -> tuple[int, ...]:
        """Return the events of a page's turns that must be judged again."""
        changes = [_PageChange(page, one, self.find_change(one.key, get_frame(one.key))) for one in page.frames]
        return tuple(turn.seq for turn in page.turns if changes[turn.frame].can_reach(turn))


def plan_session(
    log: Readable, index: ReachIndex, reach: ChangeReach, session: str
) -> Iterator[tuple[SessionPiece, ReachPage | None]]:
    """Yield the pieces of a session with what is to be judged of each, and its page where it is not all of it."""
    pages = index.find_pages(session)
    if pages is None:
        yield from ((piece, None) for piece in split_session(log, session))
        return
    reached = [reach.list_reached(page, index.get_frame) for page in pages]
    if any(reached):
        pieces = split_session(log, session)
    else:  # nothing of it is read
        pieces = (
            SessionPiece(session, number * cut.CHUNK, (number + 1) * cut.CHUNK, ()) for number in range(len(pages))
        )
    for piece, page, only in zip(pieces, pages, reached, strict=True):
        yield replace(piece, only=only), page
