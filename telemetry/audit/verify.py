"""Proving a session's log: the chain holds, its tail is there, and nothing ran without leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from foregate.schemas.errors import TamperedLog, UsageError
from foregate.schemas.event import GENESIS, Event
from foregate.schemas.event_body import SessionEnded
from foregate.schemas.protocols import Readable
from foregate.telemetry.audit.invariants import InvariantChecker
from foregate.telemetry.log import chain

_NAMED = 100


class Defect(Struct, frozen=True):
    """One thing that is wrong: the first event number it concerns, its name, and a sentence."""

    seq: int
    code: str
    message: str


class Verification(Struct, frozen=True):
    """What verifying found: how many events hold, the last one's hash, whether the tail is proven, and the defects.

    `defects` are in the order of their events, at most the first hundred; empty means sound. The tail is proven by a
    last event `session_ended` with the right count, or by a head somebody kept elsewhere.
    """

    session: str
    events: int
    hash: str
    proven: bool
    defects: tuple[Defect, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; the tail may still be unproven."""
        return not self.defects

    @property
    def head(self) -> str:
        """The last event as `N:HASH`, for somebody to keep elsewhere."""
        return f"{self.events}:{self.hash}"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        if self.defects:
            first, more = self.defects[0], len(self.defects) - 1
            rest = f" (and {more} more)" if more else ""
            return f"not verified: {first.message}{rest}"
        if self.proven:
            return f"verified: {self.events} events"
        return f"consistent: {self.events} events; completeness of the tail unproven"


def verify_session(log: Readable, session: str, head: tuple[int, str] | None = None) -> Verification:
    """Verify a session of `log`; also finds a tail cut off behind the log's back. See `verify`."""
    kept = log.head_anchor(session)
    return verify_rows(log.lines(session), session, head, kept=kept)


def verify_rows(
    rows: Iterable[tuple[int, str, str]],
    session: str,
    head: tuple[int, str] | None = None,
    *,
    kept: tuple[int, str] | None = None,
) -> Verification:
    """Verify (number, canonical text, hash) rows: the chain, what the events say of each other, and the tail.

    `head` is the number and hash of an event somebody kept elsewhere; found as or before the last event it proves
    that nothing they knew of is missing. `kept` is the head the store itself notes: a tail that is shorter was cut,
    but as whoever can cut can also change the note, it proves nothing. One event is in memory at a time.
    """
    anchors = [anchor for anchor in (head, kept) if anchor is not None]
    wanted = {seq for seq, _ in anchors}
    defects: list[Defect] = []
    meaning = InvariantChecker()
    last, at = None, {0: GENESIS}
    try:
        for event in chain.verify_lines(rows, session):
            last = event
            if event.seq in wanted:
                at[event.seq] = event.hash
            if len(defects) < _NAMED and (found := meaning.check_event(event)):
                defects += (Defect(event.seq, code, f"event {event.seq}: {why}") for code, why in found)
    except TamperedLog as error:
        # The chain raises what reading an event said as its own; of an unreadable body the hash did fit.
        code = "malformed_event" if isinstance(error.__context__, chain.UnreadableBody) else "chain_broken"
        defects.append(Defect(error.seq, code, str(error)))
    else:
        defects += _find_missing(anchors, at, last.seq if last else 0)
    known = head is not None and at.get(head[0]) == head[1] and head[0] > 0
    proven = not defects and (known or _is_complete(last))
    return Verification(session, last.seq if last else 0, last.hash if last else GENESIS, proven, tuple(defects))


def parse_head(text: str) -> tuple[int, str]:
    """Return the number and hash that `N:HASH` names; raise UsageError for anything else."""
    number, _, hash_ = text.strip().partition(":")
    if number.isascii() and number.isdigit() and len(number) < 19 and len(hash_) == 64:
        try:
            return int(number), bytes.fromhex(hash_).hex()
        except ValueError:
            pass
    raise UsageError(f"`{text[:100]}` is no head; give it as verify prints it: event number, colon, 64 hex digits")


def _find_missing(anchors: list[tuple[int, str]], at: dict[int, str], last: int) -> Iterator[Defect]:
    """Yield a defect for each anchor the rows do not lead through."""
    for seq, hash_ in dict.fromkeys(anchors):
        if seq > last:
            cut = f"events {last + 1} to {seq} are missing" if seq > last + 1 else f"event {seq} is missing"
            yield Defect(last + 1, "cut_tail", f"{cut}: the log was cut off after event {last}")
        elif at.get(seq) != hash_:
            yield Defect(seq, "other_head", f"event {seq} is not the one that was kept: the log was written anew")


def _is_complete(last: Event | None) -> bool:
    return last is not None and isinstance(last.body, SessionEnded) and last.body.events == last.seq
