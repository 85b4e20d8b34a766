"""Events without words, for an export that may hold none."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import assert_never

from msgspec.structs import replace

from foregate.schemas.event import Body, Event, ModelResponded, NeedAnswered, NeedRaised, RecordedDataflow, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    CatalogChanged,
    Checkpoint,
    ContextCompressed,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    PolicyChanged,
    Report,
    SessionEnded,
    SessionStarted,
    TaskEnded,
    TaskPaused,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.judgement import Answer, CallRuling, Consequence, Decision, Judgement, Need, Ruling, Verdict
from foregate.schemas.task_plan import FillRequest, PlanConfirmed, PlanProposed, PlanStepChanged, TaskPlan
from foregate.schemas.tool_call import Permit, RecordedCall
from foregate.schemas.tool_spec import ToolSpec
from foregate.schemas.turn import TurnRecord

OTHER = "_OTHER"
"""Stands for a name that is in no closed list: it could be anybody's words."""
_CHOICES = ("yes", "no", "grant", "anyway", "stop", "more", "step", "edit")
_ERRORS = (
    *("timeout", "cancelled", "tool_error", "arguments", "exit_code", "http_status", "unreachable", "broken"),
    "runtime_lost",
)
_FINISH = ("stop", "tool_calls", "length", "content_filter", "other")


