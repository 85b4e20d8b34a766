"""Decision points: as rows, one per gate asked about one turn, and as notes for whoever reviews them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from foregate.schemas.codes import CODES, AnyGateCode
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import TaskEnded
from foregate.schemas.judgement import CallRuling, Consequence, Decision, Mode, Number, Severity, Standing
from foregate.schemas.strict_json import Json, get_int, get_list
from foregate.telemetry.queries.rows import ListRow

Names = Collection[str]
Category = Literal["plan_revision", "evidence_gate", "retry_reason", "validation_failure"]

_LONGEST_ISSUE = 200
_ANY_GATE = get_args(AnyGateCode)
_CALM = ("prelude_ready_for_execution", "plan_not_required", "critique_not_required")
_PASSING = ("plan_accepted", "critique_accepted", "plan_unavailable_let_go")
_HAPPENED: Mapping[str, tuple[Category, str]] = {
    "plan_accepted": ("plan_revision", "The plan{version} for {call} was accepted"),
    "critique_accepted": ("plan_revision", "The critic accepted {call}"),
    "plan_rejected": ("plan_revision", "The plan for {call} was rejected"),
    "critique_rejected": ("plan_revision", "The critic wanted {call} planned again"),
    "plan_drift": ("plan_revision", "{call} went beyond the accepted plan"),
    "missing_pre_execution_evidence": ("evidence_gate", "{call} came before its target had been looked at"),
    "stale_evidence": ("evidence_gate", "{call} rested on a look that was out of date"),
    "unread_value": ("evidence_gate", "{call} named what nobody said and nothing read holds"),
    "plan_unavailable": ("validation_failure", "No plan could be had for {call}"),
    "plan_unavailable_let_go": ("validation_failure", "No plan could be had for {call}, and the policy let it go"),
    "critique_invalid": ("validation_failure", "The critique of {call} could not be used"),
    "critique_unavailable": ("validation_failure", "No critique could be had of {call}"),
    "critique_skipped_budget": (
        "validation_failure",
        "{call} was not criticised because the safety budget was used up",
    ),
    "verification_pending": ("validation_failure", "The task was called done before its changes were verified"),
}
"""By its code what a decision notes of what happened, and in which category."""
_RETRY = {
    "plan_rejected": "Before {call} is tried again, its plan must be mended",
    "critique_rejected": "Before {call} is tried again, the critic's issues must be met",
    "plan_drift": "Before {call} is tried again, it must be inside the accepted plan",
    "missing_pre_execution_evidence": "Before {call} is tried again, its target must be looked at",
    "stale_evidence": "Before {call} is tried again, its target must be looked at anew",
    "unread_value": "Before {call} is tried again, what it names must be looked up",
    "text_only_turn_side_effecting_tool_drift": "{call} was tried though only words had been asked for",
    "narration_required": "{call} was tried before anything was said about what would be done",
    "outside_mandate": "Before {call} is tried again, a person must name what only text from outside said",
    "uncertainty_clarification": "{call} was tried before an open question was settled",
}
"""By its code what a decision notes of why a call is to be tried again."""


class DecisionPoint(ListRow, frozen=True):
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


def read_decisions(events: Iterable[Event]) -> Iterator[DecisionPoint]:
    """Yield the rows of all `turn_judged` among `events`, in order."""
    for event in events:
        if not isinstance(event.body, TurnJudged):
            continue
        turn = event.body.turn
        about = {name: getattr(turn, name) for name in ("task", "turn", "response", "actor")}
        for decision in event.body.judgement.rows:
            about["address"], about["severity"] = f"{event.seq}.{decision.gate}", decision.severity
            yield DecisionPoint(seq=event.seq, time=event.time, **about, **asdict(decision))


def has_only_passed(row: Decision | DecisionPoint) -> bool:
    """Whether a gate had nothing to say: it let everything pass, by no rule, and nothing follows from it."""
    calm = row.severity == "info" and (row.code.endswith("_passed") or row.code in _CALM)
    return calm and not row.rules and not has_fired(row)


def has_fired(row: Decision | DecisionPoint) -> bool:
    """Whether a gate stopped or asked something, or something follows from what it said."""
    passed = all(ruling.standing is Standing.ALLOW for ruling in row.rulings)
    return not passed or row.consequence is not None or row.code == "verification_pending"


def order_rulings(decision: Decision) -> list[CallRuling]:
    """Return the rulings of a decision, the one that gave it its code first."""
    return sorted(decision.rulings, key=lambda ruling: ruling.code != decision.code)


def check_names(*, gate: Names = (), code: Names = (), severity: Names = (), standing: Names = ()) -> None:
    """Raise UsageError for a gate, code, severity or standing that nobody gives, with the nearest one."""
    _check_names("gate", gate, CODES)
    _check_names("code", code, [*_ANY_GATE, *chain.from_iterable(CODES.values())])
    _check_names("severity", severity, get_args(Severity))
    _check_names("verdict", standing, [one.value for one in Standing])


def _check_names(what: str, wanted: Iterable[str], names: Iterable[str]) -> None:
    known = tuple(dict.fromkeys(names))
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0)[0]
            raise UsageError(f"there is no {what} `{name[:80]}`; did you mean `{near}`?")


class ReplayNote(Struct, frozen=True):
    """One note: its category, the code it comes from, one sentence naming tool and target, and whether it blocked."""

    category: Category
    code: str
    summary: str
    blocking: bool


def build_notes(points: Iterable[DecisionPoint]) -> tuple[ReplayNote, ...]:
    """Return the notes of decisions in order, each once. A shadow gate's decisions were never applied: no note."""
    applied = (point for point in points if point.mode != "shadow")
    return tuple(dict.fromkeys(note for point in applied for note in _build_point_notes(point)))


def build_session_notes(events: Iterable[Event]) -> tuple[ReplayNote, ...]:
    """Return the notes of a session's events: those of its decisions, and one for each task whose budget ran out."""
    notes: dict[ReplayNote, None] = {}
    for event in events:
        if isinstance(event.body, TaskEnded) and event.body.status == "budget_exhausted":
            why = event.body.note.strip().rstrip(".")
            sentence = f"A task ran out of its budget{f': {why}' if why else ''}."
            notes[ReplayNote("validation_failure", "execution_budget_exhausted", sentence, True)] = None
        notes |= dict.fromkeys(build_notes(read_decisions([event])))
    return tuple(notes)


def _build_point_notes(point: DecisionPoint) -> Iterator[ReplayNote]:
    call = f"`{point.tool}`{f' on `{point.target}`' if point.target else ''}" if point.tool else "the response"
    reasons = dict.fromkeys(ruling.reason for ruling in point.rulings if ruling.code == point.code and ruling.reason)
    issues = get_list(point.detail, "issues") if point.code == "critique_rejected" else ()
    reasons |= dict.fromkeys(shown for issue in issues if (shown := _cut_sentence(str(issue))))
    why = f" ({', '.join(reasons)})" if reasons else ""
    revision = get_int(point.detail, "revision", 0)
    version = f" v{revision}" if revision else ""
    told = [_HAPPENED[point.code]] if point.code in _HAPPENED else []
    told += [("retry_reason", _RETRY[point.code])] if point.code in _RETRY else []
    for category, text in told:
        sentence = text.format(call=call, version=version)
        summary = f"{sentence[0].upper()}{sentence[1:]}{why}."
        yield ReplayNote(category, point.code, summary, point.code not in _PASSING)


def _cut_sentence(text: str) -> str:
    """Return an issue as a part of one sentence."""
    return " ".join(text.split()).replace(". ", "; ").rstrip(".")[:_LONGEST_ISSUE]
