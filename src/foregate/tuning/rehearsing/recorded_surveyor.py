"""Eyes that see what was seen then; what the session itself knows of it is what it knows now."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from foregate.agent.survey.argument_values import find_values
from foregate.agent.survey.remote_survey import OPERANDS
from foregate.evidence.state.recorded_turns import InForce
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.resurvey import resurvey
from foregate.schemas.tool_call import EvidenceSeen, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, ToolSpec
from foregate.tuning.rehearsing.family_replay import PolicyAgain
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_plan import PREVIEW
from foregate.tuning.rehearsing.recorded_steps import NothingRecorded

_REMEDY = ".remedy"
_NEVER_JUDGED = ("not_run_too_many", "not_run_after_failure", "not_run_dry_run")
_LOOKED_AT = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)


class RecordedSurveyor:
    """Returns recorded surveys, as another policy would have had them made; looks at nothing."""

    def __init__(self, progress: Progress, policies: PolicyAgain, policy: Policy, catalogue: Catalogue) -> None:
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
        return find_values(call, spec, survey, state, self._policy) if spec.may_need_somebody else survey


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
