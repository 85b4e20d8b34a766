"""The statistics as a fold over the events themselves: what the counts of the index are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import field

from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted, TaskStarted
from foregate.schemas.judgement import Decision, Standing
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import get_list, get_object, get_text
from foregate.telemetry.queries.decisions import has_fired, order_rulings
from foregate.telemetry.queries.session_fold import list_overridden, measure_wait
from foregate.telemetry.queries.statistics import Statistics

_NEEDS: tuple[Kind, ...] = ("need_raised", "need_answered")
KINDS: tuple[Kind, ...] = ("session_started", "policy_changed", "task_started", "turn_judged", *_NEEDS)
"""The kinds of events the statistics are made of."""


class FoldedStatistics(Statistics):
    """A fold over the events of any number of sessions."""

    asked_at: dict[str, str] = field(default_factory=dict)
    """When the open question of the session in hand was asked, by who is asked."""
    said_yes: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """The calls a person said yes to in the session in hand, by the event of the answer: by digest the gate that they
    overrode with it, "" for a yes to what was asked."""

    def add_session(self, session: str, events: Iterable[Event]) -> None:
        """Take in a session's events of KINDS; raise LogError for one that cannot be read."""
        self.sessions += 1
        self.asked_at, self.said_yes = {}, {}
        for event in events:
            try:
                self._add_event(event)
            except (LookupError, ValueError, InvalidJson) as error:
                why = f"({type(error).__name__}: {error}); `foregate audit verify` tells what was changed"
                raise LogError(f"event {event.seq} of session `{session}` cannot be counted {why}") from None

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
                self.asked_at[need.who] = event.time
            case NeedRaised(need=need):
                self.asked_at[need.who] = event.time
                self._get_answers(need.gate)["asked"] += 1
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
        for gate in list_overridden(body, self.said_yes):
            self.gates[gate].overridden += 1
        self.said_yes.clear()

    def _add_decision(self, decision: Decision) -> None:
        if (counts := self.gates.get(decision.gate)) is None:
            return
        lead = next(iter(order_rulings(decision)), None)
        standing = lead.standing if lead is not None else Standing.ALLOW
        counts.add(standing, fired=has_fired(decision), shadow=decision.mode == "shadow")
        for rule in decision.rules:
            self.rules[rule] = self.rules.get(rule, 0) + 1

    def _add_answer(self, event: Event, body: NeedAnswered) -> None:
        answer, asked_at = body.answer, self.asked_at.get(body.answer.who, "")
        if answer.who != "person":
            self.asked_at.pop(answer.who, None)
            cost, usage = self.advice[answer.who], body.usage or Usage()
            cost.calls += body.model_calls
            cost.tokens += usage.input_tokens + usage.output_tokens
            cost.milliseconds += measure_wait(asked_at, event.time) or 0
            return
        if answer.value is None:
            return
        took = measure_wait(asked_at, event.time)
        self.asked_at.pop("person", None)
        if answer.gate != "approval":
            self._get_answers(answer.gate)[answer.choice] += 1
            self.said_yes[event.seq] = {grant.digest: grant.gate for grant in body.grants or ()}
            return
        self.approvals["answered"] += 1
        if took is not None:
            self.waited[(took + 500) // 1000] += 1
        if answer.has_yes:
            self.approvals["yes"] += 1
            self.said_yes[event.seq] = dict.fromkeys(answer.digests, "")

    def _get_answers(self, gate: str) -> Counter[str]:
        return {"approval": self.approvals, "loop": self.questions}.get(gate, Counter())
