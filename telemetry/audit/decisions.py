"""Decision points as rows: one per gate asked about one turn, addressed `seq.gate`."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.codes import CODES
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import TaskEnded
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


Category = Literal["plan_revision", "evidence_gate", "retry_reason", "validation_failure"]

_CATEGORIES: dict[str, tuple[Category, ...]] = {
    "plan_accepted": ("plan_revision",),
    "critique_accepted": ("plan_revision",),
    "plan_rejected": ("plan_revision", "retry_reason"),
    "critique_rejected": ("plan_revision", "retry_reason"),
    "plan_drift": ("plan_revision", "retry_reason"),
    "missing_pre_execution_evidence": ("evidence_gate", "retry_reason"),
    "stale_evidence": ("evidence_gate", "retry_reason"),
    "text_only_turn_side_effecting_tool_drift": ("retry_reason",),
    "narration_required": ("retry_reason",),
    "uncertainty_clarification": ("retry_reason",),
    "plan_unavailable": ("validation_failure",),
    "critique_invalid": ("validation_failure",),
    "critique_unavailable": ("validation_failure",),
    "critique_skipped_budget": ("validation_failure",),
    "verification_pending": ("validation_failure",),
}
_PASSING = ("plan_accepted", "critique_accepted")

_HAPPENED = {
    "plan_accepted": "The plan for {call} was accepted",
    "critique_accepted": "The critic accepted {call}",
    "plan_rejected": "The plan for {call} was rejected",
    "critique_rejected": "The critic wanted {call} planned again",
    "plan_drift": "{call} went beyond the accepted plan",
    "missing_pre_execution_evidence": "{call} came before its target had been looked at",
    "stale_evidence": "{call} rested on a look that was out of date",
    "plan_unavailable": "No plan could be had for {call}",
    "critique_invalid": "The critique of {call} could not be used",
    "critique_unavailable": "No critique could be had of {call}",
    "critique_skipped_budget": "{call} was not criticised because the safety budget was used up",
    "verification_pending": "The task was called done before its changes were verified",
}
_RETRY = {
    "plan_rejected": "Before {call} is tried again, its plan must be mended",
    "critique_rejected": "Before {call} is tried again, the critic's issues must be met",
    "plan_drift": "Before {call} is tried again, it must be inside the accepted plan",
    "missing_pre_execution_evidence": "Before {call} is tried again, its target must be looked at",
    "stale_evidence": "Before {call} is tried again, its target must be looked at anew",
    "text_only_turn_side_effecting_tool_drift": "{call} was tried though only words had been asked for",
    "narration_required": "{call} was tried before anything was said about what would be done",
    "uncertainty_clarification": "{call} was tried before an open question was settled",
}


class ReplayNote(Struct, frozen=True):
    """One note: its category, the code it comes from, one sentence naming tool and target, and whether it blocked."""

    category: Category
    code: str
    summary: str
    blocking: bool


def build_notes(points: Iterable[DecisionPoint]) -> tuple[ReplayNote, ...]:
    """Return the notes of decisions in order, each once. A shadow gate's decisions were never applied: no note."""
    return tuple(
        dict.fromkeys(note for point in points if point.mode != "shadow" for note in _build_point_notes(point))
    )


def build_session_notes(events: Iterable[Event]) -> tuple[ReplayNote, ...]:
    """Return the notes of a session's events: those of its decisions, and one for each task whose budget ran out."""

    def find_notes() -> Iterator[ReplayNote]:
        for event in events:
            match event.body:
                case TaskEnded(status="budget_exhausted", note=note):
                    why = note.strip().rstrip(".")
                    sentence = f"A task ran out of its budget{f': {why}' if why else ''}."
                    yield ReplayNote("validation_failure", "execution_budget_exhausted", sentence, True)
                case _:
                    yield from build_notes(read_decisions([event]))

    return tuple(dict.fromkeys(find_notes()))


def _build_point_notes(point: DecisionPoint) -> Iterator[ReplayNote]:
    call = f"`{point.tool}`{f' on `{point.target}`' if point.target else ''}" if point.tool else "the response"
    reasons = dict.fromkeys(ruling.reason for ruling in point.rulings if ruling.code == point.code and ruling.reason)
    why = f" ({', '.join(reasons)})" if reasons else ""
    for category in _CATEGORIES.get(point.code, ()):
        sentence = (_RETRY if category == "retry_reason" else _HAPPENED)[point.code].format(call=call)
        summary = f"{sentence[0].upper()}{sentence[1:]}{why}."
        yield ReplayNote(category, point.code, summary, point.code not in _PASSING)
