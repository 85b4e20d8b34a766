"""Decision points: as rows, one per gate asked about one turn, as notes for whoever reviews them, and as counts."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain
from typing import Literal, get_args

from msgspec import Struct
from msgspec.structs import asdict

from foregate.schemas import strict_json
from foregate.schemas.codes import CODES, GATES, AnyGateCode
from foregate.schemas.errors import InvalidJson, LogError, UsageError
from foregate.schemas.event import Event, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted, TaskEnded, TaskStarted
from foregate.schemas.judgement import CallRuling, Consequence, Decision, Mode, Number, Severity, Standing
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import Json, get_int, get_list, get_object, get_text

Names = Collection[str]
Category = Literal["plan_revision", "evidence_gate", "retry_reason", "validation_failure"]

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
    "text_only_turn_side_effecting_tool_drift": "{call} was tried though only words had been asked for",
    "narration_required": "{call} was tried before anything was said about what would be done",
    "outside_mandate": "Before {call} is tried again, a person must name what only text from outside said",
    "uncertainty_clarification": "{call} was tried before an open question was settled",
}
"""By its code what a decision notes of why a call is to be tried again."""


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


def list_overridden(body: TurnJudged, said_yes: Mapping[int, Mapping[str, str]]) -> Iterator[str]:
    """Yield for each call that runs because a person wanted it to which gate they overrode.

    `said_yes` is by the event of an answer and by digest the gate a person overrode, "" for a yes to what was asked: it
    replaced the ruling of the first gate that asked about the call.
    """
    wanted = {digest: gate for seq in body.turn.answers for digest, gate in said_yes.get(seq, {}).items()}
    for verdict in body.judgement.verdicts if wanted else ():
        if verdict.standing is Standing.ALLOW and verdict.digest in wanted:
            rows = (row for row in body.judgement.decisions if row.mode != "shadow")
            rulings = ((row.gate, one) for row in rows for one in row.rulings)
            asked = (gate for gate, one in rulings if one.call == verdict.call and one.standing is Standing.ASK)
            yield wanted[verdict.digest] or next(asked, "approval")


def order_rulings(decision: Decision) -> list[CallRuling]:
    """Return the rulings of a decision, the one that gave it its code first."""
    return sorted(decision.rulings, key=lambda ruling: ruling.code != decision.code)


def measure_wait(asked_at: str, answered_at: str) -> int | None:
    """Return the milliseconds between two recorded times, None where nobody knows when it was asked.

    Raises ValueError for what is no time.
    """
    if not asked_at:
        return None
    took = datetime.fromisoformat(answered_at) - datetime.fromisoformat(asked_at)
    return max(0, round(took.total_seconds() * 1000))


def filter_decisions(
    points: Iterable[DecisionPoint], *, gate: Names = (), code: Names = (), severity: Names = ()
) -> Iterator[DecisionPoint]:
    """Return the rows that have one of the given gates, codes and severities; an empty filter lets all through.

    Raises UsageError at once for a name nobody gives, with the nearest one.
    """
    check_names(gate=gate, code=code, severity=severity)
    wanted = {what: names for what, names in (("gate", gate), ("code", code), ("severity", severity)) if names}
    return (point for point in points if all(getattr(point, what) in names for what, names in wanted.items()))


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
    return " ".join(text.split()).replace(". ", "; ").rstrip(".")[:_ISSUE]


_ISSUE = 200
_NEEDS: tuple[Kind, ...] = ("need_raised", "need_answered")
KINDS: tuple[Kind, ...] = ("session_started", "policy_changed", "task_started", "turn_judged", *_NEEDS)
"""The kinds of events the statistics are made of."""


class GateCounts(Struct):
    """How often a gate was asked about a turn, fired, and was overridden by a person; apart what it did in shadow.

    Of what it fired it `asked_person`, `held` or `denied`; the rest has another consequence.
    """

    asked: int = 0
    fired: int = 0
    asked_person: int = 0
    held: int = 0
    denied: int = 0
    overridden: int = 0
    shadow_asked: int = 0
    shadow_fired: int = 0

    def add(self, standing: Standing, *, fired: int, asked: int = 1, shadow: bool = False) -> None:
        """Count decisions, `asked` of them, that said `standing`; `fired` of these fired."""
        if shadow:
            self.shadow_asked += asked
            self.shadow_fired += fired
            return
        self.asked += asked
        self.fired += fired
        if (field := _FIRED.get(standing)) is not None:
            setattr(self, field, getattr(self, field) + fired)


_FIRED = {Standing.ASK: "asked_person", Standing.HOLD: "held", Standing.DENY: "denied"}


class AdviceCost(Struct):
    """What asking the planner or the critic cost: requests to the model, tokens in and out, and the time it took."""

    calls: int = 0
    tokens: int = 0
    milliseconds: int = 0

    @property
    def seconds(self) -> float:
        """The time in seconds, to a tenth."""
        return round(self.milliseconds / 1000, 1)

    def to_json(self) -> Json:
        """Return it as JSON values."""
        return {"model_calls": self.calls, "tokens": self.tokens, "seconds": self.seconds}


class Statistics:
    """A fold over the events of any number of sessions; memory does not grow with their length."""

    def __init__(self) -> None:
        self.sessions = self.tasks = self.turns = self.calls = self.held = 0
        self.gates: dict[str, GateCounts] = {gate: GateCounts() for gate in (*GATES, "postlude")}
        self.advice = {"planner": AdviceCost(), "critic": AdviceCost()}
        self.approvals, self.questions = Counter[str](), Counter[str]()
        self._answers = {"approval": self.approvals, "loop": self.questions}
        self.waited: Counter[int] = Counter()
        self.rules: dict[str, int] = {}
        self._asked_at: dict[str, str] = {}
        """When the open question of the session in hand was asked, by who is asked."""
        self._said_yes: dict[int, Mapping[str, str]] = {}
        """The calls a person said yes to in the session in hand, by the event of the answer: by digest the gate that
        they overrode with it, "" for a yes to what was asked."""

    def add_session(self, session: str, events: Iterable[Event]) -> None:
        """Take in a session's events of KINDS; raise LogError for one that cannot be read."""
        self.sessions += 1
        self._asked_at, self._said_yes = {}, {}
        for event in events:
            try:
                self._add_event(event)
            except (LookupError, ValueError, InvalidJson) as error:
                why = f"({type(error).__name__}: {error}); `foregate audit verify` tells what was changed"
                raise LogError(f"event {event.seq} of session `{session}` cannot be counted {why}") from None

    def to_json(self) -> Json:
        """Return everything as JSON values."""
        yes, answered = self.approvals["yes"], self.approvals["answered"]
        return {
            **{name: getattr(self, name) for name in ("sessions", "tasks", "turns", "calls", "held")},
            "held_per_task": round(self.held / self.tasks, 3) if self.tasks else None,
            "gates": {gate: asdict(counts) for gate, counts in self.gates.items()},
            "advice": {who: cost.to_json() for who, cost in self.advice.items()},
            "approvals": {
                "asked": self.approvals["asked"],
                "answered": answered,
                "accepted": yes,
                "share_accepted": round(yes / answered, 3) if answered else None,
                "median_seconds": self.median_wait,
            },
            "repeated_holds": {name: self.questions[name] for name in ("asked", "anyway", "stop", "more")},
            "rules": dict(self.rules),
            "rules_never_fired": [name for name, count in self.rules.items() if not count],
        }

    @property
    def median_wait(self) -> int | None:
        """The median of the seconds a person took to say yes or no, None when nobody did."""
        from statistics import median  # few commands count, and loading it takes as long as all of this file

        return round(median(self.waited.elements())) if self.waited else None

    def _add_event(self, event: Event) -> None:
        match event.body:
            case SessionStarted(policy=policy) | PolicyChanged(policy=policy) if policy is not None:
                for rule in get_list(get_object(policy, "rules"), "list"):
                    self.rules.setdefault(get_text(rule, "id"), 0)
            case TaskStarted():
                self.tasks += 1
            case TurnJudged(early=False) as body:  # an early one is judged again with its response
                self._add_judgement(body)
            case NeedRaised(need=need) if need.who != "person":
                self._asked_at[need.who] = event.time
            case NeedRaised(need=need):
                self._asked_at[need.who] = event.time
                self._answers.get(need.gate, Counter())["asked"] += 1
            case NeedAnswered() as body:
                self._add_answer(event, body)
            case _:
                pass

    def _add_judgement(self, body: TurnJudged) -> None:
        verdicts, decisions = body.judgement.verdicts, body.judgement.rows
        self.turns += 1
        self.calls += len(verdicts)
        self.held += sum(verdict.standing is not Standing.ALLOW for verdict in verdicts)
        for decision in decisions:
            self._add_decision(decision)
        for gate in list_overridden(body, self._said_yes):
            self.gates[gate].overridden += 1
        self._said_yes.clear()

    def _add_decision(self, decision: Decision) -> None:
        if (counts := self.gates.get(decision.gate)) is None:
            return
        lead = next(iter(order_rulings(decision)), None)
        standing = lead.standing if lead is not None else Standing.ALLOW
        counts.add(standing, fired=has_fired(decision), shadow=decision.mode == "shadow")
        for rule in decision.rules:
            self.rules[rule] = self.rules.get(rule, 0) + 1

    def _add_answer(self, event: Event, body: NeedAnswered) -> None:
        answer, asked_at = body.answer, self._asked_at.get(body.answer.who, "")
        if answer.who != "person":
            self._asked_at.pop(answer.who, None)
            cost, usage = self.advice[answer.who], body.usage or Usage()
            cost.calls += body.model_calls
            cost.tokens += usage.input_tokens + usage.output_tokens
            cost.milliseconds += measure_wait(asked_at, event.time) or 0
            return
        if answer.value is None:
            return
        took = measure_wait(asked_at, event.time)
        self._asked_at.pop("person", None)
        if answer.gate != "approval":
            self._answers.get(answer.gate, Counter())[answer.choice] += 1
            self._said_yes[event.seq] = {grant.digest: grant.gate for grant in body.grants or ()}
            return
        self.approvals["answered"] += 1
        if took is not None:
            self.waited[(took + 500) // 1000] += 1
        if answer.has_yes:
            self.approvals["yes"] += 1
            self._said_yes[event.seq] = dict.fromkeys(answer.digests, "")
