"""What the calls of a plan would do, as far as can be told before: for the sheet and for the confirmed scope."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.session.session import Session
from foregate.agent.session.turn_builder import build_own_turn
from foregate.evidence.state.plan import PlanState
from foregate.evidence.state.task import name_step
from foregate.gates.plan_scope import find_effect_on, is_exact_only, is_wide, name_exact_call
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.task_plan import PlannedCall, PlanTask
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind


class CallPreview(Struct, frozen=True):
    """What one call of a task would do, judged by the world as it is now; earlier tasks may change that."""

    task: int
    place: int
    planned: PlannedCall
    facts: CallFacts

    @property
    def list_dangers(self) -> tuple[str, ...]:
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
    """What the tasks that are still to be done would do. `open_tasks` list no calls: a model fills them in."""

    calls: tuple[CallPreview, ...]
    open_tasks: tuple[PlanTask, ...]
    permissions: tuple[ScopeItem, ...] = ()
    """What a yes to the sheet covers of the tasks a model fills in."""

    @property
    def is_dangerous(self) -> bool:
        """Whether a call is dangerous, or what a task will call is not known yet."""
        return bool(self.open_tasks) or any(call.list_dangers for call in self.calls)

    @property
    def model_calls(self) -> int:
        """Requests to the execution model, when each task is filled in at the first try."""
        return len(self.open_tasks)

    def find_permission(self, task: int) -> ScopeItem | None:
        """Return what a yes covers of a task a model fills in, None where that is nothing."""
        return next((item for item in self.permissions if item.during == name_step(task)), None)

    def of(self, task: int) -> list[CallPreview]:
        """Return the calls of one task."""
        return [call for call in self.calls if call.task == task]


def preview_plan(session: Session, state: PlanState, uses: int) -> PlanPreview:
    """Look at what the open tasks of the plan would touch; a task of the session must be open.

    A yes covers `uses` changes of the file a task names that a model fills in.
    """
    ahead = list(iter_open_calls(state, session.catalogue))
    calls = tuple(call for _, _, call in ahead)
    facts = build_own_turn(session, session.state.seq, calls, "runner", session.state.seq).facts
    listed = tuple(
        CallPreview(task.id, place, task.calls[place], facts[call.id]) for task, place, call in ahead if place >= 0
    )
    leaves = (build_scope_item(task, facts[call.id], uses) for task, place, call in ahead if place < 0)
    filled = tuple(step.task for step in state.open if not step.task.calls)
    return PlanPreview(listed, filled, tuple(item for item in leaves if item is not None))


def iter_open_calls(state: PlanState, catalogue: Catalogue) -> Iterator[tuple[PlanTask, int, ToolCall]]:
    """Yield the calls the open tasks list and have still to make, each with its task and its place there.

    The likely calls of tasks that list none come after them, in place -1.
    """
    for step in state.open:
        for place in step.open_places:
            planned = step.task.calls[place]
            yield step.task, place, ToolCall.of(planned.tool, planned.arguments, id=f"plan.{step.task.id}.{place}")
    for task, call in list_likely_calls([step.task for step in state.open], catalogue):
        yield task, -1, call


def build_scope(goal: str, looked: PlanPreview, revision: int) -> PlanInForce:
    """Return what a person's yes to the sheet covers: each changing call exactly as it was shown, once.

    Of a task that lists no calls it covers the leave that was shown, where there is one.
    """
    items, classes = list(looked.permissions), {item.effect.value for item in looked.permissions}
    for call in looked.calls:
        facts = call.facts
        if not facts.changes or facts.spec is None:
            continue
        kind, digest = name_exact_call(facts)
        items.append(
            ScopeItem(facts.effect, kind, digest, step=name_step(call.task), tool=call.planned.tool, approved=True)
        )
        flags = ("external", "irreversible", "high_impact", "broad")
        classes |= {facts.effect.value, *(name for name in flags if getattr(facts, name))}
    return PlanInForce(revision, goal, tuple(items), classes=tuple(sorted(classes)))


_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_SEEN_AT_A_GLANCE = (Effect.CREATE, Effect.EDIT, Effect.DELETE)
"""Effects of which tool and target say enough; of a command, a message or a move they do not."""


def list_likely_calls(tasks: Sequence[PlanTask], catalogue: Catalogue) -> Iterator[tuple[PlanTask, ToolCall]]:
    """Yield the tasks without calls that name a built-in tool and the one file it changes, with that much of a call."""
    for task in tasks:
        spec = catalogue.get(task.action)
        if task.calls or not task.target or is_wide(task.target) or spec is None or spec.provenance != "builtin":
            continue
        if len(spec.targets) == 1 and spec.targets[0].kind in _PATHS and spec.targets[0].access.changes:
            yield task, ToolCall.of(spec.name, {spec.targets[0].parameter: task.target}, id=f"plan.{task.id}.target")


def build_scope_item(task: PlanTask, facts: CallFacts, uses: int) -> ScopeItem | None:
    """Return the leave a yes to the task gives, None where it gives none.

    Only for one file of the workspace, neither protected nor beyond taking back, changed by nothing but the tool the
    task names, and only while the task runs, `uses` times.
    """
    resources = facts.changed_resources
    if not uses or facts.risky or facts.survey.problem or len(resources) != 1 or is_exact_only(facts):
        return None
    (resource,) = resources
    effect, name = find_effect_on(resource, facts), name_step(task.id)
    if resource.kind is not ResourceKind.FILE or resource.protected or effect not in _SEEN_AT_A_GLANCE:
        return None
    item = ScopeItem(effect, resource.kind, resource.id, uses, step=name, tool=facts.call.name)
    return replace(item, approved=True, exact=True, during=name)
