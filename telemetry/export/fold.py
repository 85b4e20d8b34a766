"""From the events of a session to its trajectory: a fold that loses none of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, assert_never

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.evidence.state.conversation import CAME, build_message
from foregate.schemas import event_body
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.model_response import RecordedCall, Usage
from foregate.schemas.review import ReviewBody
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.tool_spec import ToolSpec
from foregate.telemetry.export.trajectory import (
    Action,
    GivenAnswer,
    Source,
    TaskEnd,
    Trajectory,
    TrajectoryStep,
)
from foregate.telemetry.queries.decisions import DecisionPoint, read_decisions


def fold_trajectory(
    events: Iterable[Event], *, children: Sequence[Trajectory] = (), masked: Sequence[int] = ()
) -> Trajectory:
    """Return the trajectory of a session's events, all of them and in order; raise LogError for one unreadable."""
    fold = TrajectoryFold(children)
    for event in events:
        try:
            fold.apply(event)
        except (LookupError, InvalidJson) as error:
            why = f"event {event.seq} of session `{event.session}` cannot be exported ({type(error).__name__}: {error})"
            raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None
    return fold.build_trajectory(tuple(masked))


class OpenStep(Struct):
    """A step that may still grow: what it began with, and what came to it since. `calls` are ids."""

    began: TrajectoryStep
    calls: list[str] = field(default_factory=list)
    decisions: list[DecisionPoint] = field(default_factory=list)
    answers: list[GivenAnswer] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)


