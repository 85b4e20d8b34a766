"""Follows the events of one session, and writes what the index keeps of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import field

from foregate.evidence.state.recorded_turns import LAYING, EventWindow, InForce
from foregate.schemas import event_body
from foregate.schemas.event import Event, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import Kind, PolicyChanged, SessionStarted
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Standing
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import get_list, get_object, get_text, scrub
from foregate.telemetry.queries.index_rows import RowWriter, find_cause, list_decision_values
from foregate.telemetry.queries.rows import SessionFacts
from foregate.telemetry.queries.texts import list_texts

if TYPE_CHECKING:
    from foregate.telemetry.queries.call_facts import CallFactsReader

ASIDE: tuple[Kind, ...] = ("session_started", "policy_changed", "context_compressed")
"""Kinds of the events that a timeline may show beside decisions."""
_LAYS = {"session_started": ("policy", "tools"), "policy_changed": ("policy",), "catalog_changed": ("tools",)}
_SHOWN = 10_000
"""Characters that are kept of what was asked first."""
_YES = 4096
"""Digests that a person said yes to since the last judgement, at most."""


class SessionFold(SessionFacts):
    """A session as it stands after the events read so far; kept in its row, so that reading goes on from there.

    `laying` are the events that say which policy and tools hold, `ask` the row of the open question to a person,
    `asking` by the rows of the last such questions the calls that may still run, and
    `asked_at` when it was asked, `advice_at` when an advisor was, `yes` by the event of an answer what was said yes to.
    `words` is the row of a question that a message answers.
    """

    laying: dict[str, int] = field(default_factory=dict)
    asking: dict[int, list[str]] = field(default_factory=dict)
    ask: int = 0
    words: int = 0
    asked_at: str = ""
    advice_at: str = ""
    yes: dict[int, dict[str, str]] = field(default_factory=dict)


class SessionReader:
    """Reads the events of session number `session` on from where `fold` stands."""

    def __init__(
        self, writer: RowWriter, session: int, fold: SessionFold, facts: CallFactsReader, window: EventWindow
    ) -> None:
        self.fold = fold
        self._writer, self._session, self._facts, self._window = writer, session, facts, window
        self._in_force: InForce | None = None if fold.laying else InForce()

    def read_event(self, event: Event) -> None:
        """Take in an event; what cannot be read of it raises one of UNREADABLE."""
        self._follow_time(event)
        for what, text in list_texts(event):
            self._writer.add_text(text, what=what, **self._place(event))
        if event.kind in ASIDE:
            self._writer.insert_missing("asides", self._session, event.seq)
        match event.body:
            case SessionStarted() as body:
                self._begin_session(event.time, body)
            case event_body.UserMessage(text=text):
                self._add_message(event.seq, text)
            case event_body.TaskStarted():
                self.fold.tasks += 1
                self.fold.state, self.fold.ended = "open", ""
                self._writer.insert_missing("tasks", self._session, event.seq, self.fold.last_at)
            case event_body.TaskPaused(reason=reason):
                self.fold.state, self.fold.ended = reason, ""
                if self.fold.words:
                    self._writer.update("asks", self.fold.words, raised=reason == "needs_input")
            case event_body.TaskEnded(status=status):
                self.fold.state, self.fold.ended = status, event.time
            case event_body.SessionEnded():
                self.fold.ended = event.time
                self.fold.state = "ended" if self.fold.state == "open" else self.fold.state
            case NeedRaised() as body:
                self._add_question(event, body)
            case NeedAnswered() as body:
                self._add_answer(event, body)
            case TurnJudged() as body:
                self._add_turn(event, body)
            case event_body.CallAnswered() as body:
                self._stop_call(body)
            case _:
                pass
        if event.kind in LAYING:
            self._follow_laying(event)

    def _begin_session(self, time: str, body: SessionStarted) -> None:
        self.fold.started, self.fold.workspace, self.fold.model = time, body.workspace, body.model
        self.fold.by = _name_identity(body.by) or body.agent
        self.fold.follows = body.follows.session if body.follows is not None else ""

    def _add_message(self, seq: int, text: str) -> None:
        self.fold.asked = self.fold.asked or scrub(text[:_SHOWN])
        if self.fold.words:
            self._writer.update("asks", self.fold.words, answered=seq)
        self.fold.words = 0

    def _place(self, event: Event) -> dict[str, Any]:
        return {"session": self._session, "seq": event.seq, "at": self.fold.last_at, "time": event.time}

    def _follow_time(self, event: Event) -> None:
        """Note the time of an event; one that says none has that of the event before it."""
        try:
            self.fold.last_at = round(datetime.fromisoformat(event.time).timestamp() * 1000)
            self.fold.last = event.time
        except (ValueError, OverflowError):
            pass
        self.fold.first_at = self.fold.first_at or self.fold.last_at

    def _follow_laying(self, event: Event) -> None:
        if isinstance(event.body, PolicyChanged) and event.body.policy is None:
            return
        self.fold.laying |= dict.fromkeys(_LAYS[event.kind], event.seq)
        if self._in_force is not None:
            self._in_force = self._in_force.apply(event)
        if isinstance(event.body, (SessionStarted, PolicyChanged)) and event.body.policy is not None:
            policy = self._writer.intern(event.policy)
            self._writer.insert_missing("session_policies", self._session, policy)
            for place, rule in enumerate(get_list(get_object(event.body.policy, "rules"), "list")):
                self._writer.insert_missing("policy_rules", policy, place, self._writer.intern(get_text(rule, "id")))

    def _read_in_force(self) -> InForce:
        """Return what holds now; where reading goes on in the middle of a session, from the events that say so."""
        if self._in_force is None:
            self._in_force = InForce.of(map(self._window, sorted(set(self.fold.laying.values()))))
        return self._in_force

    def _add_turn(self, event: Event, body: TurnJudged) -> None:
        judgement = body.judgement
        standings = [verdict.standing for verdict in judgement.verdicts]
        allowed, denied = standings.count(Standing.ALLOW), standings.count(Standing.DENY)
        stopped = len(standings) - allowed
        turn = self._writer.insert(
            "turns", **self._place(event), task=body.turn.task, early=body.early, calls=len(standings), stopped=stopped
        )
        calls = self._facts.read(body.turn, self._read_in_force(), self._window) if standings else {}
        approvers = {gate: self._writer.intern(by) for gate, by in self._find_approvers(body).items()}
        for values, rules, words in list_decision_values(event, body, calls, self._writer.intern):
            values |= {"turn": turn, "session": self._session, "at": self.fold.last_at}
            values["approver"] = approvers.get(str(values.pop("gate_name")), 0)
            decision = self._writer.insert("decisions", **values)
            for place, rule in enumerate(rules):
                self._writer.insert_missing("decision_rules", decision, place, self._writer.intern(rule))
            self._writer.add_text(words, what="decision", decision=decision, **self._place(event))
        if body.early:
            # It is judged again with its response, and counted then.
            return
        self.fold.allowed += allowed
        self.fold.denied += denied
        self.fold.held += stopped - denied
        voided = (one.seq for one in body.turn.voided)
        self._writer.link_answers(self._session, turn, (*body.turn.answers, *voided))
        self.fold.words = 0
        if judgement.consequence is not None and judgement.consequence.kind == "ask_user":
            self.fold.words = self._insert_ask(event, "words", judgement.consequence_gate, turn=turn)
        for gate in list_overridden(body, self.fold.yes):
            self._writer.insert("overrides", session=self._session, at=self.fold.last_at, gate=scrub(gate), turn=turn)
        self.fold.yes.clear()
        runs = {verdict.call for verdict in judgement.verdicts if verdict.standing is Standing.ALLOW}
        asking = {row: [call for call in asked if call in runs] for row, asked in self.fold.asking.items()}
        self.fold.asking = {row: asked for row, asked in asking.items() if asked}

    def _find_approvers(self, body: TurnJudged) -> dict[str, str]:
        """Return by its gate who answered, of the answers this turn was judged with."""
        found: dict[str, str] = {}
        for seq in body.turn.answers:
            try:
                answered = self._window(seq).body
            except LookupError:
                continue
            if isinstance(answered, NeedAnswered) and answered.answer.who == "person":
                found[answered.answer.gate] = _name_answerer(answered)
        return found

    def _add_question(self, event: Event, body: NeedRaised) -> None:
        if body.need.who != "person":
            self.fold.advice_at = event.time
            return
        self.fold.asked_at = event.time
        self.fold.asked_about += len(body.need.calls)
        by, key = map(scrub, find_cause(body.need))
        self.fold.ask = self._insert_ask(event, "person", body.need.gate, raised=True, by=by, key=key)
        self.fold.asking[self.fold.ask] = list(body.need.calls[:_YES])

    def _stop_call(self, body: event_body.CallAnswered) -> None:
        for row in (row for row, asked in self.fold.asking.items() if body.call in asked):
            self._writer.update("asks", row, not_run=body.gate or body.code)

    def _insert_ask(self, event: Event, who: str, gate: str, **known: str | int | None) -> int:
        about = {"session": self._session, "seq": event.seq, "at": self.fold.last_at, "who": who, "gate": scrub(gate)}
        return self._writer.insert("asks", **{**about, "by": scrub(gate), **known})

    def _add_answer(self, event: Event, body: NeedAnswered) -> None:
        answer = body.answer
        if answer.who != "person":
            usage = body.usage or Usage()
            told = {"tokens": usage.input_tokens + usage.output_tokens, "model_calls": body.model_calls}
            took, self.fold.advice_at = measure_wait(self.fold.advice_at, event.time), ""
            self._insert_ask(event, answer.who, answer.gate, answered=event.seq, took=took, **told)
            return
        if answer.value is None:
            return
        row = self.fold.ask or self._insert_ask(event, "person", answer.gate)
        took = measure_wait(self.fold.asked_at, event.time)
        approver = self._writer.intern(_name_answerer(body))
        values = {"choice": scrub(answer.choice), "yes": answer.has_yes, "took": took, "approver": approver}
        self._writer.update("asks", row, answered=event.seq, **values)
        self.fold.ask, self.fold.asked_at = 0, ""
        if answer.gate != "approval":
            self.fold.yes[event.seq] = {grant.digest: grant.gate for grant in body.grants or ()}
        elif answer.has_yes:
            self.fold.yes[event.seq] = dict.fromkeys(answer.digests[:_YES], "")


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


def measure_wait(asked_at: str, answered_at: str) -> int | None:
    """Return the milliseconds between two recorded times, None where the first is unknown; raise ValueError for what is
    no time."""
    if not asked_at:
        return None
    took = datetime.fromisoformat(answered_at) - datetime.fromisoformat(asked_at)
    return max(0, round(took.total_seconds() * 1000))


def _name_answerer(body: NeedAnswered) -> str:
    """Return who gave an answer: `person` where its log says no more."""
    said = (body.answer.value or {}).get("by")
    return _name_identity(body.by) or (said if isinstance(said, str) else "")


def _name_identity(by: Identity | None) -> str:
    if by is None:
        return ""
    return f"{by.user}@{by.host}" if by.user and by.host else by.user
