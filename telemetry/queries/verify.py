"""Proving a session's log: the chain holds, its tail is there, its events agree, and nothing ran without leave."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain as concatenate
from typing import Any, Literal

from msgspec import Struct

from foregate.evidence.state.recorded_turns import find_event
from foregate.schemas import event_body
from foregate.schemas.errors import LogError, TamperedLog, UsageError
from foregate.schemas.event import GENESIS, Event
from foregate.schemas.protocols import Readable
from foregate.telemetry.log import chain
from foregate.telemetry.queries.agreement import AgreementChecker, Finding
from foregate.telemetry.queries.invariants import InvariantChecker

Anchor = tuple[int, str]
"""The number and the hash of an event."""
State = Literal["verified", "unproven", "truncated", "tampered", "gone"]
"""How a log stands: verified to its end; consistent, but perhaps without its newest events; without events that are
known to have been there; changed; not there at all."""

NAMED = 100
"""Defects that are named of a session, at most."""
_CUT = "cut_tail"
"""The name of the defect that events at the end are missing."""
GONE = "session_gone"
"""The name of the defect that a whole session is."""


class Defect(Struct, frozen=True):
    """One thing that is wrong: the first event number it concerns, its name, and a sentence."""

    seq: int
    code: str
    message: str


class Verification(Struct, frozen=True):
    """What verifying found: how many events hold, the last one's hash, whether the tail is proven (by a last event
    `session_ended` with the right count, or by a head somebody kept elsewhere), and the defects: in the order of their
    events, at most the first hundred.

    Of the events `erased` counts those that have only their hash left. What comes after one of them is checked as the
    chain has it, and not for what it means.
    """

    session: str
    events: int
    hash: str
    proven: bool
    defects: tuple[Defect, ...] = ()
    erased: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; the tail may still be unproven."""
        return not self.defects

    @property
    def head(self) -> str:
        """The last event as `N:HASH`, for somebody to keep elsewhere."""
        return f"{self.events}:{self.hash}"

    @property
    def state(self) -> State:
        """How the log stands, in a word."""
        if self.defects:
            if self.defects[0].code == GONE:
                return "gone"
            return "truncated" if all(defect.code == _CUT for defect in self.defects) else "tampered"
        return "verified" if self.proven else "unproven"

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        erased = f", {self.erased} of them erased and there by their hashes alone" if self.erased else ""
        if self.defects:
            first, more = self.defects[0], len(self.defects) - 1
            places = {"truncated": f"truncated after {first.seq - 1}", "gone": "gone"}
            where = places.get(self.state, f"tampered at {first.seq}")
            rest = f" (and {more} more)" if more else ""
            return f"{where}: {first.message}{rest}"
        if self.proven:
            return f"verified: {self.events} events{erased}"
        return f"consistent: {self.events} events{erased}; completeness of the tail unproven"


def verify_session(
    log: Readable,
    session: str,
    head: Anchor | None = None,
    *,
    heads: Iterable[Anchor] = (),
    watch: Callable[[Event], object] | None = None,
) -> Verification:
    """Verify a session of `log`; also finds a tail cut off behind the log's back. See `verify_rows`."""
    more: dict[str, Any] = {"kept": log.head_anchor(session), "erased": log.list_erased(session)}
    return verify_rows(log.lines(session), session, head, heads=heads, watch=watch, **more)


def verify_rows(
    rows: Iterable[tuple[int, str, str]],
    session: str,
    head: Anchor | None = None,
    *,
    heads: Iterable[Anchor] = (),
    kept: Anchor | None = None,
    erased: Collection[int] = (),
    watch: Callable[[Event], object] | None = None,
) -> Verification:
    """Verify (number, canonical text, hash) rows: the chain, what the events say of each other, and the tail.

    `head`, and each of `heads`, is the number and hash of an event somebody kept elsewhere; found as or before the last
    event it proves that nothing they knew of is missing. `kept` is the head the store itself notes: a tail that is
    shorter was cut, but as whoever can cut can also change the note, it proves nothing. `erased` are the numbers of the
    events that have no text any more. `watch` is handed each event up to which the chain holds. One event is in memory
    at a time.
    """
    known = [*([head] if head is not None else []), *heads]
    anchors = [*known, *([kept] if kept is not None else [])]
    wanted = {seq for seq, _ in anchors}
    defects: list[Defect] = []
    meaning, agreement = InvariantChecker(), AgreementChecker()
    last, gone, at = None, 0, {0: GENESIS}
    count, hash_ = 0, GENESIS
    try:
        for count, hash_, event in chain.verify_rows(rows, session, erased):
            last = event
            if count in wanted:
                at[count] = hash_
            if event is None:
                gone += 1
                continue
            if not gone and len(defects) < NAMED:
                for code, why in concatenate(meaning.check_event(event), agreement.check_event(event)):
                    defects.append(Defect(count, code, f"event {count}: {why}"))
            if watch is not None:
                watch(event)
    except TamperedLog as error:
        # The chain raises what reading an event said as its own; of an unreadable body the hash did fit.
        code = "malformed_event" if isinstance(error.__context__, chain.UnreadableBody) else "chain_broken"
        defects.append(Defect(error.seq, code, str(error)))
    else:
        defects += _find_missing(anchors, at, count)
    found = any(at.get(seq) == hash_ for seq, hash_ in known if seq > 0)
    complete = last is not None and isinstance(last.body, event_body.SessionEnded) and last.body.events == count
    return Verification(session, count, hash_, not defects and (found or complete), tuple(defects), gone)


def parse_head(text: str) -> tuple[int, str]:
    """Return the number and hash that `N:HASH` names; raise UsageError for anything else."""
    if found := re.fullmatch(r"([0-9]{1,18}):([0-9A-Fa-f]{64})", text.strip()):
        return int(found[1]), found[2].lower()
    raise UsageError(f"`{text[:100]}` is no head; give it as verify prints it: event number, colon, 64 hex digits")


def _find_missing(anchors: list[tuple[int, str]], at: dict[int, str], last: int) -> Iterator[Defect]:
    for seq, hash_ in dict.fromkeys(anchors):
        if seq > last:
            cut = f"events {last + 1} to {seq} are missing" if seq > last + 1 else f"event {seq} is missing"
            yield Defect(last + 1, "cut_tail", f"{cut}: the log was cut off after event {last}")
        elif at.get(seq) != hash_:
            yield Defect(seq, "other_head", f"event {seq} is not the one that was kept: the log was written anew")


def check_link(log: Readable, event: Event) -> Iterator[Finding]:
    """Yield what is wrong with the session that another one follows by its first event."""
    link = event.body.follows if isinstance(event.body, event_body.SessionStarted) else None
    if link is None:
        return
    try:
        ended = find_event(log, link.session, link.seq)
    except LogError:
        why = f"it follows session `{link.session[:80]}`, which is not in the log, or cannot be read"
        yield "no_earlier_session", why
        return
    if ended is None or ended.hash != link.hash or ended.kind != "session_ended":
        yield "other_earlier_session", f"session `{link.session[:80]}`, which it follows, did not end so"
