"""An accepted plan as a scope: what it covers, and what covering uses up."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.commands import is_open_ended
from foregate.policy.risk.globs import matches
from foregate.policy.risk.http import read_host
from foregate.policy.risk.mandate import hash_values
from foregate.schemas.plan import Plan, PlanInForce, PlannedStep, ScopeItem
from foregate.schemas.tool_call import CallFacts, SurveyedResource
from foregate.schemas.tool_spec import Catalogue, Effect, ResourceKind, worse_of

_BY_ACCESS = (Effect.CREATE, Effect.EDIT, Effect.MOVE, Effect.DELETE)
_WILD = "*?["
_DIGEST = "sha256:"
_NAME_IT = (
    "which do not say what would run; for any further words name the script, module or subcommand, as in "
    "`python3 -m pytest`"
)
# Commands that a sentence names.
_SHOWN = 3
# Characters it shows of each.
_LENGTH = 60


def build_call_items(facts: CallFacts, step: str) -> tuple[ScopeItem, ...]:
    """Return the items that cover exactly this call once; one without a resource is covered by its digest."""
    tool = facts.call.name
    if is_exact_only(facts) or not facts.changed_resources:
        return (ScopeItem(facts.effect, *name_exact_call(facts), step=step, tool=tool),)
    model = ScopeItem(facts.effect, ResourceKind.OTHER, "", step=step, tool=tool, exact=True, values=hash_values(facts))
    return tuple(
        replace(model, effect=find_effect_on(r, facts), kind=r.kind, pattern=r.id, folder=find_folder(facts, r.kind))
        for r in facts.changed_resources
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
    pattern = step.target.removeprefix("./").rstrip("/") or step.target
    folder = find_folder(first, kind)
    item = ScopeItem(effect, kind, pattern, step.uses or 1, step=number, tool=step.tool, folder=folder)
    if kind is not ResourceKind.PROCESS or (words := split_words(pattern)) is None:
        return item
    return replace(item, pattern=shlex.join(words), exact=True) if is_open_ended(words, policy) else item


def list_exact_commands(plan: PlanInForce) -> list[str]:
    """Return the commands that the last revision of a plan covers in exactly their words, but for its first call."""
    ours, first = f"plan-v{plan.revision}-step-", f"plan-v{plan.revision}-step-1"
    items = [item for item in plan.items if item.exact and item.kind is ResourceKind.PROCESS]
    return [item.pattern for item in items if item.step.startswith(ours) and item.step != first]


def describe_remedy(commands: Sequence[str]) -> str:
    """Return what to write instead of commands a plan covers in exactly their words, "" where there are none."""
    if not commands:
        return ""
    named = ", ".join(f"`{command[:_LENGTH]}`" for command in commands[:_SHOWN])
    many = f" and {len(commands) - _SHOWN} more" if len(commands) > _SHOWN else ""
    return f"; of {named}{many} it covers exactly these words, {_NAME_IT}"


def put_in_force(
    plan: Plan, facts: CallFacts, catalogue: Catalogue, before: PlanInForce | None, policy: Policy
) -> PlanInForce:
    """Return the plan in force once `plan` is accepted for the call: its scope, or the widened scope."""
    before = before or PlanInForce(0, plan.goal, (), amendments=-1)
    revision, steps = before.revision + 1, plan.planned_steps or []
    items = list(build_call_items(facts, f"plan-v{revision}-step-1"))
    if steps and steps[0].uses and steps[0].uses > 1:
        items[0] = replace(items[0], uses=steps[0].uses)
    for number, step in enumerate(steps[1:], start=2):
        item = build_step_item(step, f"plan-v{revision}-step-{number}", catalogue, facts, policy)
        items += [item] if item is not None else []
    return PlanInForce(
        revision,
        before.goal,
        (*before.items, *items),
        plan.requires_verification or before.requires_verification,
        (*before.criteria, *plan.success_criteria),
        before.amendments + 1,
        tuple(sorted({*find_risk_classes(facts, items), *before.classes})),
        risks=(*before.risks, *plan.risky_actions) if policy.critique.level == "doubt" else (),
    )


def find_risk_classes(facts: CallFacts, items: list[ScopeItem]) -> set[str]:
    """Return the classes of risk a scope brings: its effects, and what makes the call risky."""
    of_call = {name for name in ("external", "irreversible", "high_impact", "broad") if getattr(facts, name)}
    wide = {"wide_pattern"} if any(is_wide(item.pattern) for item in items) else set[str]()
    return {item.effect.value for item in items} | of_call | wide


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
        if item.terms is None
        and item.uses > item.used + spent.get(index, 0)
        and not ((same_tool or item.during) and item.tool and item.tool != facts.call.name)
        and (not item.during or (item.during == during and not facts.risky))
        and (item.approved or not approved)
        and item.scripts in ("", find_scripts(facts))
        and item.values in ("", hash_values(facts))
    ]
    exact = find_first_item(open_, facts.effect, *name_exact_call(facts))
    if exact is not None:
        return (exact,)
    if not facts.changed_resources or is_exact_only(facts):
        return None
    used: list[int] = []
    for resource in facts.changed_resources:
        folder = find_folder(facts, resource.kind)
        index = find_first_item(open_, find_effect_on(resource, facts), resource.kind, resource.id, folder)
        if index is not None:
            used.append(index)
        elif resource.kind is not ResourceKind.HOST or not has_covered_page(resource.id, open_, facts):
            return None
    return tuple(dict.fromkeys(used))


def has_covered_page(host: str, items: Sequence[tuple[int, ScopeItem]], facts: CallFacts) -> bool:
    """Whether a call reaches a host only by addresses there, and an item covers each of them by itself."""
    pages = [one for one in facts.changed_resources if one.kind is ResourceKind.URL and read_host(one.id) == host]
    covered = (find_first_item(items, find_effect_on(one, facts), one.kind, one.id) for one in pages)
    return bool(pages) and all(index is not None for index in covered)


def find_scripts(facts: CallFacts) -> str:
    """Return the hash over the scripts a call runs by name, "" for none."""
    return facts.survey.command.scripts if facts.survey.command is not None else ""


def approve_item(item: ScopeItem, shown: Iterable[CallFacts], refused: Iterable[CallFacts] = ()) -> ScopeItem:
    """Return an item that a person said yes to; one that covers a command they were shown is bound to its script.

    One that covers a call they `refused` is as it was, and so is one made without a look at any call.
    """
    if item.terms is not None or any(is_item_for(item, facts) for facts in refused):
        return item
    for facts in shown:
        if is_item_for(item, facts):
            return replace(item, approved=True, scripts=find_scripts(facts))
    return replace(item, approved=True)


def is_item_for(item: ScopeItem, facts: CallFacts) -> bool:
    """Whether an item covers anything that a call changes, or exactly this call."""
    things = [(find_effect_on(r, facts), r.kind, r.id, find_folder(facts, r.kind)) for r in facts.changed_resources]
    things.append((facts.effect, *name_exact_call(facts), ""))
    return any(is_covered_by(item, *thing) for thing in things)


def find_first_item(
    items: Sequence[tuple[int, ScopeItem]], effect: Effect, kind: ResourceKind, name: str, folder: str = ""
) -> int | None:
    """Return the index of the first item that covers an effect on a resource, None when none does."""
    return next((index for index, item in items if is_covered_by(item, effect, kind, name, folder)), None)


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
        return has_leading_words(name, item.pattern)
    return item.pattern == name or (is_wide(item.pattern) and matches(item.pattern, name))


def has_leading_words(command: str, leading: str) -> bool:
    """Whether a command begins with all of these words; never where either cannot be split."""
    wanted, actual = split_words(leading), split_words(command)
    return bool(wanted) and actual is not None and actual[: len(wanted or ())] == wanted


def split_words(command: str) -> list[str] | None:
    """Return the words of a command, None where its quotes do not close."""
    try:
        return shlex.split(command)
    except ValueError:
        return None


def find_effect_on(resource: SurveyedResource, facts: CallFacts) -> Effect:
    """Return what the call does to one resource; a call that does more than its resources say does that to all."""
    access = resource.effect
    return access if facts.effect in _BY_ACCESS else worse_of(access, facts.effect)


def is_exact_only(facts: CallFacts) -> bool:
    """Whether only the exact call is covered: a shell line, an unknown effect, a name that looks like a digest."""
    if facts.effect is Effect.UNKNOWN or (facts.survey.command is not None and bool(facts.survey.command.shell)):
        return True
    return any(resource.id.startswith(_DIGEST) for resource in facts.changed_resources)


def find_folder(facts: CallFacts, kind: ResourceKind = ResourceKind.PROCESS) -> str:
    """Return the folder a command runs in, "" for the workspace's root and for whatever is no process."""
    command = facts.survey.command
    return command.folder if command is not None and kind is ResourceKind.PROCESS else ""


def has_own_folder(facts: CallFacts) -> bool:
    """Whether a command says where it runs: the same words elsewhere are another command."""
    return facts.survey.command is not None and len(facts.resources) > 1


def is_wide(pattern: str) -> bool:
    return any(char in pattern for char in _WILD)
