"""What recorded turns came to, counted by gate without judging any of them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct, field

from foregate.audit.pieces import UNREADABLE, SessionPiece, explain_unreadable
from foregate.gates.replay.sweep_turn import TurnEnd, describe_end
from foregate.schemas.errors import LogError
from foregate.schemas.event import NeedAnswered, TurnJudged
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__
from foregate.telemetry.audit.rebuild_turn import LAYING, EventWindow, InForce, Lookup, find_body
from foregate.telemetry.log.chain import is_unchanged
from foregate.tuning.swept_pieces import What, list_figures

Counted = tuple[str, str, Literal["turns", "others", "calls", What]]
"""The hash of a policy, a gate ("" for none), and what is counted: turns, those of `others` that another version of
Foregate judged, calls, and figures of gates."""


class RecordedCounts(Struct):
    """Counts of turns, by the policy they were judged under, and these policies by their hashes."""

    counts: Counter[Counted] = field(default_factory=Counter)
    policies: dict[str, Mapping[str, Json]] = field(default_factory=dict)

    def add(self, other: RecordedCounts) -> None:
        """Take in the counts of a further piece."""
        self.counts.update(other.counts)
        self.policies.update(other.policies)


class PieceCounter:
    """Counts pieces of sessions."""

    def __init__(self, log: Readable) -> None:
        self._log = log

    def __call__(self, piece: SessionPiece) -> RecordedCounts:
        """Return the counts of a piece; raise LogError where the log cannot be read."""
        found, near, holds = RecordedCounts(), EventWindow(self._log, piece.session), InForce()
        kinds = (*LAYING, "need_answered", "turn_judged")
        try:
            for seq in piece.laid:
                holds = holds.apply(near(seq))
            events = self._log.events(piece.session, after=piece.after, until=piece.until, kinds=kinds)
            for event in near.follow(events):
                holds = holds.apply(event) if event.kind in LAYING else holds
                if isinstance(event.body, TurnJudged) and not event.body.early:
                    self._count(event.body, near, holds, found)
                    found.counts[holds.policy_hash, "", "others"] += event.foregate != __version__
        except UNREADABLE as error:
            raise explain_unreadable(piece.session, error) from None
        return found

    def _count(self, body: TurnJudged, near: EventWindow, holds: InForce, found: RecordedCounts) -> None:
        policy, _ = holds.require()
        found.policies[holds.policy_hash] = policy
        found.counts[holds.policy_hash, "", "turns"] += 1
        found.counts[holds.policy_hash, "", "calls"] += len(body.judgement.verdicts)
        found.counts.update((holds.policy_hash, one.gate, one.what) for one in list_figures(read_end(body, near)))


def read_end(body: TurnJudged, lookup: Lookup) -> TurnEnd:
    """Return what a recorded turn came to; `lookup` finds the answers. Raises LookupError for one that is gone."""
    answers = (find_body(seq, NeedAnswered, lookup).answer for seq in body.turn.answers)
    return describe_end(body.judgement, (answer for answer in answers if answer.gate != "loop"))


def read_turn_end(log: Readable, session: str, seq: int, event: str = "") -> TurnEnd | None:
    """Return what the turn that an event judged came to; None where there is none.

    With the hash `event`, None too where the event has another one, or is not what that was made of.
    """
    near = EventWindow(log, session)
    try:
        found = near(seq)
        same = not event or (event == found.hash and is_unchanged(found))
        return read_end(found.body, near) if same and isinstance(found.body, TurnJudged) else None
    except (*UNREADABLE, LogError):
        return None
