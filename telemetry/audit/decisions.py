"""Decision points as rows: one per gate asked about one turn, addressed `seq.gate`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.codes import CODES
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.judgement import CallRuling, Consequence, Mode, Number, Severity
from foregate.schemas.strict_json import Json

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "error")
ANY_GATE = ("gate_error", "not_asked_now")


class DecisionPoint(Struct, frozen=True):
    """One gate's verdict on one turn, with everything an auditor filters by or reads.

    `address` is `seq.gate`; `time` UTC text; `task` and `turn` count from 1; `response` is the event number of the
    model's response; `actor` is who made the calls (`model`, `runner`, `postlude`). The rest is as in Decision.
    """

    address: str
    seq: int
    time: str
    task: int
    turn: int
    response: int
    actor: str
    gate: str
    mode: Mode
    code: str
    severity: Severity
    summary: str
    tool: str
    target: str
    rulings: tuple[CallRuling, ...]
    numbers: tuple[Number, ...]
    rules: tuple[str, ...]
    repetition: str
    consequence: Consequence | None
    detail: Mapping[str, Json]

    def to_json(self) -> Json:
        """Return the row as JSON values, every column present."""
        return strict_json.dump(self)


def read_decisions(events: Iterable[Event]) -> Iterator[DecisionPoint]:
    """Yield the rows of all `turn_judged` among `events`, in order."""
    for event in events:
        if isinstance(event.body, TurnJudged):
            yield from _build_rows(event, event.body)


def filter_decisions(
    points: Iterable[DecisionPoint],
    *,
    gate: Collection[str] = (),
    code: Collection[str] = (),
    severity: Collection[str] = (),
) -> Iterator[DecisionPoint]:
    """Return the rows that have one of the given gates, codes and severities; an empty filter lets all through.

    Raises UsageError at once for a name nobody gives, with the nearest one.
    """
    _check_names("gate", gate, CODES)
    _check_names("code", code, [*ANY_GATE, *(name for names in CODES.values() for name in names)])
    _check_names("severity", severity, SEVERITIES)
    return (
        point
        for point in points
        if (not gate or point.gate in gate)
        and (not code or point.code in code)
        and (not severity or point.severity in severity)
    )


def _build_rows(event: Event, body: TurnJudged) -> Iterator[DecisionPoint]:
    turn = body.turn
    for decision in body.judgement.decisions:
        yield DecisionPoint(
            address=f"{event.seq}.{decision.gate}",
            seq=event.seq,
            time=event.time,
            task=turn.task,
            turn=turn.turn,
            response=turn.response,
            actor=turn.actor,
            gate=decision.gate,
            mode=decision.mode,
            code=decision.code,
            severity=decision.severity,
            summary=decision.summary,
            tool=decision.tool,
            target=decision.target,
            rulings=decision.rulings,
            numbers=decision.numbers,
            rules=decision.rules,
            repetition=decision.repetition,
            consequence=decision.consequence,
            detail=decision.detail,
        )


def _check_names(what: str, wanted: Iterable[str], names: Iterable[str]) -> None:
    known = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
            raise UsageError(f"there is no {what} `{name[:80]}`; did you mean `{near}`?")
