"""The rulings there are to review, and those of them that somebody wants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct, structs

from foregate.schemas.event import Event, ModelResponded, TurnJudged
from foregate.schemas.judgement import Judgement, Mode
from foregate.schemas.protocols import Readable
from foregate.schemas.review import RuledCall
from foregate.schemas.strict_json import Json
from foregate.telemetry.review.ruling import list_rulings

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
