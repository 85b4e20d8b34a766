"""Recorded surveys, outcomes of calls and answers, in place of real ones when a session is played again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foregate.agent.loop.executor import build_start, check_permit, execute
from foregate.agent.session.interaction import AbsentPerson, Interaction, build_override, restore_reply, strip_request
from foregate.agent.session.result import DELEGATE, CallNotStarted
from foregate.agent.session.session import Session
from foregate.agent.session.session_log import SessionLog
from foregate.agent.session.turn_builder import CallRunner, PrefetchedResult, PrefetchedResults, TurnInHand
from foregate.agent.survey.argument_values import find_values
from foregate.agent.survey.remote_survey import OPERANDS
from foregate.evidence.state.recorded_turns import InForce
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import OpenSandbox
from foregate.gates.replay.assumption import CHOICES, UNAVAILABLE, build_value
from foregate.policy.policy import Policy
from foregate.policy.risk.resurvey import resurvey
from foregate.schemas import strict_json
from foregate.schemas.event import Actor, Draft, NeedAnswered
from foregate.schemas.event_body import OutcomeUnknown, SandboxEnded, ToolFinished
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.model_response import Usage
from foregate.schemas.protocols import Blobs, Model, Reply
from foregate.schemas.sandbox import SandboxedChanges
from foregate.schemas.strict_json import Json, get_list
from foregate.schemas.tool_call import CallFacts, EvidenceSeen, Permit, Survey, SurveyedResource, ToolCall, ToolResult
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, ToolSpec
from foregate.tuning.family_replay import FamilyReplay, PolicyReplacer
from foregate.tuning.progress import Progress
from foregate.tuning.recorded_plan import PREVIEW
from foregate.tuning.recorded_steps import (
    NothingRecorded,
    RecordedAnswer,
    RecordedFate,
    RecordingEnds,
    find_end,
)

_REMEDY = ".remedy"
_NEVER_JUDGED = ("not_run_too_many", "not_run_after_failure", "not_run_dry_run")
_LOOKED_AT = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)
_CANCELLED = "cancelled"
_WOULD_CHANGE = "what it would have changed:\n"


class RecordedSurveyor:
    """Returns recorded surveys, as another policy would have had them made; looks at nothing."""

    def __init__(self, progress: Progress, policies: PolicyReplacer, policy: Policy, catalogue: Catalogue) -> None:
        self._progress, self._policies, self._policy, self._catalogue = progress, policies, policy, catalogue

    def survey(self, calls: Sequence[ToolCall], state: SessionState) -> tuple[Survey, ...]:
        """Return what looking found for each call; raise NothingRecorded where nobody looked."""
        return tuple(self._survey(call, state) for call in calls)

    def survey_call(self, call: ToolCall, state: SessionState, *, again: bool = False) -> Survey:
        """Return what looking found for a call; of a remedy that was not tried then, what the held call named."""
        held = call.id.removesuffix(_REMEDY)
        tried = self._progress.recording.find_survey(self._progress.find_recorded_id(call.id)) is not None
        if held == call.id or tried:
            return self._survey(call, state)
        known = self._progress.recording.find_survey(self._progress.find_recorded_id(held))
        resources = known[0].resources if known is not None else ()
        return Survey(call.id, resources=tuple(replace(one, access=Effect.OBSERVATION) for one in resources))

    def survey_changes(self, call: ToolCall, state: SessionState) -> Survey:
        """Return what was found of the changes that a call left in its sandbox."""
        found = self._progress.recording.find_survey(self._progress.find_final_id(call.id), sandboxed=True)
        if found is None:
            raise NothingRecorded(f"what `{call.name[:64]}` left in its sandbox was not looked at then")
        seen = (replace(one, evidence=_find_evidence(one, state)) for one in found[0].resources)
        return replace(found[0], call=call.id, resources=tuple(seen))

    def _survey(self, call: ToolCall, state: SessionState) -> Survey:
        spec = self._catalogue.get(call.name)
        if spec is None or call.arguments is None:
            return Survey(call.id)
        known = self._find_recorded(call)
        if known is None:
            return Survey(call.id)
        survey, in_force = known
        named = [resource.id for resource in survey.resources]
        self._progress.check_world(call, named, commands=survey.command is not None)
        before = self._policies.restore(in_force)
        again = resurvey(call, survey, spec, before, self._policy) if before.hash != self._policy.hash else survey
        if isinstance(again, str):
            raise NothingRecorded(f"`{again}` steers what is looked at, and `{call.name[:64]}` was looked at otherwise")
        return self._refresh(call, replace(again, call=call.id), spec, state)

    def _find_recorded(self, call: ToolCall) -> tuple[Survey, InForce] | None:
        """Return the recorded survey of a call and what was in force, None for a call that was never to be judged."""
        if call.id.startswith(PREVIEW):
            return self._progress.plans.find_preview(call.id)
        recording, own = self._progress.recording, self._progress.find_recorded_id(call.id)
        if own in recording.changed:
            raise NothingRecorded(f"what `{call.name[:64]}` names had changed while somebody was asked about it")
        if (found := recording.find_survey(own)) is not None:
            return found
        answered = recording.find_fate(own).answered
        if answered is not None and answered.code in _NEVER_JUDGED:
            return None
        if call.id.endswith(_REMEDY):
            raise NothingRecorded(f"`{call.name[:64]}` would cure a call that is held here, and was not run then")
        response = self._progress.response
        left = self._progress.plans.is_cut_off if response is None else not recording.was_judged(response)
        if self._progress.step is None and left:
            self._progress.stop_at_end()
        raise NothingRecorded(f"nobody looked at what `{call.name[:64]}` names here")

    def _refresh(self, call: ToolCall, survey: Survey, spec: ToolSpec | None, state: SessionState) -> Survey:
        """Return a survey with what this session knows: what it has seen and changed, and who named what."""
        resources = tuple(_add_knowledge(one, state, spec) for one in survey.resources)
        survey = replace(survey, resources=resources)
        if survey.problem or spec is None:
            return survey
        words = survey.command.argv[:OPERANDS] if survey.command is not None else ()
        named = [*(one.id for one in resources), *words]
        survey = replace(survey, atoms=state.atoms.find_argument_atoms(call.arguments or {}, named))
        if not spec.may_need_somebody:
            return survey
        return find_values(call, spec, survey, state, self._policy, self._catalogue)


def _find_evidence(resource: SurveyedResource, state: SessionState) -> tuple[EvidenceSeen, ...]:
    return state.ledger.newest_records(resource.resource) if resource.evidence else ()


def _add_knowledge(resource: SurveyedResource, state: SessionState, spec: ToolSpec | None) -> SurveyedResource:
    """Return a resource with the evidence there is of it now, and whether this task has changed it.

    Of what is only named, as a message is or a process, nobody asks whether it was changed.
    """
    elsewhere = spec is not None and spec.is_elsewhere
    named = spec is not None and any(target.kind is resource.kind for target in spec.targets)
    looked_at = resource.kind in _LOOKED_AT or (resource.kind is ResourceKind.OTHER and not named)
    task, evidence = state.task, state.ledger.newest_records(resource.resource)
    if resource.protected == "outside_workspace" and not elsewhere:
        # What lies outside is named and never looked at.
        return resource
    if elsewhere:
        own = task is not None and resource.resource in task.changed
    else:
        own = task is not None and looked_at and task.is_own(resource.resource, resource.access)
    return replace(resource, evidence=evidence, changed_before=own)


class RecordedRunner(CallRunner):
    """Records the events that running a call left then; raises NothingRecorded where it left none."""

    def __init__(self, progress: Progress, family: FamilyReplay) -> None:
        self._progress, self._family = progress, family
        self.session: Session
        self.surveyor: RecordedSurveyor
        """Both set once there are such."""

    async def execute(
        self,
        permit: Permit,
        facts: CallFacts,
        actor: Actor = "model",
        *,
        early: bool = False,
        prefetched: PrefetchedResult | None = None,
    ) -> ToolResult | CallNotStarted:
        """Return the outcome of a call, or why it was not started, and record it under the id it has now."""
        call = facts.call
        check_permit(self.session, permit, call)
        fate = self._progress.find_run(call)
        if call.name == DELEGATE.name and self.session.delegates:
            return await self._play_child(permit, facts, actor, fate)
        if fate.started is None:
            assert fate.answered is not None
            return CallNotStarted(fate.answered.code, fate.answered.message)
        started = build_start(permit, facts, fate.started.before, early=False, look=None)
        started = replace(started, snapshot="", own=fate.started.own)
        await self.session.record(Draft(started, actor))
        if fate.sandbox is None and fate.end is None:
            # The process ended while it ran.
            raise RecordingEnds
        if fate.sandbox is not None:
            await self.session.record(Draft(replace(fate.sandbox, call=call.id), "tool"))
            return ToolResult(fate.sandbox.ok, fate.sandbox.content)
        self._progress.pass_time(fate.time)
        return await self._record_end(fate, call.id, actor)

    async def _play_child(
        self, permit: Permit, facts: CallFacts, actor: Actor, fate: RecordedFate
    ) -> ToolResult | CallNotStarted:
        """Play the child task that a call begins or resumes, as the loop itself runs one."""
        name = self.session.name_child(facts.call.id)
        try:
            result = await execute(self.session, permit, facts, actor)
        except RecordingEnds:
            self._family.leave_open(name)
            raise
        except NothingRecorded as error:
            raise NothingRecorded(self._family.stop(name, str(error))) from None
        self._family.check_ended(name)
        if isinstance(fate.end, ToolFinished) and isinstance(result, ToolResult):
            self._progress.pass_time(fate.time)
            if (result.ok, result.content) != (fate.end.ok, fate.end.content):
                self._progress.note_other_answer(facts.call.id)
        return result

    async def _record_end(self, fate: RecordedFate, call: str, actor: Actor) -> ToolResult:
        match fate.end:
            case ToolFinished() as end:
                body = replace(end, call=call, early=False, look=None)
                await self.session.record(Draft(body, "tool" if actor in ("model", "sandbox") else actor))
                if end.error == _CANCELLED:
                    self._progress.cancel()
                return ToolResult(end.ok, end.content, end.evidence, end.changes, end.origin, end.error)
            case OutcomeUnknown() as lost:
                await self.session.record(Draft(replace(lost, call=call), "foregate"))
                if lost.reason.startswith(_CANCELLED):
                    self._progress.cancel()
                return ToolResult(False, lost.reason, error=lost.error, unknown=True)
            case None:
                raise NothingRecorded("what a call came to was never recorded")

    async def survey_changes(self, ended: OpenSandbox, found: SandboxedChanges, command: CallFacts) -> Survey:
        """Return what was found of the changes then."""
        return self.surveyor.survey_changes(command.call, self.session.state)

    async def apply(
        self, permit: Permit, facts: CallFacts, ended: OpenSandbox, found: SandboxedChanges
    ) -> ToolResult | CallNotStarted:
        """Record that the changes of a sandbox were applied, as they were then."""
        check_permit(self.session, permit, facts.call)
        call = facts.call
        fate = self._progress.recording.find_fate(self._progress.find_final_id(call.id))
        if fate.applied is None:
            if fate.answered is not None and fate.answered.ruling == "not_run":
                return CallNotStarted(fate.answered.code, fate.answered.message)
            why = "is applied here, which was thrown away then, so no result is recorded"
            raise NothingRecorded(f"what `{call.name[:64]}` changed in its sandbox {why}")
        started = replace(fate.applied, call=call.id, permit=permit, applies=ended.seq, images="", effect=facts.effect)
        await self.session.record(Draft(started, "sandbox"))
        self._progress.pass_time(fate.time)
        return await self._record_end(fate, call.id, "sandbox")

    def find_changes(self, ended: SandboxEnded) -> SandboxedChanges | None:
        """Return nothing in particular: the changes are known by their survey only."""
        return SandboxedChanges()

    async def discard(self, found: SandboxedChanges) -> None:
        """Do nothing: there is no sandbox."""

    def format_changes(self, found: SandboxedChanges) -> str:
        """Return the difference the model was shown then, "" where it was shown none."""
        ended = self.session.state.open.sandbox if self.session.state.open is not None else None
        call = self._progress.find_final_id(ended.body.call) if ended is not None else ""
        answered = self._progress.recording.find_fate(call).answered
        shown = answered.observed.output if answered is not None and answered.observed is not None else ""
        return shown.partition(_WOULD_CHANGE)[2]


class RecordedInteraction(Interaction):
    """Answers a question as recorded, else as assumed; raises NothingRecorded for any other."""

    def __init__(self, log: SessionLog, blobs: Blobs, model: Model, policy: Policy, progress: Progress) -> None:
        super().__init__(log, blobs, model, policy, AbsentPerson(), PrefetchedResults())
        self._progress = progress

    async def answer_need(self, need: Need, in_hand: TurnInHand) -> bool:
        """Record a question and its answer; True, for it never waits."""
        open_ = self._log.state.open
        known = self._progress.find_answer(need, sandboxed=open_ is not None and open_.sandbox is not None)
        need, _ = await self._raise_need(need, in_hand.turn)
        if known is None:
            await self._assume_answer(need, in_hand)
            return True
        self._progress.pass_time(known.time)
        body, value = known.body, self._name_calls_anew(known, need)
        more: dict[str, Any] = {"usage": body.usage, "response": body.response, "model_calls": body.model_calls}
        if need.who == "person":
            more = {"grants": build_override(need, known.answer.choice)} if value is not None else {}
            more |= {"by": body.by}
        await self.record_answer(need, in_hand.turn, value, known.answer.error, at=known.answer.at, **more)
        return True

    async def ask_about_plan(self, need: Need) -> Reply | None:
        """Record a question about a plan, and what was answered; None where it was left open then."""
        progress = self._progress
        known = progress.plans.find_question(need)
        if known is not None:
            progress.begin_part(known.seq, known.time)
        elif not self._can_assume(need):
            raise NothingRecorded(f"the person is asked here about a plan ({need.key}), which nobody was then")
        asked = strip_request(need, self._blobs.put(strict_json.canonical(need.request)))
        await self._log.record(Draft(asked, "foregate"))
        if known is None:
            said = progress.assume("person", progress.assumed.person)
            value: Mapping[str, Json] | None = {"choice": said, "text": "", "by": "assumed"}
            by = None
        elif known.body is None:
            self._leave_open()
            return None
        else:
            value, by = known.body.answer.value, known.body.by
        bound = need.gate, need.who, need.key, need.digests, "", self.policy.hash
        answer = Answer(*bound, value, "", progress.now, need.expires_at)
        await self._log.record(Draft(NeedAnswered(answer=answer, by=by), "person"))
        return restore_reply(answer)

    def _can_assume(self, need: Need) -> bool:
        return self._progress.assumed.person in get_list(need.request, "answers")

    def _leave_open(self) -> None:
        """Leave a question open as it was then: it was cancelled, the log ends with it, or somebody resumed later."""
        step = self._progress.step
        if step is None:
            raise RecordingEnds
        if find_end(step) is not None:
            self._progress.cancel()

    def _name_calls_anew(self, known: RecordedAnswer, need: Need) -> Mapping[str, Json] | None:
        """Return a recorded value with what it says of single calls under the ids these have now."""
        value = known.answer.value
        if value is None or need.who != "person":
            return value
        then = dict(zip(known.need.calls, known.need.digests, strict=True))
        now = dict(zip(need.digests, need.calls, strict=True))
        changed: dict[str, Json] = dict(value)
        for name in ("calls", "named"):
            if isinstance(said := value.get(name), Mapping):
                changed[name] = {now[then[call]]: one for call, one in said.items() if then.get(call, "") in now}
        return changed

    async def _assume_answer(self, need: Need, in_hand: TurnInHand) -> None:
        said = self._progress.assume(need.who, _find_choice(need, self._progress.assumed.get_choice(need.who)))
        if not said:
            goes_on = f"--assume {need.who}={CHOICES[need.who][0]} goes on"
            if need.gate == "loop":
                goes_on = "--assume person=no stops its task"
            raise NothingRecorded(
                f"the {need.who} is asked here by `{need.gate}`, which nobody answered then ({goes_on})"
            )
        more: dict[str, Any] = {"usage": Usage()} if need.who != "person" else {"grants": build_override(need, said)}
        value, error = build_value(need, said, in_hand.facts), UNAVAILABLE if said == "unavailable" else ""
        await self.record_answer(need, in_hand.turn, value, error, **more)


def _find_choice(need: Need, said: str) -> str:
    """Return what is said to a question; the loop's own about a repeated call has words of its own for yes and no."""
    if need.gate != "loop" or not said:
        return said
    return "stop" if said == "no" else "anyway" if need.request.get("can_override") else ""