class TrajectoryFold:
    """Takes events in order."""

    def __init__(self, children: Sequence[Trajectory] = ()) -> None:
        self._children = {child.session: child for child in children}
        self._steps: list[OpenStep] = []
        self._calls: dict[str, Action] = {}
        self._tasks: list[TaskEnd] = []
        self._ahead: list[Event] = []
        self._first: Event | None = None
        self._last: Event | None = None
        self._agent: OpenStep | None = None
        self._need: Need | None = None
        self._tools: tuple[ToolSpec, ...] = ()
        self._unanswered: set[str] = set()
        self._task = 0

    def apply(self, event: Event) -> None:
        """Take in one event."""
        self._first = self._first or event
        self._last = event
        match event.body:
            case event_body.SessionStarted() as body:
                self._tools = body.catalogue
                self._begin_step(event, "system", body.system)
            case event_body.CatalogChanged() as body:
                self._tools = body.catalogue
                self._add_notice(event, body)
            case event_body.TaskStarted(task=number):
                self._tasks.append(TaskEnd(number, len(self._steps) + 1, len(self._steps) + 1))
                self._ahead.append(event)
                self._agent, self._task = None, number
            case event_body.UserMessage() as body:
                self._begin_step(event, "user", body.text)
                self._resume_task()
            case ModelResponded() as body:
                self._add_response(event, body)
            case TurnJudged() as body:
                self._apply_judgement(event, body)
            case NeedRaised(need=need):
                self._need = need
                self._add_event(event, self._find_asker(need))
            case NeedAnswered() as body:
                self._answer_need(event, body)
            case event_body.CallBody() as body:
                self._apply_to_call(event, body)
            case event_body.ContextCompressed() | PlanProposed() | PlanConfirmed() | event_body.PolicyChanged() as body:
                self._add_notice(event, body)
            case PlanStepChanged() as body:
                self._change_step(event, body)
            case event_body.TaskPaused() as body:
                self._pause_task(event, body)
            case event_body.TaskEnded(status=status, text=text, note=note) as body:
                self._add_notice(event, body)
                self._change_task(status=status, text=text, note=note)
                self._agent, self._task = None, 0
            case event_body.SessionEnded() | event_body.NoteBody() | ReviewBody():
                self._add_event(event)
            case _:
                assert_never(event.body)

    def _apply_to_call(self, event: Event, body: event_body.AnyCallBody) -> None:
        """Take in an event of a call."""
        match body:
            case event_body.ToolStarted() as body:
                self._start_tool(event, body)
            case event_body.ToolFinished() as body:
                self._finish_call(event, body, "finished" if body.ok else "failed", body.content)
                self._change_call(body.call, error=body.error, exit_code=body.exit_code, duration=body.duration)
            case event_body.CallAnswered() as body:
                self._finish_call(event, body, "not_run", body.message)
                self._change_call(body.call, answer_code=body.code)
            case event_body.OutcomeUnknown() as body:
                self._finish_call(event, body, "unknown", body.reason)
            case event_body.OutcomeResolved() as body:
                self._change_call(body.call, resolved=body.outcome)
                self._add_notice(event, body)
            case event_body.EffectUndone() as body:
                self._change_call(body.call, undone=True)
                self._add_notice(event, body)
            case event_body.SandboxEnded():
                self._add_event(event)
            case _:
                assert_never(body)

    def _pause_task(self, event: Event, body: event_body.TaskPaused) -> None:
        if body.question is not None:
            self._begin_step(event, "agent", body.question)
        else:
            self._add_event(event)
        self._change_task(status=body.reason)

    def build_trajectory(self, masked: tuple[int, ...]) -> Trajectory:
        """Return what was taken in; raise LogError where there was nothing."""
        first, last = self._first, self._last
        if first is None or last is None or not isinstance(first.body, event_body.SessionStarted):
            raise LogError("a session does not begin as one; `foregate audit verify` tells more")
        return Trajectory(
            session=first.session,
            started=first.time,
            last=last.time,
            foregate=first.foregate,
            model=first.body.model,
            workspace=first.body.workspace,
            depth=first.body.depth,
            parent=first.body.parent,
            ended=isinstance(last.body, event_body.SessionEnded),
            head=f"{last.seq}:{last.hash}",
            tools=first.body.catalogue,
            steps=tuple(map(self._build_step, self._steps)),
            tasks=tuple(self._tasks),
            masked=masked,
            children=tuple(self._children.values()),
        )

    def _build_step(self, step: OpenStep) -> TrajectoryStep:
        return replace(
            step.began,
            actions=tuple(self._calls[call] for call in step.calls),
            decisions=tuple(step.decisions),
            answers=tuple(step.answers),
            events=tuple(step.events),
        )

    def _begin_step(self, event: Event, source: Source, message: str, *, own: bool = True, **more: Any) -> OpenStep:
        """Begin a step; `own` False gives it no event, for words that stand in another step's."""
        place = {"number": len(self._steps) + 1, "task": self._task, "tools": self._tools, "actor": event.actor, **more}
        began = TrajectoryStep(seq=event.seq, time=event.time, kind=event.kind, source=source, message=message, **place)
        step = OpenStep(began)
        if own:
            step.events, self._ahead = [*self._ahead, event], []
        self._steps.append(step)
        if self._tasks and self._tasks[-1].number == self._task:
            self._tasks[-1] = replace(self._tasks[-1], last=len(self._steps))
        return step

    def _add_notice(self, event: Event, body: InWords) -> None:
        self._begin_step(event, "system", describe_event(body))

    def _add_event(self, event: Event, step: OpenStep | None = None) -> None:
        """Add an event to a step, the newest where none is named; before the first it waits for that."""
        step = step or (self._steps[-1] if self._steps else None)
        (step.events if step is not None else self._ahead).append(event)

    def _add_response(self, event: Event, body: ModelResponded) -> None:
        # A further stage: the calls stand, as sent, in the step of the response.
        if body.continues is not None:
            self._agent = self._find_owner(body.calls[0].id)
            self._add_event(event, self._agent)
            return
        calls = body.program.calls if body.program is not None else body.calls
        said: dict[str, Any] = {"reasoning": body.reasoning, "asked": body.places is None, "usage": body.usage.usage}
        more: dict[str, Any] = {"model": body.model, "finish_reason": body.finish_reason, "raw": body.raw}
        self._agent = self._begin_step(event, "agent", body.text, **said, **more)
        self._add_calls(self._agent, calls)
        self._unanswered = {call.id for call in calls}

    def _add_calls(self, step: OpenStep, calls: Iterable[RecordedCall]) -> None:
        for call in (recorded.call for recorded in calls):
            step.calls.append(call.id)
            self._calls[call.id] = Action(call.id, call.name, call.raw, call.arguments, call.defect, call.digest)

    def _apply_judgement(self, event: Event, body: TurnJudged) -> None:
        turn, verdicts = body.turn, body.judgement.verdicts
        if self._agent is not None and all(verdict.call in self._calls for verdict in verdicts):
            step = self._find_owner(verdicts[0].call) if verdicts else self._agent
            self._add_event(event, step)
        else:
            step = self._begin_step(event, "agent", "", actor=turn.actor, cause=turn.cause)
            self._add_calls(step, turn.proposed or ())
        if turn.actor == "model":
            step.began = replace(step.began, turn=turn.turn)
        step.decisions += read_decisions([event])
        for verdict in verdicts:
            ruling = verdict.ruling
            says = {"code": ruling.code, "message": ruling.message, "remedy": ruling.remedy}
            self._change_call(verdict.call, standing=verdict.standing.value, gate=verdict.gate, **says)
        if body.notice:
            self._begin_step(event, "system", body.notice, own=False, actor="foregate")

    def _change_call(self, call: str, **fields: Any) -> None:
        self._calls[call] = replace(self._calls[call], **fields)

    def _find_owner(self, call: str) -> OpenStep:
        """Return the step a call was made in; raise LookupError for a call nobody made."""
        for step in reversed(self._steps):
            if call in step.calls:
                return step
        raise LookupError(f"no response made the call `{call}`")

    def _answer_need(self, event: Event, body: NeedAnswered) -> None:
        answer, by_person = body.answer, body.answer.who == "person"
        asked = self._need if self._need is not None and self._need.gate == answer.gate else None
        found = GivenAnswer(
            seq=event.seq,
            time=event.time,
            who=answer.who,
            by=str(body.by) if body.by is not None else "",
            gate=answer.gate,
            code=asked.code if asked is not None else "",
            calls=asked.calls if asked is not None else (),
            choice=answer.choice if by_person else "",
            text=answer.words if by_person else "",
            value=answer.value,
            error=answer.error,
            usage=body.usage or Usage(),
        )
        step = self._find_asker(answer)
        step.answers.append(found)
        self._add_event(event, step)
        self._resume_task()

    def _find_asker(self, question: Need | Answer) -> OpenStep:
        """Return the step a question is about: the response whose calls it names, else the newest."""
        return self._agent if self._agent is not None and question.digests else self._steps[-1]

    def _start_tool(self, event: Event, body: event_body.ToolStarted) -> None:
        self._add_event(event, self._find_owner(body.call))
        child = f"{event.session}.{body.call}"
        self._change_call(body.call, target=body.target, child=child if child in self._children else "")

    def _finish_call(self, event: Event, body: event_body.EndBody, outcome: str, content: str) -> None:
        self._add_event(event, self._find_owner(body.call))
        message = build_message(event, body.call in self._unanswered)
        self._unanswered.discard(body.call)
        told, target = message.text if message is not None else "", body.target or self._calls[body.call].target
        self._change_call(body.call, outcome=outcome, content=content, told=told, target=target)

    def _change_step(self, event: Event, body: PlanStepChanged) -> None:
        if body.ask is not None or body.choice:
            self._add_notice(event, body)
        else:
            self._add_event(event)
        if body.status == "running":
            self._resume_task()

    def _resume_task(self) -> None:
        if self._tasks and not self._tasks[-1].has_ended:
            self._change_task(status="running")

    def _change_task(self, **fields: str) -> None:
        if self._tasks:
            self._tasks[-1] = replace(self._tasks[-1], **fields)


