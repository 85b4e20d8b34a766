"""What a person's yes covers of a task whose calls a model fills in: its tool on its target, and nothing wider."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from foregate.evidence.state.task import name_step
from foregate.gates.plan_scope import find_changed_resources, find_effect_on, is_exact_only, is_wide
from foregate.schemas.plan import ScopeItem
from foregate.schemas.task_plan import PlanTask
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind

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
    resources = find_changed_resources(facts)
    if not uses or facts.risky or facts.survey.problem or len(resources) != 1 or is_exact_only(facts):
        return None
    (resource,) = resources
    effect, name = find_effect_on(resource, facts), name_step(task.id)
    if resource.kind is not ResourceKind.FILE or resource.protected or effect not in _SEEN_AT_A_GLANCE:
        return None
    item = ScopeItem(effect, resource.kind, resource.id, uses, step=name, tool=facts.call.name)
    return replace(item, approved=True, exact=True, during=name)
