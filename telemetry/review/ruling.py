"""A gate's ruling on a call, as a person names it and as the log holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from foregate.schemas.errors import LogError, TamperedLog, UsageError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.judgement import Judgement, Mode, Standing
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import Readable
from foregate.schemas.review import RuledCall
from foregate.telemetry.log.chain import is_unchanged

_ADDRESS = compile_late(r"(?:(?P<session>.+)[/:])?(?P<seq>[0-9]{1,18})\.(?P<gate>[a-z_]+)(?::(?P<call>[^\s/]+))?")


_RANKS = {standing.value: standing.rank for standing in Standing}


class Address(NamedTuple):
    """What a person names: a session as they wrote it, an event, a gate, and a call, "" for the one it is about."""

    session: str
    seq: int
    gate: str
    call: str


def parse_address(text: str) -> Address:
    """Return what `[SESSION/]SEQ.GATE[:CALL]` names, also with `:` for `/`; raise UsageError for anything else.

    >>> parse_address("last/12.evidence:c9.1")
    Address(session='last', seq=12, gate='evidence', call='c9.1')
    """
    found = _ADDRESS.fullmatch(text)
    if found is None:
        form = "SESSION/SEQ.GATE or SESSION/SEQ.GATE:CALL, such as last/12.evidence"
        raise UsageError(f"`{text[:100]}` is no decision; name one as {form}")
    return Address(found["session"] or "last", int(found["seq"]), found["gate"], found["call"] or "")


def find_ruling(log: Readable, session: str, seq: int, gate: str, call: str = "") -> RuledCall:
    """Return a ruling as the log holds it; without `call` on the call that the decision is about.

    Raises UsageError where there is none, and TamperedLog for an event that is not what was written.
    """
    event, judgement = read_judgement(log, session, seq)
    rulings = [one for one in list_rulings(judgement) if one.gate == gate]
    if all(one.gate != gate for one in judgement.rows):
        asked = ", ".join(one.gate for one in judgement.rows) or "none"
        raise UsageError(f"`{gate[:40]}` was not asked about event {seq}; asked were {asked}")
    wanted = [one for one in rulings if one.call == call] if call else rulings
    if not wanted and not judgement.verdicts:
        raise UsageError(f"event {seq} of session `{session}` judged an answer in words; name a decision about calls")
    if not wanted:
        calls = ", ".join(one.call for one in rulings) or "none"
        raise UsageError(f"`{gate}` ruled on no call `{call[:40]}`; it did on {calls}")
    found = max(wanted, key=lambda one: _RANKS[one.standing])
    return RuledCall(session, seq, gate, found.call, event.hash, found.digest)


def find_decision(log: Readable, session: str, seq: int, gate: str, call: str = "") -> RuledCall:
    """Return a ruling as the log holds it, or what was said of an answer in words, which has no call; see
    `find_ruling`."""
    event, judgement = read_judgement(log, session, seq)
    if judgement.verdicts or call or all(one.gate != gate for one in judgement.rows):
        return find_ruling(log, session, seq, gate, call)
    return RuledCall(session, seq, gate, event=event.hash)


def check_ruling(log: Readable, ruled: RuledCall) -> None:
    """Raise UsageError or TamperedLog where the log holds another ruling than this one now."""
    found = find_ruling(log, ruled.session, ruled.seq, ruled.gate, ruled.call)
    if found != ruled:
        now = f"event {ruled.seq} of session `{ruled.session}` is another one than when it was chosen"
        raise TamperedLog(f"{now}, so nothing was written; `foregate audit verify` tells what was changed", ruled.seq)


def is_there(log: Readable, ruled: RuledCall) -> bool:
    """Whether the log still holds the event of a ruling, and it was not erased."""
    try:
        return next(iter(log.events(ruled.session, after=ruled.seq - 1, until=ruled.seq)), None) is not None
    except LogError:
        return False


class GateRuling(NamedTuple):
    """How one gate ruled on one call; what a decision leaves out is a pass."""

    gate: str
    mode: Mode
    call: str
    digest: str
    standing: str
    code: str
    is_verdict: bool


def list_rulings(judgement: Judgement) -> Iterator[GateRuling]:
    """Yield how each gate ruled on each call it was asked about, gate by gate. Of each call one is its verdict.

    A gate is asked about the calls that no gate before it has stopped.
    """
    stopped: set[str] = set()
    for decision in judgement.rows:
        given = {ruling.call: ruling for ruling in decision.rulings}
        for verdict in judgement.verdicts:
            if verdict.call in stopped:
                continue
            ruling, about = given.get(verdict.call), (verdict.call, verdict.digest)
            standing = (ruling.standing if ruling is not None else Standing.ALLOW).value
            code = ruling.code if ruling is not None else f"{decision.gate}_passed"
            is_verdict = decision.mode != "shadow" and verdict.gate == decision.gate
            yield GateRuling(decision.gate, decision.mode, *about, standing, code, is_verdict)
        if decision.mode != "shadow":
            stopped |= {one.call for one in decision.rulings if one.standing.stops}


def read_judgement(log: Readable, session: str, seq: int) -> tuple[Event, Judgement]:
    """Return the event of a judged turn, and the judgement.

    Raises UsageError where there is none, and TamperedLog for an event that is not what was written.
    """
    event = next(iter(log.events(session, after=seq - 1, until=seq)), None)
    if event is not None and not is_unchanged(event):
        changed = f"event {seq} of session `{session}` was changed, so nobody can say what was decided there"
        raise TamperedLog(f"{changed}; `foregate audit verify` tells more", seq)
    if event is None or not isinstance(event.body, TurnJudged):
        lists = f"`foregate audit show {session}` lists decisions"
        raise UsageError(f"event {seq} of session `{session}` is no judged turn, so nothing was decided there; {lists}")
    return event, event.body.judgement
