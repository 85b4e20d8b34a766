"""The state of a session: a fold over its events, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

from msgspec.structs import replace

from foregate.evidence.ledger import AtomTable, Ledger, Written
from foregate.evidence.reads import Earlier, find_origin
from foregate.evidence.state.conversation import UNKNOWN, Conversation, build_message
from foregate.evidence.state.dataflow import Dataflow
from foregate.evidence.state.plan_in_force import Uses
from foregate.evidence.state.task import CallResult, LeftCall, OpenNeed, OpenSandbox, OpenTurn, TaskState
from foregate.evidence.state.waiting import begin_waiting, start_clock, take_answer, waits_for_person
from foregate.schemas import event_body, review
from foregate.schemas.errors import LogError
from foregate.schemas.event import GENESIS, Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    EffectUndone,
    OutcomeResolved,
    OutcomeUnknown,
    SandboxEnded,
    TaskEnded,
    TaskPaused,
    TaskStarted,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.identity import Identity
from foregate.schemas.judgement import Grant, Standing
from foregate.schemas.message import Message
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.permission import Permission
from foregate.schemas.plan import SharedUses
from foregate.schemas.question import AskedQuestion, follow_question
from foregate.schemas.task_plan import PlanConfirmed, PlanProposed, PlanStepChanged
from foregate.schemas.tool_call import EvidenceKind, Origin
from foregate.schemas.tool_spec import Effect, Resource
from foregate.schemas.turn import Said

_SENT_BACK = ("unknown_tool", "invalid_arguments", "text_only_turn_side_effecting_tool_drift", "not_run_dry_run")
"""Codes of changes the model was told to send otherwise or to leave: no trouble of the task by themselves."""
_SPENT = ("model_calls", "tool_calls", "tokens", "cost")
_HEARD, _WORDS = 1000, 160
"""Results from outside a session can name, and characters of each name."""


@dataclass(eq=False)
class SessionState:
    """Everything the loop knows, in fields that a snapshot is written and read by. `apply` takes events in order."""

    session: str = ""
    seq: int = 0
    hash: str = GENESIS
    root: str = ""
    started: event_body.SessionStarted | None = None
    by: Identity | None = None  # who runs it
    policy_hash: str = ""
    catalogue_hash: str = ""
    prompts_hash: str = ""
    conversation: Conversation = field(default_factory=Conversation)
    ledger: Ledger = field(default_factory=Ledger)
    atoms: AtomTable = field(default_factory=AtomTable)
    grants: list[Grant] = field(default_factory=list)
    permissions: tuple[Permission, ...] = ()
    ended: bool = False
    auto: bool = False
    dry_run: bool = False
    mode: str = "direct"
    dialect: str = "native"
    task: TaskState | None = None
    earlier: Earlier = field(default_factory=Earlier)
    written: Written = field(default_factory=Written)
    tasks: int = 0
    open: OpenTurn | None = None
    question: AskedQuestion | None = None  # to a person, and not answered yet
    program: Dataflow | None = None
    permits: dict[tuple[int, str], str] = field(default_factory=dict)
    in_flight: dict[str, ToolStarted] = field(default_factory=dict)
    parked: dict[str, OutcomeUnknown] = field(default_factory=dict)
    heard: dict[int, str] = field(default_factory=dict)  # by the event of a result from outside the call it was of
    outside_since: int = 0  # the event of the first result from outside
    tried: set[str] = field(default_factory=set)  # tools whose calls have run
    carriers: set[Resource] = field(default_factory=set)  # what calls changed: a model's words may stand there now
    shared: SharedUses | None = None  # what the child task that has ended used of its parent's mandate
    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_SPENT, 0))

    def apply(self, event: Event) -> None:
        """Take in one event."""
        self.seq, self.hash, self.policy_hash = event.seq, event.hash, event.policy
        self.ended = isinstance(event.body, event_body.SessionEnded)
        answer = event.body if isinstance(event.body, event_body.EndBody) else None
        answers = answer is not None and self.is_asked(answer.call)
        self._fold(event)
        if self.task is not None and not (self.task.since or self.task.paused):
            start_clock(self.task, event)
        if self.question is not None or isinstance(event.body, NeedRaised):
            self.question = follow_question(self.question, event)
        if (message := build_message(event, answers)) is not None:
            self.conversation.add_message(message, by_user=isinstance(event.body, UserMessage))
        if answer is not None and answers:
            self._close_call(answer.call, event.seq, answer)

    def _fold(self, event: Event) -> None:
        match event.body:  # what every turn has stands first
            case ModelResponded() as body:
                self._add_response(event, body)
            case TurnJudged() as body:
                self._apply_judgement(event, body)
            case ToolStarted() as body:
                self._start_tool(event, body)
            case ToolFinished() as body:
                self._finish_tool(event, body)
            case event_body.SessionStarted() as body:
                self.session, self.started, self.by, self.root = event.session, body, body.by, body.workspace
                self.prompts_hash = body.prompts_hash
                self.catalogue_hash, self.dialect = body.catalogue_hash, body.dialect or self.dialect
            case event_body.CatalogChanged(catalogue_hash=catalogue_hash):
                self.catalogue_hash = catalogue_hash
            case event_body.PolicyChanged() as body:
                self._change_policy(event.seq, body)
            case TaskStarted() as body:
                self._start_task(event, body)
            case UserMessage(text=text):
                self.running_task.add_message(Said(event.seq, text, event.actor), event.time)
                self.atoms.add_text(text, Origin.USER if event.actor == "user" else Origin.NOBODY, event.seq)
            case NeedRaised() as body:
                self._raise_need(event, body)
            case NeedAnswered() as body:
                self._answer_need(event, body)
            case SandboxEnded() as body:
                self.in_flight.pop(body.call, None)
                if self.open is not None:
                    self.open.sandbox = OpenSandbox(event.seq, body)
            case CallAnswered() | OutcomeUnknown() as body:
                self._leave_call(body)
            case OutcomeResolved() as body:
                self._resolve_outcome(event, body)
            case EffectUndone() as body:
                self.ledger.record_evidence(event.seq, body.evidence, body.changes, at=event.time)
            case event_body.ContextCompressed() as body:
                self.conversation.compress(body)
            case (PlanProposed() | PlanConfirmed() | PlanStepChanged()) as body:
                if self.task is not None:
                    self.task.follow_plan(event, body)
            case TaskPaused() as body:
                self.running_task.pause_clock(event.time, body)
            case TaskEnded() as body:
                self._end_task(body)
            case event_body.SessionEnded() | event_body.NoteBody() | review.ReviewBody():
                pass
            case _:
                assert_never(event.body)

    @property
    def running_task(self) -> TaskState:
        """The task under way; raise LogError where none is, as only in a log that somebody changed."""
        if self.task is None:
            where = f"at event {self.seq} no task is under way that it could belong to"
            raise LogError(f"{where}; `foregate audit verify` tells what was changed")
        return self.task

    def is_asked(self, call: str) -> bool:
        """Whether a call is one of the response in hand that has no answer yet."""
        mine = self.open is not None and call in self.open.unanswered
        return mine or (self.program is not None and call in self.program.unanswered)

    @property
    def waits_for_person(self) -> bool:
        """Whether the task waits for a person, or for somebody to go on with their answer."""
        return waits_for_person(self.task, self.open, self.question)

    @property
    def messages(self) -> list[Message]:
        """The conversation as the model gets it."""
        return self.conversation.messages

    def _close_call(self, call: str, seq: int, answer: ToolFinished | CallAnswered | OutcomeUnknown) -> None:
        result = CallResult.of(seq, answer)
        if self.open is not None and call in self.open.unanswered:
            self.open.close_call(call, result)
            if not self.open.unanswered:
                self.open = None
        if self.program is not None:
            self.program.record_result(call, result)
            if not self.program.unanswered:
                self.program = None

    def _change_policy(self, seq: int, body: event_body.PolicyChanged) -> None:
        if body.workspace is not None:
            self.root = body.workspace
            self.ledger.forget_all(seq)
        self.auto = self.auto if body.auto is None else body.auto
        self.dry_run = self.dry_run if body.dry_run is None else body.dry_run
        self.mode, self.dialect = body.mode or self.mode, body.dialect or self.dialect
        self.permissions = self.permissions if body.permissions is None else body.permissions
        self.by = self.by if body.by is None else body.by
        if self.task is not None and body.mode == "direct":
            self.task.wants_plan = False

    def _start_task(self, event: Event, body: TaskStarted) -> None:
        self.tasks = body.task
        self.task = TaskState(body.task, body.depth, event.time, wants_plan=body.plan, earlier=self.earlier)
        if body.leave is not None:
            self.task.uses = Uses.of(body.leave)
            self.task.plan = body.leave.plan and replace(body.leave.plan, seq=event.seq)
            self.outside_since = self.outside_since or (event.seq if body.leave.outside else 0)
        self.task.refusals.extend(body.refusals or ())
        self.permits.clear()

    def _add_response(self, event: Event, body: ModelResponded) -> None:
        response, task, planned = body.response, self.running_task, body.places is not None
        if body.continues is not None:
            self._add_stage(event, response, body.continues.places)
            return
        usage, words = response.usage, len(response.text.strip())
        task.add_counts(model_calls=not planned, tokens=usage.input_tokens + usage.output_tokens, cost=usage.cost)
        task.narrated, task.words_only = max(task.narrated, words), False
        task.empty_responses += not response.calls and not words
        self.program = Dataflow.from_record(event.seq, body.program) if body.program is not None else None
        if response.calls or self.program is None:
            self.open = OpenTurn.of(event.seq, response)

    def _add_stage(self, event: Event, response: ModelResponse, places: Sequence[int]) -> None:
        """Take in a further stage: results were put into its calls, and what they said is what their tools said."""
        assert self.program is not None
        for place, call in zip(places, response.calls, strict=True):
            for text, result in self.program.find_taken_texts(place) if not call.defect else ():
                self.atoms.add_text(text, result.origin, result.seq, content=result.told, whole=True)
        self.program.staged.update(places)
        self.open = OpenTurn.of(event.seq, response, self.program.seq)

    def _apply_judgement(self, event: Event, body: TurnJudged) -> None:
        turn, judgement, task = body.turn, body.judgement, self.running_task
        for verdict in judgement.verdicts:
            if verdict.standing is Standing.ALLOW:
                self.permits[event.seq, verdict.call] = verdict.digest
        if turn.actor == "postlude" and not judgement.verdicts and task.apply_verification(judgement):
            self.open = None
        if turn.actor not in ("model", "sandbox"):
            return
        task.apply_judgement(event.seq, body)
        if judgement.uses or judgement.said:
            task.uses.permit(judgement, self.open.unanswered if self.open is not None else {})
        for grant in judgement.grants:
            (self.grants if grant.until == "session" else task.grants).append(replace(grant, seq=event.seq))
        if self.open is not None and turn.actor == "model":
            self.open.judged, self.open.judgement = event.seq, judgement
            self.open.survey_hash, self.open.dry_run = body.survey_hash, turn.dry_run

    def _raise_need(self, event: Event, body: NeedRaised) -> None:
        if self.open is not None:
            asking = self.open.sandbox or self.open
            asking.need = OpenNeed(event.seq, body.need, body.survey_hash, event.policy)
        if self.task is not None:
            begin_waiting(self.task, event.time, body.need)

    def _answer_need(self, event: Event, body: NeedAnswered) -> None:
        answer = replace(body.answer, seq=event.seq, requests=body.model_calls)
        take_answer(self.running_task, event.time, replace(body, answer=answer), self.question)
        if self.open is not None:
            asking = self.open.sandbox or self.open
            asking.need = None
            asking.answers.append(answer)

    def _start_tool(self, event: Event, body: ToolStarted) -> None:
        permit, task = body.permit, self.running_task
        self.permits.pop((permit.judged, permit.call), None)
        self.in_flight[body.call] = body
        self.tried.add(body.tool)
        task.add_counts(tool_calls=body.look is None and body.applies is None)  # what was seen early ran then
        if not body.early and body.applies is None:
            task.runs[permit.digest] = task.runs.get(permit.digest, 0) + 1
        if self.open is not None:
            self.open.started[body.call] = event.seq
            if self.open.sandbox is not None and self.open.sandbox.body.call == body.call:
                self.open.sandbox = None
        if body.lends or body.call in task.uses.permitted:
            task.plan = task.uses.start(body, task.plan)

    def _finish_tool(self, event: Event, body: ToolFinished) -> None:
        started = self.in_flight.pop(body.call, None)
        if body.early:
            return  # the model has not seen it: it counts from the call that is answered with it
        task, side_effect = self.running_task, started is not None and started.side_effect != "pure"
        if body.shared is not None or body.call in task.uses.taken:
            task.plan = task.uses.finish(body, started, task.plan)
        origin = body.origin if body.origin is not Origin.EXTERNAL else find_origin(started, body)
        if origin is Origin.EXTERNAL:
            self.outside_since = self.outside_since or event.seq
            if len(self.heard) < _HEARD:
                self.heard[event.seq] = f"{body.tool} {body.target}".strip()[:_WORDS]
        self.carriers.update([change.resource for change in body.changes])
        call = self.open.unanswered.get(body.call) if self.open is not None else None
        if call is not None and side_effect:
            self.written.add(event.seq, call.raw)
        if call is not None and (not side_effect or body.origin is Origin.EXTERNAL):
            task.reads.take(event.seq, started, body, call.raw, self.carriers)
        if call is not None and (not side_effect or (started is not None and started.confinement)):
            task.texts.add(event.seq, body.tool, body.target, call.raw, body.content)
        self._count_repeats(task, started, body)
        may = side_effect and not body.changes
        self.ledger.record_evidence(event.seq, body.evidence, body.changes, may_have_changed=may, at=event.time)
        content = {record.kind for record in body.evidence} == {EvidenceKind.FILE_READ}
        self.atoms.add_text(body.content, origin, event.seq, content=content)
        self._finish_in_task(event, body, started, side_effect)
        if self.open is not None:
            self.open.own_changes.update([(change.resource, change.after) for change in body.changes])
            if side_effect and not body.ok:
                self.open.note_failed_change(body.call)

    def _count_repeats(self, task: TaskState, started: ToolStarted | None, body: ToolFinished) -> None:
        """Begin to count repeated calls anew where something has changed or something new was seen."""
        runs, known = task.runs, self.ledger.newest_records
        if body.changes or any(all(seen.hash != one.hash for seen in known(one.resource)) for one in body.evidence):
            mine = runs.get(started.permit.digest, 0) if started is not None else 0
            runs.clear()
            task.futile.clear()
            if started is not None and not body.changes and started.side_effect == "pure":
                runs[started.permit.digest] = mine

    def _finish_in_task(self, event: Event, body: ToolFinished, started: ToolStarted | None, side_effect: bool) -> None:
        task = self.running_task
        task.last_change = event.seq if body.changes or side_effect else task.last_change
        task.add_counts(**body.used or {})
        task.note_finished_call(event.seq, body, side_effect)
        if body.changes:
            changed = {change.resource for change in body.changes}
            if started is not None and started.applies is not None:
                task.applied |= changed - task.changed
            task.changed |= changed
            moved = {change.before for change in body.changes if not change.after}
            task.made |= {change.resource for change in body.changes if not change.before and change.after not in moved}
        task.used["changed_resources"] = len(task.changed) - len(task.applied)
        if started is not None and body.ok and (side_effect or body.used):  # a child task may have done anything
            ran = Effect.EXECUTE if started.applies is not None else started.effect  # and then changed what it did
            task.reached.add(ran if side_effect else Effect.UNKNOWN)
        if side_effect and body.ok:
            is_contained = started is not None and started.confinement in ("full", "limited")
            task.add_counts(changes=1, contained_changes=is_contained and body.call not in task.uses.planned)
        if side_effect and started is not None and (body.ok or body.changes or not (started.before or started.images)):
            task.touched += 1

    def _leave_call(self, body: CallAnswered | OutcomeUnknown) -> None:
        """Take in that a call did not run, or that its outcome is unknown."""
        task = self.running_task
        self.in_flight.pop(body.call, None)
        loops = isinstance(body, CallAnswered) and body.code == "not_run_loop"
        if loops and self.open is not None and (call := self.open.unanswered.get(body.call)) is not None:
            task.note_futile_call(call.digest, f"{body.tool} {body.target}".strip(), self.open.seq)
        if isinstance(body, OutcomeUnknown):
            self.parked[body.call] = body
            task.touched += 1
            task.note_trouble(body.tool, body.target, UNKNOWN, body.reason)
        elif not self.is_asked(body.call):
            return
        else:
            what = f"was not done ({body.code})"
            if body.change and body.code not in _SENT_BACK:
                task.note_trouble(body.tool, body.target, what, body.message)
                if body.code != "refused_before":
                    task.left[body.tool, body.target] = LeftCall(body.code, len(task.done))
            else:
                task.note_unrun(body.tool, body.target, what, change=body.change and body.code != "unknown_tool")
            if not body.change:
                return
        if self.open is not None:
            self.open.note_failed_change(body.call)

    def _resolve_outcome(self, event: Event, body: OutcomeResolved) -> None:
        self.parked.pop(body.call, None)
        done, changes = body.outcome == "done", body.changes or ()
        may_have = done and not changes
        self.ledger.record_evidence(event.seq, body.evidence or (), changes, may_have_changed=may_have, at=event.time)
        self.carriers.update(change.resource for change in changes)
        if self.task is None:
            return
        tool, target = body.tool, body.target
        if done:
            self.task.note_change(tool, target)
            self.task.last_change = event.seq
            self.task.changed |= {change.resource for change in changes}
        elif (tool, target) in self.task.trouble:
            self.task.trouble[tool, target] = "was not done"

    def _end_task(self, body: TaskEnded) -> None:
        for name in self.spent:
            self.spent[name] += getattr(body, name)
        if (task := self.task) is not None:
            answered = self.open if body.text and self.open is not None and not self.open.response.calls else None
            answer = Said(answered.seq, answered.response.text, "model") if answered is not None else None
            self.earlier = self.earlier.follow(task.messages, task.reads, answer)
            self.shared = task.uses.report(task.plan) if task.depth else None
        self.task = self.open = self.program = None
        self.permits.clear()