class TextRemover:
    """Leaves out of events all that a person, a model or a tool worded; each field that stays is named here.

    What stays are numbers, times, ids, and names of closed lists: codes, gates, kinds, the tools of the catalogue. A
    field that has to be there and is not exported is empty.
    """

    def __init__(self) -> None:
        self._tools: Collection[str] = ()

    def __call__(self, event: Event) -> Event:
        """Return the event without any words; those of a session come in order."""
        return replace(event, body=self._strip_body(event.body))

    def _strip_body(self, body: Body) -> Body:
        match body:
            case SessionStarted():
                return self._strip_session_started(body)
            case CatalogChanged():
                return CatalogChanged(catalogue=self._strip_catalogue(body.catalogue), catalogue_hash="")
            case PolicyChanged():
                return PolicyChanged(auto=body.auto, dry_run=body.dry_run, mode=body.mode, dialect=body.dialect)
            case TaskStarted():
                return TaskStarted(task=body.task, depth=body.depth)
            case UserMessage():
                return UserMessage(text="")
            case ModelResponded():
                return self._strip_model_responded(body)
            case TurnJudged():
                return self._strip_turn_judged(body)
            case NeedRaised():
                return NeedRaised(need=_strip_need(body.need), request="", survey_hash="")
            case NeedAnswered():
                return NeedAnswered(answer=_strip_answer(body.answer), usage=body.usage)
            case (
                ToolStarted() | ToolFinished() | CallAnswered() | OutcomeUnknown() | OutcomeResolved() | EffectUndone()
            ):
                return self._strip_call_event(body)
            case ContextCompressed():
                return _strip_compression(body)
            case PlanProposed():
                return PlanProposed(proposal=TaskPlan(id="", query="", goal="", tasks=()), digest="")
            case PlanConfirmed():
                return PlanConfirmed(digest="", approved=body.approved, dry_run=body.dry_run)
            case PlanStepChanged():
                ask = FillRequest(notice="", about={}, request="") if body.ask is not None else None
                return PlanStepChanged(plan="", step=body.step, status=body.status, choice=body.choice, ask=ask)
            case TaskPaused():
                return TaskPaused(reason=body.reason, question=None if body.question is None else "")
            case TaskEnded():
                return _strip_task_ended(body)
            case SessionEnded():
                return SessionEnded(events=body.events)
            case Checkpoint():
                return Checkpoint(undo="", steps=())
            case _:
                assert_never(body)

    def _strip_tool(self, name: str) -> str:
        return _keep_known(name, self._tools)

    def _strip_catalogue(self, specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
        self._tools = frozenset(spec.name for spec in specs)
        return tuple(ToolSpec(name=name, description="", parameters={}) for name in sorted(self._tools))

    def _strip_session_started(self, body: SessionStarted) -> SessionStarted:
        return SessionStarted(
            workspace="",
            model=body.model,
            system="",
            prompts_hash="",
            catalogue=self._strip_catalogue(body.catalogue),
            catalogue_hash="",
            policy={},
            layers={},
            depth=body.depth,
            parent=body.parent,
        )

    def _strip_model_responded(self, body: ModelResponded) -> ModelResponded:
        program = body.program
        return ModelResponded(
            text="",
            reasoning="",
            calls=self._strip_calls(body.calls),
            usage=body.usage,
            finish_reason=_keep_known(body.finish_reason, _FINISH),
            model=body.model,
            notes=(),
            program=RecordedDataflow(calls=self._strip_calls(program.calls), deferred=(), places=())
            if program
            else None,
            continues=body.continues,
            places=body.places,
        )

    def _strip_calls(self, calls: Iterable[RecordedCall]) -> tuple[RecordedCall, ...]:
        return tuple(RecordedCall(id=call.id, name=self._strip_tool(call.name), arguments="{}") for call in calls)

    def _strip_turn_judged(self, body: TurnJudged) -> TurnJudged:
        turn, judgement = body.turn, body.judgement
        bare = TurnRecord(
            response=turn.response,
            task=turn.task,
            turn=turn.turn,
            now="",
            policy_hash="",
            catalogue_hash="",
            prompts_hash="",
            surveys=(),
            actor=turn.actor,
            cause=turn.cause,
            user_messages=(),
            proposed=self._strip_calls(turn.proposed) if turn.proposed is not None else None,
        )
        decisions = tuple(self._strip_decision(decision) for decision in judgement.decisions)
        ruled = Judgement(tuple(_strip_verdict(verdict) for verdict in judgement.verdicts), decisions)
        return TurnJudged(turn=bare, judgement=ruled, survey_hash="", fingerprints={})

    def _strip_decision(self, decision: Decision) -> Decision:
        follows = decision.consequence
        return Decision(
            gate=decision.gate,
            code=decision.code,
            mode=decision.mode,
            tool=self._strip_tool(decision.tool) if decision.tool else "",
            rulings=tuple(CallRuling(one.call, one.standing, one.code) for one in decision.rulings),
            numbers=decision.numbers,
            rules=decision.rules,
            consequence=Consequence(follows.kind, lasts=follows.lasts) if follows is not None else None,
        )

    def _strip_call_event(
        self, body: ToolStarted | ToolFinished | CallAnswered | OutcomeUnknown | OutcomeResolved | EffectUndone
    ) -> Body:
        call, tool = body.call, self._strip_tool(body.tool)
        match body:
            case ToolStarted(side_effect=side_effect, effect=effect):
                permit = Permit("", "", 0, "")
                return ToolStarted(
                    call=call, tool=tool, target="", permit=permit, side_effect=side_effect, effect=effect, before=()
                )
            case ToolFinished():
                return self._strip_tool_finished(body)
            case CallAnswered(ruling=ruling, code=code, change=change):
                return CallAnswered(
                    call=call, tool=tool, target="", ruling=ruling, code=code, message="", change=change
                )
            case OutcomeUnknown():
                return OutcomeUnknown(call=call, tool=tool, target="", reason="")
            case OutcomeResolved(outcome=outcome):
                return OutcomeResolved(call=call, tool=tool, target="", outcome=outcome)
            case EffectUndone():
                return EffectUndone(call=call, tool=tool, resources=(), changes=(), evidence=(), steps=())
            case _:
                assert_never(body)

    def _strip_tool_finished(self, body: ToolFinished) -> ToolFinished:
        return ToolFinished(
            call=body.call,
            tool=self._strip_tool(body.tool),
            target="",
            ok=body.ok,
            content="",
            duration=body.duration,
            origin=body.origin,
            evidence=(),
            changes=(),
            error=_keep_known(body.error, _ERRORS) if body.error else "",
            dropped=body.dropped,
            exit_code=body.exit_code,
        )


def _strip_verdict(verdict: Verdict) -> Verdict:
    ruling = Ruling(verdict.ruling.standing, verdict.ruling.code)
    return Verdict(verdict.call, "", verdict.standing, verdict.gate, ruling)


def _strip_need(need: Need) -> Need:
    return Need(need.gate, need.who, "", need.calls, _count_digests(need.digests), code=need.code)


def _strip_answer(answer: Answer) -> Answer:
    value = {"choice": _keep_known(answer.choice, _CHOICES)} if answer.who == "person" and answer.value else None
    return Answer(answer.gate, answer.who, "", _count_digests(answer.digests), "", "", value)


def _strip_compression(body: ContextCompressed) -> ContextCompressed:
    return ContextCompressed(
        strategy=body.strategy,
        limit=body.limit,
        counted_by="",
        before=body.before,
        after=body.after,
        left_out=body.left_out,
        shortened=(),
        open=(),
        summary="",
    )


def _strip_task_ended(body: TaskEnded) -> TaskEnded:
    return TaskEnded(
        status=body.status,
        text="",
        duration=body.duration,
        turns=body.turns,
        model_calls=body.model_calls,
        tool_calls=body.tool_calls,
        tokens=body.tokens,
        cost=body.cost,
        note="",
        report=Report(),
    )


def _count_digests(digests: Sequence[str]) -> tuple[str, ...]:
    """Return how many calls a question was about; a digest could be guessed back into arguments."""
    return ("",) * len(digests)


def _keep_known(value: str, known: Collection[str]) -> str:
    return value if value in known else OTHER
