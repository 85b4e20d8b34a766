"""What the gates did over whole sessions: how often each was asked, fired and overridden, and what that cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median

from foregate.schemas.codes import GATES
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted, TaskStarted
from foregate.schemas.judgement import Decision, Standing
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import Json, get_list, get_object, get_text

KINDS: tuple[Kind, ...] = (
    "session_started",
    "policy_changed",
    "task_started",
    "turn_judged",
    "need_raised",
    "need_answered",
)
"""The kinds of events the statistics are made of."""
_ORDER = (*GATES, "postlude")


@dataclass(slots=True)
class GateCounts:
    """How often a gate was asked about a turn, fired, and was overridden by a person; apart what it did in shadow."""

    asked: int = 0
    fired: int = 0
    overridden: int = 0
    shadow_asked: int = 0
    shadow_fired: int = 0


@dataclass(slots=True)
class AdviceCost:
    """What asking the planner or the critic cost: requests to the model, and tokens in and out."""

    calls: int = 0
    tokens: int = 0


@dataclass(slots=True)
class _SessionProgress:
    """What is known of the session in hand: its open question, and the answers of a person by event."""

    asked_at: str = ""
    said_yes: dict[int, frozenset[str]] = field(default_factory=dict)


class Statistics:
    """A fold over the events of any number of sessions; memory does not grow with their length."""

    def __init__(self) -> None:
        self.sessions = self.tasks = self.turns = self.calls = self.held = 0
        self.gates: dict[str, GateCounts] = {gate: GateCounts() for gate in _ORDER}
        self.advice = {"planner": AdviceCost(), "critic": AdviceCost()}
        self.approvals: Counter[str] = Counter()
        self.questions: Counter[str] = Counter()
        self.waited: Counter[int] = Counter()
        self.rules: dict[str, int] = {}

    def add_session(self, session: str, events: Iterable[Event]) -> None:
        """Take in a session's events of KINDS; raise LogError for one that cannot be read."""
        self.sessions += 1
        known = _SessionProgress()
        for event in events:
            try:
                self._add_event(event, known)
            except (LookupError, ValueError, InvalidJson) as error:
                raise LogError(
                    f"event {event.seq} of session `{session}` cannot be counted ({type(error).__name__}: {error}); "
                    "`foregate audit verify` tells what was changed"
                ) from None

    def to_json(self) -> Json:
        """Return everything as JSON values."""
        share = self.approvals["yes"] / answered if (answered := self.approvals["answered"]) else None
        return {
            "sessions": self.sessions,
            "tasks": self.tasks,
            "turns": self.turns,
            "calls": self.calls,
            "held": self.held,
            "held_per_task": round(self.held / self.tasks, 3) if self.tasks else None,
            "gates": {
                gate: {name: getattr(counts, name) for name in GateCounts.__slots__}
                for gate, counts in self.gates.items()
            },
            "advice": {who: {"model_calls": cost.calls, "tokens": cost.tokens} for who, cost in self.advice.items()},
            "approvals": {
                "asked": self.approvals["asked"],
                "answered": self.approvals["answered"],
                "accepted": self.approvals["yes"],
                "share_accepted": None if share is None else round(share, 3),
                "median_seconds": self.median_wait,
            },
            "repeated_holds": {name: self.questions[name] for name in ("asked", "anyway", "stop", "more")},
            "rules": dict(self.rules),
            "rules_never_fired": [name for name, count in self.rules.items() if not count],
        }

    @property
    def median_wait(self) -> int | None:
        """The median of the seconds a person took to answer, None when nobody did."""
        return round(median(self.waited.elements())) if self.waited else None

    def _add_event(self, event: Event, known: _SessionProgress) -> None:
        match event.body:
            case SessionStarted(policy=policy) | PolicyChanged(policy=policy) if policy is not None:
                for rule in get_list(get_object(policy, "rules"), "list"):
                    self.rules.setdefault(get_text(rule, "id"), 0)
            case TaskStarted():
                self.tasks += 1
            case TurnJudged(early=False) as body:  # an early one is judged again with its response
                self._add_judgement(body, known)
            case NeedRaised(need=need) if need.who == "person":
                known.asked_at = event.time
                (self.approvals if need.gate == "approval" else self.questions)["asked"] += 1
            case NeedAnswered() as body:
                self._add_answer(event, body, known)
            case _:
                pass

    def _add_judgement(self, body: TurnJudged, known: _SessionProgress) -> None:
        judgement = body.judgement
        self.turns += 1
        self.calls += len(judgement.verdicts)
        self.held += sum(verdict.standing is not Standing.ALLOW for verdict in judgement.verdicts)
        for decision in judgement.decisions:
            self._add_decision(decision)
        said_yes = frozenset[str]().union(*(known.said_yes.pop(seq, ()) for seq in body.turn.answers))
        for verdict in judgement.verdicts:
            if verdict.standing is Standing.ALLOW and verdict.digest in said_yes:
                self.gates[_find_asking_gate(verdict.call, judgement.decisions)].overridden += 1
        known.said_yes.clear()

    def _add_decision(self, decision: Decision) -> None:
        counts = self.gates.get(decision.gate)
        if counts is None:
            return
        passed = all(ruling.standing is Standing.ALLOW for ruling in decision.rulings)
        fired = not passed or decision.consequence is not None or decision.code == "verification_pending"
        if decision.mode == "shadow":
            counts.shadow_asked += 1
            counts.shadow_fired += fired
        else:
            counts.asked += 1
            counts.fired += fired
        for rule in decision.rules:
            self.rules[rule] = self.rules.get(rule, 0) + 1

    def _add_answer(self, event: Event, body: NeedAnswered, known: _SessionProgress) -> None:
        answer = body.answer
        if answer.who != "person":
            cost, usage = self.advice[answer.who], body.usage or Usage()
            cost.calls += body.model_calls
            cost.tokens += usage.input_tokens + usage.output_tokens
            return
        if answer.value is None:
            return
        if known.asked_at:
            self.waited[max(0, round((_parse_time(event.time) - _parse_time(known.asked_at)).total_seconds()))] += 1
            known.asked_at = ""
        if answer.gate != "approval":
            self.questions[answer.choice] += 1
            for grant in body.grants or ():
                self.gates[grant.gate].overridden += 1
            return
        self.approvals["answered"] += 1
        if answer.choice in ("yes", "grant"):
            self.approvals["yes"] += 1
            known.said_yes[event.seq] = frozenset(answer.digests)


def _find_asking_gate(call: str, decisions: Iterable[Decision]) -> str:
    """Return the gate whose ruling a person's yes replaced: the first that asked about the call, else `approval`."""
    for decision in decisions:
        for ruling in decision.rulings:
            if ruling.call == call and ruling.standing is Standing.ASK and decision.mode != "shadow":
                return decision.gate
    return "approval"


def _parse_time(time: str) -> datetime:
    return datetime.fromisoformat(time.replace("Z", "+00:00"))