InWords: TypeAlias = (
    event_body.OutcomeResolved
    | event_body.EffectUndone
    | event_body.ContextCompressed
    | PlanProposed
    | PlanConfirmed
    | PlanStepChanged
    | event_body.TaskEnded
    | event_body.CatalogChanged
    | event_body.PolicyChanged
)
"""What is a step of its own and holds no message."""


def describe_event(body: InWords) -> str:
    """Return one sentence; where the event says something to the model, what it says."""
    match body:
        case event_body.OutcomeResolved():
            return f"The outcome of the call to `{body.tool}` is now known: it {CAME[body.outcome]}."
        case event_body.EffectUndone():
            return f"The change made by `{body.tool}` to {', '.join(body.resources)} was undone."
        case event_body.ContextCompressed():
            count = sum(end - start for start, end in body.left_out)
            return f"From here on the model is not sent {count} earlier messages ({body.strategy})."
        case PlanProposed():
            return f"A plan was proposed: {body.proposal.goal}"
        case PlanConfirmed():
            seen = "a person saw the sheet" if body.approved else "nobody saw the sheet"
            return f"The plan was confirmed ({seen}{', dry run' if body.dry_run else ''})."
        case PlanStepChanged():
            if body.ask is not None:
                return body.ask.notice
            return f"A person chose `{body.choice}` after task {body.step} failed."
        case event_body.TaskEnded():
            return f"The task ended: {body.status}{f' ({body.note})' if body.note else ''}."
        case event_body.CatalogChanged():
            return "The tools changed."
        case event_body.PolicyChanged():
            switches = describe_switches(body)
            return f"The policy or a switch changed{': ' if switches else ''}{switches}."
        case _:
            assert_never(body)


def describe_switches(body: event_body.SessionStarted | event_body.PolicyChanged) -> str:
    """Return the switches an event sets, "" for none."""
    if isinstance(body, event_body.SessionStarted):
        said = (f"dialect {body.dialect}" if body.dialect else "", f"run by {body.by}" if body.by is not None else "")
        return ", ".join(filter(None, said))
    switches = {"auto": body.auto, "dry_run": body.dry_run}
    names = {"mode": body.mode, "dialect": body.dialect}
    found = [f"{name} {'on' if value else 'off'}" for name, value in switches.items() if value is not None]
    found += [f"{name} {value}" for name, value in names.items() if value is not None]
    found += [f"policy kept: {body.refused}"] if body.refused else []
    return ", ".join([*found, *([f"run by {body.by}"] if body.by is not None else [])])
