"""What the calls of a plan would do, as far as can be told before: for the sheet and for the confirmed scope."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from foregate.agent.planning.asking import sentence
from foregate.agent.planning.configuration import Configuration
from foregate.agent.planning.planner import GATE, Planning
from foregate.agent.session.session import Session
from foregate.evidence.state.plan import PlanState
from foregate.evidence.state.task import name_step
from foregate.gates.support.plan_scope import find_effect_on, is_exact_only, is_wide, name_exact_call
from foregate.policy.risk.facts import is_deleting
from foregate.schemas import strict_json
from foregate.schemas.judgement import Need
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlannedCall, PlanTask
from foregate.schemas.tool_call import CallFacts, Survey, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind

_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_SEEN_AT_A_GLANCE = (Effect.CREATE, Effect.EDIT, Effect.DELETE)
"""Effects that tool and target describe well enough; a command, a message or a move they do not."""


class CallPreview(Struct, frozen=True):
    """What one call of a task would do, judged by the world as it is now; earlier tasks may change that.

    `deletes` says that a command starts a program that deletes, in whatever part of its line.
    """

    task: int
    planned: PlannedCall
    facts: CallFacts
    deletes: bool = False

    @property
    def dangers(self) -> tuple[str, ...]:
        """Why a person should look twice, none for what is harmless."""
        facts = self.facts
        found = (
            (facts.spec is None, "its tool is unknown"),
            (facts.changes and facts.external, "it reaches beyond the workspace"),
            (facts.changes and facts.irreversible, "it cannot be undone"),
            (facts.changes and facts.high_impact, "it has a high impact"),
            (facts.changes and facts.broad, "it touches much at once"),
        )
        return tuple(why for yes, why in found if yes)


class PlanPreview(Struct, frozen=True):
    """What the tasks that are still to be done would do. `open_tasks` list no calls: a model fills them in.

    `permissions` is what a yes to the sheet covers of those, `surveys` what looking at all of it found.
    """

    calls: tuple[CallPreview, ...]
    open_tasks: tuple[PlanTask, ...]
    permissions: tuple[ScopeItem, ...] = ()
    surveys: tuple[Survey, ...] = ()

    @property
    def is_dangerous(self) -> bool:
        """Whether a call is dangerous, or what a task will call is not known yet."""
        return bool(self.open_tasks) or any(call.dangers for call in self.calls)

    def find_permission(self, task: int) -> ScopeItem | None:
        """Return what a yes covers of a task a model fills in, None where that is nothing."""
        return next((item for item in self.permissions if item.during == name_step(task)), None)

    def of(self, task: int) -> list[CallPreview]:
        """Return the calls of one task."""
        return [call for call in self.calls if call.task == task]


def preview_plan(session: Session, state: PlanState, uses: int) -> PlanPreview:
    """Look at what open tasks would touch, in a task of the session; a yes covers `uses` changes of a named file."""
    ahead = list(iter_open_calls(state, session.catalogue))
    calls = tuple(call for _, _, call in ahead)
    facts = session.turns.build_own_turn(session.state.seq, calls, "runner", session.state.seq).facts
    listed = tuple(
        CallPreview(task.id, planned, facts[call.id], is_deleting(facts[call.id].survey.command, session.policy))
        for task, planned, call in ahead
        if planned
    )
    leaves = (build_scope_item(task, facts[call.id], uses) for task, planned, call in ahead if not planned)
    filled = tuple(step.task for step in state.open if not step.task.calls)
    surveys = tuple(facts[call.id].survey for call in calls)
    return PlanPreview(listed, filled, tuple(item for item in leaves if item is not None), surveys)


def iter_open_calls(state: PlanState, catalogue: Catalogue) -> Iterator[tuple[PlanTask, PlannedCall | None, ToolCall]]:
    """Yield the calls the open tasks list and have still to make, each with its task and as it is listed there.

    After them come the likely calls of tasks that list none, but name a built-in tool and the one file it changes.
    """
    for step in state.open:
        for place in step.open_places:
            planned = step.task.calls[place]
            call = ToolCall.of(planned.tool, planned.arguments, id=f"plan.{step.task.id}.{place}")
            yield step.task, planned, call
    for task in [step.task for step in state.open]:
        spec = catalogue.get(task.action)
        if task.calls or not task.target or is_wide(task.target) or spec is None or spec.provenance != "builtin":
            continue
        if len(spec.targets) == 1 and spec.targets[0].kind in _PATHS and spec.targets[0].access.changes:
            likely = {spec.targets[0].parameter: task.target}
            yield task, None, ToolCall.of(spec.name, likely, id=f"plan.{task.id}.target")


def build_scope_item(task: PlanTask, facts: CallFacts, uses: int) -> ScopeItem | None:
    """Return the leave a yes to the task gives, None where it gives none.

    Only for one file of the workspace, neither protected nor beyond taking back, changed by nothing but the tool the
    task names, and only while the task runs, `uses` times.
    """
    resources = facts.changed_resources
    if not uses or facts.risky or facts.survey.problem or len(resources) != 1 or is_exact_only(facts):
        return None
    (resource,) = resources
    effect, name, tool = find_effect_on(resource, facts), name_step(task.id), facts.call.name
    if resource.kind is not ResourceKind.FILE or resource.protected or effect not in _SEEN_AT_A_GLANCE:
        return None
    return ScopeItem(effect, resource.kind, resource.id, uses, 0, name, tool, approved=True, exact=True, during=name)


def build_scope(goal: str, looked: PlanPreview, revision: int) -> PlanInForce:
    """Return what a yes to the sheet covers: each listed change as shown, once, and the leave shown for other tasks."""
    items, classes = list(looked.permissions), {item.effect.value for item in looked.permissions}
    for call in looked.calls:
        facts = call.facts
        if not facts.changes or facts.spec is None:
            continue
        step, tool = name_step(call.task), call.planned.tool
        items.append(ScopeItem(facts.effect, *name_exact_call(facts), step=step, tool=tool, approved=True))
        flags = ("external", "irreversible", "high_impact", "broad")
        classes |= {facts.effect.value, *(name for name in flags if getattr(facts, name))}
    return PlanInForce(revision, goal, tuple(items), classes=tuple(sorted(classes)))


def should_confirm(configuration: Configuration, state: PlanState, looked: PlanPreview) -> bool:
    """Whether a person must confirm: a further plan always; one that says it needs none is believed if harmless."""
    wanted = {"always": True, "dangerous": False, "as_planned": state.current_plan.requires_confirmation}
    return state.number > 1 or looked.is_dangerous or wanted[configuration.execution.confirmation]


def build_plan_need(state: PlanState, looked: PlanPreview, edited: Planning, *, most: int = 1, uses: int = 0) -> Need:
    """Return the question whether a plan may run, with what was found about what the person `edited`."""
    request: dict[str, Json] = {
        "question": f"Run this plan of {len(state.steps)} tasks?",
        "answers": ["yes", "step", "edit", "no"],
        "plan": strict_json.dump(state.current_plan),
        "digest": state.digest,
        "number": state.number,
        "most": most,
        "uses": uses,
        "calls": [describe_call(call) for call in looked.calls],
        "open_tasks": [task.id for task in looked.open_tasks],
    }
    for name, found in (("defects", edited.defects), ("warnings", edited.warnings)):
        if found:
            request[name] = [sentence(one) for one in found]
    return Need(GATE, "person", f"confirm:{state.number}", (), (state.digest,), request)


def describe_call(call: CallPreview) -> Json:
    """Return what a person must know of a planned call before saying yes."""
    facts = call.facts
    return {
        "task": call.task,
        "tool": call.planned.tool,
        "target": facts.target,
        "arguments": dict(call.planned.arguments),
        "effect": facts.effect.value,
        "irreversible": facts.changes and facts.irreversible,
        "dangers": list(call.dangers),
        **({"deletes": True} if call.deletes else {}),
    }


async def ask_and_record(session: Session, need: Need) -> Reply | None:
    """Ask the person and record the answer; None where nobody is here, or they do not answer now: it stays open."""
    return await session.interaction.ask_about_plan(need) if session.person is not None else None
