"""An accepted plan as a scope: what it covers, and what covering uses up."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.commands import is_open_ended
from foregate.policy.risk.facts import effect_of_access
from foregate.policy.risk.globs import matches
from foregate.schemas.plan import Plan, PlanInForce, PlannedStep, ScopeItem
from foregate.schemas.tool_call import CallFacts, SurveyedResource
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, worse_of

_BY_ACCESS = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE)
_WILD = "*?["
_DIGEST = "sha256:"


def build_call_items(facts: CallFacts, step: str) -> tuple[ScopeItem, ...]:
    """Return the items that cover exactly this call once; one without a resource is covered by its digest."""
    resources = find_changed_resources(facts)
    if is_exact_only(facts) or not resources:
        return (ScopeItem(facts.effect, *name_exact_call(facts), step=step, tool=facts.call.name),)
    tool = facts.call.name
    return tuple(
        ScopeItem(
            find_effect_on(r, facts), r.kind, r.id, step=step, tool=tool, exact=True, folder=find_folder(facts, r.kind)
        )
        for r in resources
    )


def build_step_item(
    step: PlannedStep, number: str, catalogue: Catalogue, first: CallFacts, policy: Policy
) -> ScopeItem | None:
    """Return what a planned step covers: null effect is the tool's strongest, null uses is one.

    A step cannot name a folder, so its command runs where `first`, the call the plan is for, does.
    A step that only observes, names an unknown tool, or a tool whose calls have no target parameter covers nothing,
    nor does one that names a call by its digest, which nobody could read. A command whose words do not say what would
    run is covered in exactly these words, where any other is with further ones.
    """
    spec = catalogue.get(step.tool)
    if spec is None or not spec.targets or not step.target or step.target.startswith(_DIGEST):
        return None
    effect = Effect(step.effect) if step.effect is not None else spec.effect
    if not effect.changes or effect is Effect.UNKNOWN:
        return None
    kind = next((t.kind for t in spec.targets if t.access.changes), spec.targets[0].kind)
    where = find_folder(first, kind)
    pattern = step.target.removeprefix("./").rstrip("/") or step.target
    item = ScopeItem(effect, kind, pattern, step.uses or 1, step=number, tool=step.tool, folder=where)
    return bind_to_words(item, policy) if kind is ResourceKind.PROCESS else item


def bind_to_words(item: ScopeItem, policy: Policy) -> ScopeItem:
    """Return a command's item, bound to exactly its words where they leave open what would run."""
    try:
        words = shlex.split(item.pattern)
    except ValueError:
        return item
    return replace(item, pattern=shlex.join(words), exact=True) if is_open_ended(words, policy) else item


def list_exact_commands(plan: PlanInForce) -> list[str]:
    """Return the commands that the last revision of a plan covers in exactly their words, but for its first call."""
    ours, first = f"plan-v{plan.revision}-step-", f"plan-v{plan.revision}-step-1"
    items = [item for item in plan.items if item.exact and item.kind is ResourceKind.PROCESS]
    return [item.pattern for item in items if item.step.startswith(ours) and item.step != first]


def put_in_force(
    plan: Plan, facts: CallFacts, catalogue: Catalogue, before: PlanInForce | None, policy: Policy
) -> PlanInForce:
    """Return the plan in force once `plan` is accepted for the call: its scope, or the widened scope."""
    revision = before.revision + 1 if before else 1
    items = list(build_call_items(facts, f"plan-v{revision}-step-1"))
    steps = plan.planned_steps or []
    for number, step in enumerate(steps[1:], start=2):
        item = build_step_item(step, f"plan-v{revision}-step-{number}", catalogue, facts, policy)
        if item is not None:
            items.append(item)
    if steps and steps[0].uses and steps[0].uses > 1:
        items = [replace(item, uses=steps[0].uses) if n == 0 else item for n, item in enumerate(items)]
    classes = tuple(sorted({*find_risk_classes(facts, items), *(before.classes if before else ())}))
    return PlanInForce(
        revision,
        before.goal if before else plan.goal,
        (*(before.items if before else ()), *items),
        plan.requires_verification or (before is not None and before.requires_verification),
        (*(before.criteria if before else ()), *plan.success_criteria),
        before.amendments + 1 if before else 0,
        classes,
    )


