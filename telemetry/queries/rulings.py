"""The rulings of gates on calls: one that a person names, and all that are wanted for review."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import NamedTuple

from msgspec import Struct, structs

from foregate.evidence.state.recorded_turns import find_event
from foregate.schemas.errors import LogError, TamperedLog, UsageError
from foregate.schemas.event import Event, ModelResponded, TurnJudged
from foregate.schemas.judgement import Judgement, Mode, Standing
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import Readable
from foregate.schemas.review import RuledCall
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.chain import is_unchanged

# "12.mandate", "report-2/12.mandate:c3.1".
_ADDRESS = compile_late(r"(?:(?P<session>.+)[/:])?(?P<seq>[0-9]{1,18})\.(?P<gate>[a-z_]+)(?::(?P<call>[^\s/]+))?")


_RANKS = {standing.value: standing.rank for standing in Standing}


class DecisionAddress(NamedTuple):
    """What a person names: a session as they wrote it, an event, a gate, and a call, "" for the one it is about."""

    session: str
    seq: int
    gate: str
    call: str


def parse_address(text: str) -> DecisionAddress:
    """Return what `[SESSION/]SEQ.GATE[:CALL]` names, also with `:` for `/`; raise UsageError for anything else.

    >>> parse_address("last/12.evidence:c9.1")
    DecisionAddress(session='last', seq=12, gate='evidence', call='c9.1')
    """
    found = _ADDRESS.fullmatch(text)
    if found is None:
        form = "SESSION/SEQ.GATE or SESSION/SEQ.GATE:CALL, such as last/12.evidence"
        raise UsageError(f"`{text[:100]}` is no decision; name one as {form}")
    return DecisionAddress(found["session"] or "last", int(found["seq"]), found["gate"], found["call"] or "")


def find_ruling(log: Readable, session: str, seq: int, gate: str, call: str = "") -> RuledCall:
    """Return a ruling as the log holds it; without `call` on the call that the decision is about.

    Raises UsageError where it is missing, and TamperedLog for an event that is not what was written.
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
        return find_event(log, ruled.session, ruled.seq) is not None
    except LogError:
        return False


class JudgedCall(NamedTuple):
    """How one gate ruled on one call; what a decision leaves out is a pass."""

    gate: str
    mode: Mode
    call: str
    digest: str
    standing: str
    code: str
    is_verdict: bool


def list_rulings(judgement: Judgement) -> Iterator[JudgedCall]:
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
            yield JudgedCall(decision.gate, decision.mode, *about, standing, code, is_verdict)
        if decision.mode != "shadow":
            stopped |= {one.call for one in decision.rulings if one.standing.stops}


def read_judgement(log: Readable, session: str, seq: int) -> tuple[Event, Judgement]:
    """Return the event of a judged turn, and the judgement.

    Raises UsageError where it is missing, and TamperedLog for an event that is not what was written.
    """
    event = find_event(log, session, seq)
    if event is not None and not is_unchanged(event):
        changed = f"event {seq} of session `{session}` was changed, so nobody can say what was decided there"
        raise TamperedLog(f"{changed}; `foregate audit verify` tells more", seq)
    if event is None or not isinstance(event.body, TurnJudged):
        lists = f"`foregate audit show {session}` lists decisions"
        raise UsageError(f"event {seq} of session `{session}` is no judged turn, so nothing was decided there; {lists}")
    return event, event.body.judgement


_RISK = "risk"
_WANTING = ("model", "sandbox")
"""Who makes the calls that are reviewed: the model, and what its commands have changed in a sandbox."""


class RulingRow(Struct, frozen=True):
    """A ruling with what it is chosen by. `is_verdict` says that it is the strictest one its call got.

    `risk` is the call's in thousandths as a gate measured it, 0 where none did. The rest is as in a decision.
    """

    ruled: RuledCall
    time: str
    code: str
    standing: str
    mode: Mode
    tool: str
    risk: int
    is_verdict: bool


class Filter(Struct, frozen=True):
    """Which rulings somebody wants; an empty field wants all.

    Without `gates` those are wanted that decided about their call, one to each; with them, all rulings of these gates.
    `tools` are patterns with `*` and `?`, `since` and `until` UTC times as events have them.
    """

    gates: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    standings: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    since: str = ""
    until: str = ""

    def to_json(self) -> dict[str, Json]:
        """Return the fields that are not empty, as they are when read from JSON again."""
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in structs.asdict(self).items()
            if value
        }

    def is_wanted(self, row: RulingRow) -> bool:
        """Whether a ruling is one of these."""
        named = ((self.codes, row.code), (self.standings, row.standing))
        if any(wanted and value not in wanted for wanted, value in named):
            return False
        if self.tools and not any(fnmatchcase(row.tool, pattern) for pattern in self.tools):
            return False
        if not (row.ruled.gate in self.gates if self.gates else row.is_verdict):
            return False
        return row.time >= self.since and (not self.until or row.time <= self.until)


def read_population(log: Readable, sessions: Iterable[str], wanted: Filter) -> list[RulingRow]:
    """Return the rulings of sessions that are wanted, in the order of sessions and events."""
    return [row for session in sessions for row in read_rulings(log, session) if wanted.is_wanted(row)]


def read_rulings(log: Readable, session: str) -> Iterator[RulingRow]:
    """Yield every ruling on what the model wanted in a session, in order; looks that Foregate takes itself are no part.

    A read that was judged early is judged again later.
    """
    tools: dict[str, str] = {}
    for event in log.events(session, kinds=("model_response", "turn_judged")):
        match event.body:
            case ModelResponded(calls=calls):
                tools |= {recorded.id: recorded.name for recorded in calls}
            case TurnJudged(early=False) as body if body.turn.actor in _WANTING:
                tools |= {recorded.id: recorded.name for recorded in body.turn.proposed or ()}
                yield from _build_rows(event, body.judgement, tools)


def _build_rows(event: Event, judgement: Judgement, tools: Mapping[str, str]) -> Iterator[RulingRow]:
    measured = (number.value for decision in judgement.decisions for number in decision.numbers if number.name == _RISK)
    risk = max(measured, default=0)
    for one in list_rulings(judgement):
        ruled = RuledCall(event.session, event.seq, one.gate, one.call, event.hash, one.digest)
        how = one.code, one.standing, one.mode, tools.get(one.call, "")
        yield RulingRow(ruled, event.time, *how, risk, one.is_verdict)
