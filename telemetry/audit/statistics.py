"""What the gates did over whole sessions: how often each was asked, fired and overridden, and what that cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime

from foregate.schemas.codes import GATES
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted, TaskStarted
from foregate.schemas.judgement import Decision, Standing
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import Json, get_list, get_object, get_text

_NEEDS: tuple[Kind, ...] = ("need_raised", "need_answered")
KINDS: tuple[Kind, ...] = ("session_started", "policy_changed", "task_started", "turn_judged", *_NEEDS)
"""The kinds of events the statistics are made of."""


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


class Statistics:
    """A fold over the events of any number of sessions; memory does not grow with their length."""

    def __init__(self) -> None:
        self.sessions = self.tasks = self.turns = self.calls = self.held = 0
        self.gates: dict[str, GateCounts] = {gate: GateCounts() for gate in (*GATES, "postlude")}
        self.advice = {"planner": AdviceCost(), "critic": AdviceCost()}
        self.approvals, self.questions = Counter[str](), Counter[str]()
        self.waited: Counter[int] = Counter()
        self.rules: dict[str, int] = {}
        self._asked_at = ""
        """When the open question of the session in hand was asked, "" where none is."""
        self._said_yes: dict[int, frozenset[str]] = {}
        """The calls a person said yes to in the session in hand, by the event of the answer."""

    def add_session(self, session: str, events: Iterable[Event]) -> None:
        """Take in a session's events of KINDS; raise LogError for one that cannot be read."""
        self.sessions += 1
        self._asked_at, self._said_yes = "", {}
        for event in events:
            try:
                self._add_event(event)
            except (LookupError, ValueError, InvalidJson) as error:
                raise LogError(
                    f"event {event.seq} of session `{session}` cannot be counted ({type(error).__name__}: {error}); "
                    "`foregate audit verify` tells what was changed"
                ) from None

    def to_json(self) -> Json:
        """Return everything as JSON values."""
        yes, answered = self.approvals["yes"], self.approvals["answered"]
        return {
            **{name: getattr(self, name) for name in ("sessions", "tasks", "turns", "calls", "held")},
            "held_per_task": round(self.held / self.tasks, 3) if self.tasks else None,
            "gates": {gate: asdict(counts) for gate, counts in self.gates.items()},
            "advice": {who: {"model_calls": cost.calls, "tokens": cost.tokens} for who, cost in self.advice.items()},
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
        """The median of the seconds a person took to answer, None when nobody did."""
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
            case NeedRaised(need=need) if need.who == "person":
                self._asked_at = event.time
                (self.approvals if need.gate == "approval" else self.questions)["asked"] += 1
            case NeedAnswered() as body:
                self._add_answer(event, body)
            case _:
                pass

    def _add_judgement(self, body: TurnJudged) -> None:
        verdicts, decisions = body.judgement.verdicts, body.judgement.decisions
        self.turns += 1
        self.calls += len(verdicts)
        self.held += sum(verdict.standing is not Standing.ALLOW for verdict in verdicts)
        for decision in decisions:
            self._add_decision(decision)
        said_yes = frozenset[str]().union(*(self._said_yes.pop(seq, ()) for seq in body.turn.answers))
        for verdict in verdicts:
            if verdict.standing is Standing.ALLOW and verdict.digest in said_yes:
                # A person's yes replaced the ruling of the first gate that asked about the call.
                rulings = ((one.gate, ruling) for one in decisions if one.mode != "shadow" for ruling in one.rulings)
                asked = (gate for gate, one in rulings if one.call == verdict.call and one.standing is Standing.ASK)
                self.gates[next(asked, "approval")].overridden += 1
        self._said_yes.clear()

    def _add_decision(self, decision: Decision) -> None:
        if (counts := self.gates.get(decision.gate)) is None:
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

    def _add_answer(self, event: Event, body: NeedAnswered) -> None:
        answer = body.answer
        if answer.who != "person":
            cost, usage = self.advice[answer.who], body.usage or Usage()
            cost.calls += body.model_calls
            cost.tokens += usage.input_tokens + usage.output_tokens
            return
        if answer.value is None:
            return
        if self._asked_at:
            took = datetime.fromisoformat(event.time) - datetime.fromisoformat(self._asked_at)
            self.waited[max(0, round(took.total_seconds()))] += 1
            self._asked_at = ""
        if answer.gate != "approval":
            self.questions[answer.choice] += 1
            for grant in body.grants or ():
                self.gates[grant.gate].overridden += 1
            return
        self.approvals["answered"] += 1
        if answer.choice in ("yes", "grant"):
            self.approvals["yes"] += 1
            self._said_yes[event.seq] = frozenset(answer.digests)