def find_risk_classes(facts: CallFacts, items: list[ScopeItem]) -> set[str]:
    """Return the classes of risk a scope brings: its effects, and what makes the call risky."""
    classes = {item.effect.value for item in items}
    for name in ("external", "irreversible", "high_impact", "broad"):
        if getattr(facts, name):
            classes.add(name)
    if any(is_wide(item.pattern) for item in items):
        classes.add("wide_pattern")
    return classes


def find_covering_items(
    facts: CallFacts,
    plan: PlanInForce,
    spent: Mapping[int, int],
    *,
    same_tool: bool,
    approved: bool = False,
    during: str = "",
) -> tuple[int, ...] | None:
    """Return the items (by index) that cover the call, None when something is not covered.

    `spent` counts uses by earlier calls of the same response; `same_tool` binds items to their step's tool; with
    `approved` only items a person said yes to count. `during` is the task of a confirmed plan that runs.
    """
    open_ = [
        (index, item)
        for index, item in enumerate(plan.items)
        if item.uses > item.used + spent.get(index, 0)
        and not ((same_tool or item.during) and item.tool and item.tool != facts.call.name)
        and (not item.during or (item.during == during and not facts.risky))
        and (item.approved or not approved)
    ]
    exact = find_first_item(open_, facts.effect, *name_exact_call(facts))
    if exact is not None:
        return (exact,)
    resources = find_changed_resources(facts)
    if not resources or is_exact_only(facts):
        return None
    used: list[int] = []
    for resource in resources:
        folder = find_folder(facts, resource.kind)
        index = find_first_item(open_, find_effect_on(resource, facts), resource.kind, resource.id, folder)
        if index is None:
            return None
        used.append(index)
    return tuple(dict.fromkeys(used))


def find_first_item(
    items: Sequence[tuple[int, ScopeItem]], effect: Effect, kind: ResourceKind, name: str, folder: str = ""
) -> int | None:
    """Return the index of the first item that covers an effect on a resource, None when none does."""
    for index, item in items:
        if is_covered_by(item, effect, kind, name, folder):
            return index
    return None


def name_exact_call(facts: CallFacts) -> tuple[ResourceKind, str]:
    """Return the name under which a scope covers exactly this call."""
    return ResourceKind.OTHER, f"{_DIGEST}{facts.call.digest}"


def is_covered_by(item: ScopeItem, effect: Effect, kind: ResourceKind, name: str, folder: str = "") -> bool:
    """Whether one item covers an effect on a resource; an exact call is compared by its digest alone.

    The same words elsewhere are another command, so the `folder` it runs in must be the item's.
    """
    if item.kind is not kind:
        return False
    if item.pattern.startswith(_DIGEST) or name.startswith(_DIGEST):
        return item.pattern == name and item.effect is effect
    if not item.effect.covers(effect) or item.folder != folder:
        return False
    if item.exact:
        return item.pattern == name
    if kind is ResourceKind.PROCESS:
        try:
            wanted, actual = shlex.split(item.pattern), shlex.split(name)
        except ValueError:
            return False
        return bool(wanted) and actual[: len(wanted)] == wanted
    return item.pattern == name or (is_wide(item.pattern) and matches(item.pattern, name))


def find_changed_resources(facts: CallFacts) -> list[SurveyedResource]:
    """Return the resources the call would change; for a command its own argument vector."""
    return [resource for resource in facts.resources if resource.access.changes]


def find_effect_on(resource: SurveyedResource, facts: CallFacts) -> Effect:
    """Return what the call does to one resource; a call that does more than its resources say does that to all."""
    access = effect_of_access(resource)
    return access if facts.effect in _BY_ACCESS else worse_of(access, facts.effect)


def is_exact_only(facts: CallFacts) -> bool:
    """Whether only the exact call is covered: a shell line, an effect nobody knows, a name that looks like a digest."""
    if facts.effect is Effect.UNKNOWN or (facts.survey.command is not None and bool(facts.survey.command.shell)):
        return True
    return any(resource.id.startswith(_DIGEST) for resource in find_changed_resources(facts))


def find_folder(facts: CallFacts, kind: ResourceKind = ResourceKind.PROCESS) -> str:
    """Return the folder a command runs in, "" for the workspace's root and for whatever is no process."""
    command = facts.survey.command
    return command.folder if command is not None and kind is ResourceKind.PROCESS else ""


def has_own_folder(facts: CallFacts) -> bool:
    """Whether a command says where it runs: the same words elsewhere are another command."""
    return facts.survey.command is not None and len(facts.resources) > 1


def is_wide(pattern: str) -> bool:
    """Whether a pattern could match more than one name."""
    return any(char in pattern for char in _WILD)
