"""Applying a workspace's own file: each key joined with what is in force, loosening refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from foregate.policy.policy import Policy
from foregate.policy.risk.http import is_host_match
from foregate.policy.source.layers import RULES, Layer, Tree, get_rule_id
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path, refuse
from foregate.schemas.tool_spec import Effect

Outcome = Literal["tightened", "same", "ignored", "loosens"]


@dataclass(frozen=True, slots=True)
class Direction:
    """What tighter means for one key: `join` takes (default, in force, wanted) and returns what holds, and how.

    `ignored` is a value looser than what is in force but no looser than the default: what is in force stays.
    """

    words: str
    join: Callable[[Data, Data, Data], tuple[Data, Outcome]]


def build_scalar_direction(words: str, tighter: Callable[[Data, Data], bool]) -> Direction:
    """Return the direction of a single value; `tighter(old, new)` says whether new is as tight or tighter."""

    def join_scalar(default: Data, old: Data, new: Data) -> tuple[Data, Outcome]:
        if old == new:
            return old, "same"
        if tighter(old, new):
            return new, "tightened"
        return old, "ignored" if default == new or tighter(default, new) else "loosens"

    return Direction(words, join_scalar)


def build_order_direction(*values: Data) -> Direction:
    """Return the direction of an enumeration, from loosest to tightest."""
    rank = {value: place for place, value in enumerate(values)}
    names = " < ".join(f"`{str(value).lower()}`" for value in values)
    return build_scalar_direction(
        f"towards the right of {names}", lambda old, new: rank.get(new, -1) >= rank.get(old, len(rank))
    )


def grow_list(default: Data, old: Data, new: Data) -> tuple[Data, Outcome]:
    """Add what is new to a list."""
    more = [entry for entry in new if entry not in old]
    return [*old, *more], "tightened" if more else "same"


def build_shrinking_join(covers: Callable[[Data, Data], bool]) -> Callable[[Data, Data, Data], tuple[Data, Outcome]]:
    """Return the join that keeps of a list only what both have; a new entry that nothing covers loosens."""

    def join_lists(default: Data, old: Data, new: Data) -> tuple[Data, Outcome]:
        kept = [entry for entry in new if any(covers(known, entry) for known in old)]
        extra = [entry for entry in new if entry not in kept]
        if any(not any(covers(known, entry) for known in default or ()) for entry in extra):
            return old, "loosens"
        if sorted(map(str, kept)) == sorted(map(str, old)):
            return old, "same"
        return kept, "tightened"

    return join_lists


def is_host_covered(known: str, wanted: str) -> bool:
    """Whether everything `wanted` stands for is within `known`."""
    if wanted.startswith("*."):
        return known in ("*", wanted) or (known.startswith("*.") and wanted.endswith(known[1:]))
    return known == wanted or (wanted != "*" and is_host_match(known, wanted))


def remove_entry(default: Data, old: Data, new: Data) -> tuple[Data, Outcome]:
    """Take an entry out, or leave it as it is."""
    if new == old:
        return old, "same"
    return (None, "tightened") if new is None else (old, "loosens")


def is_effect_tighter(old: Data, new: Data) -> bool:
    """Whether an effect is at least as bad; where the operator says none, only the worst is certain to be."""
    ranks = [effect.value for effect in Effect]
    if old is None:
        return bool(new == Effect.UNKNOWN.value)
    return new in ranks and ranks.index(new) >= ranks.index(old)


LOWER = build_scalar_direction("a lower number", lambda old, new: new <= old)
HIGHER = build_scalar_direction("a higher number", lambda old, new: new >= old)
POSITIVE = build_scalar_direction("a lower number, at least 1", lambda old, new: 1 <= new <= old)
LIMIT = build_scalar_direction(
    "a lower number; 0 means unlimited", lambda old, new: new != 0 and (old == 0 or new <= old)
)
GROWS = Direction("further entries, which are added", grow_list)
SHRINKS = Direction("fewer entries", build_shrinking_join(lambda known, wanted: bool(known == wanted)))
HOSTS = Direction("fewer or narrower hosts", build_shrinking_join(is_host_covered))
REMOVES = Direction("`null`, which takes the entry out", remove_entry)
MODE = build_order_direction("off", "shadow", "enforce")
TRUE = build_order_direction(False, True)
FALSE = build_order_direction(True, False)
AT_RISK = build_scalar_direction("`true`", lambda old, new: new is True)
AT_WORST = build_scalar_direction("`false`", lambda old, new: new is False)
ADVICE = build_order_direction("proceed", "ask", "hold")

TIGHTER: dict[str, Direction] = {
    "version": build_order_direction(1),
    "holds": build_order_direction("call", "whole_response"),
    "limits.turns": LIMIT,
    "limits.model_calls": LIMIT,
    "limits.tool_calls": LIMIT,
    "limits.tokens": LIMIT,
    "limits.cost": LIMIT,
    "limits.wall_clock": LIMIT,
    "limits.calls_per_response": LIMIT,
    "limits.identical_changes": LIMIT,
    "limits.identical_observations": LIMIT,
    "limits.repeated_holds": LIMIT,
    "limits.needs_per_gate": LIMIT,
    "limits.parallel_calls": POSITIVE,
    "limits.child_depth": LIMIT,
    "scope.max_resources": LOWER,
    "validity.closed_arguments": build_order_direction("builtin", "all"),
    "validity.max_bytes": POSITIVE,
    "validity.max_depth": POSITIVE,
    "validity.max_references": POSITIVE,
    "rules.mode": MODE,
    "rules.unmatched": build_order_direction("allow", "ask", "deny"),
    "rules.refused_before": TRUE,
    "narration.mode": MODE,
    "narration.scope": build_order_direction("risky", "first_side_effect", "first_response"),
    "narration.min_chars": HIGHER,
    "drift.mode": MODE,
    "drift.trigger": build_order_direction("contract", "no_mutation_no_observation"),
    "drift.lasts": build_order_direction("request", "task"),
    "uncertainty.mode": MODE,
    "uncertainty.threshold": LOWER,
    "evidence.mode": MODE,
    "plan.mode": MODE,
    "plan.due": build_order_direction("risky", "first_side_effect"),
    "plan.depth": build_order_direction("top_level", "every"),
    "plan.changed_resources": LIMIT,
    "plan.binding": build_order_direction("first_action", "scope", "steps"),
    "plan.max_amendments": POSITIVE,
    "plan.max_bytes": POSITIVE,
    "plan.on_unavailable.dangerous": ADVICE,
    "plan.on_unavailable.other": ADVICE,
    "critique.mode": MODE,
    "critique.level": build_order_direction("off", "plan", "call"),
    "critique.max_bytes": POSITIVE,
    "critique.risk": LOWER,
    "critique.uncertainty": LOWER,
    "critique.on_unavailable.dangerous": ADVICE,
    "critique.on_unavailable.other": ADVICE,
    "critique.on_invalid.dangerous": ADVICE,
    "critique.on_invalid.other": ADVICE,
    "critique.on_budget_exhausted": build_order_direction("proceed", "ask"),
    "approval.mode": build_order_direction("scope", "each", "never"),
    "approval.reads": build_order_direction("free", "ask"),
    "approval.expires": LIMIT,
    "postlude.mode": build_order_direction("off", "enforce"),
    "tools.*.effect": build_scalar_direction("a more dangerous effect, or `unknown`", is_effect_tighter),
    "tools.*.read_only": AT_WORST,
    "tools.*.external_side_effect": AT_RISK,
    "tools.*.needs_approval": AT_RISK,
    "tools.*.idempotent": AT_WORST,
    "tools.*.high_impact_write": AT_RISK,
    "tools.*.reversible": AT_WORST,
    "tools.*.personal_memory": AT_WORST,
    "commands.read_only.*": REMOVES,
    "commands.read_only.*.options": SHRINKS,
    "commands.read_only.*.valued": SHRINKS,
    "commands.read_only.*.beneath": GROWS,
    "commands.read_only.*.operands": FALSE,
    "commands.wrappers": GROWS,
    "commands.open_ended": GROWS,
    "commands.execute_command": build_order_direction("run_shell", "run_command"),
    "commands.timeout": POSITIVE,
    "commands.environment": SHRINKS,
    "http.hosts": HOSTS,
    "http.timeout": POSITIVE,
    "http.max_bytes": POSITIVE,
    "mcp.start_timeout": POSITIVE,
    "mcp.call_timeout": POSITIVE,
    "mcp.stop_timeout": POSITIVE,
    "mcp.restarts": LOWER,
    "mcp.backoff": HIGHER,
    "mcp.max_tools": POSITIVE,
    "mcp.max_description": POSITIVE,
    "mcp.max_definition": POSITIVE,
    "mcp.max_depth": POSITIVE,
    "mcp.max_message": POSITIVE,
    "mcp.max_traffic": POSITIVE,
    "mcp.max_result": POSITIVE,
    "mcp.max_stderr": POSITIVE,
    "mcp.environment": SHRINKS,
    "serving.approvals": build_order_direction("caller", "deny"),
    "serving.max_agents": POSITIVE,
    "serving.max_waiting": POSITIVE,
    "serving.max_message": POSITIVE,
    "serving.max_deadline": POSITIVE,
    "serving.ping": POSITIVE,
    "serving.away": LOWER,
    "runtime.declarations": build_order_direction("believe", "raise"),
    "runtime.timeout": POSITIVE,
    "runtime.patience": LOWER,
    "runtime.backoff": HIGHER,
    "runtime.max_tools": POSITIVE,
    "runtime.max_message": POSITIVE,
    "runtime.ping": POSITIVE,
    "files.protected": GROWS,
    "files.secret": GROWS,
    "files.max_read": POSITIVE,
    "files.max_output": POSITIVE,
    "files.max_hash": POSITIVE,
    "files.max_entries": POSITIVE,
    "files.max_survey": POSITIVE,
}
"""Every key a workspace file may set, and what tighter means there. `rules.list` takes further deny and ask rules."""


def find_direction(path: Path) -> Direction | None:
    """Return what tighter means for the key at a path, None where a workspace file has no say."""
    steps = [str(step) for step in path]
    for start, length in (("tools", 3), ("commands", 4), ("commands", 3)):
        if steps[0] == start and len(steps) == length and (start == "tools" or steps[1] == "read_only"):
            steps[1 if start == "tools" else 2] = "*"
            break
    return TIGHTER.get(".".join(steps))


_MESSAGE = 200


def tighten_tree(tree: Tree, layer: Layer, policy: Policy, default: Policy) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tighten the tree of the policy in force by a workspace file; return the keys it tightened and those it left.

    Raises PolicyError for a key a workspace has no say in and for every value that would loosen.
    """
    in_force, defaults = Tree(policy.model_dump(mode="json")), Tree(default.model_dump(mode="json"))
    notes: dict[Outcome, list[str]] = {"tightened": [], "same": [], "ignored": [], "loosens": []}
    for path, value in find_leaves(layer.data):
        if path == RULES:
            add_rules(tree, layer, value)
            notes["tightened"].append(format_path(path))
            continue
        direction = find_direction(path)
        if direction is None:
            refuse(layer.name, layer.find_line(path), describe_no_say(path))
        old = in_force.get(path)
        try:
            joined, outcome = direction.join(defaults.get(path), old, value)
        except TypeError:  # there is nothing in force to compare with
            joined, outcome = old, "loosens"
        if outcome == "loosens":
            refuse(layer.name, layer.find_line(path), describe_loosening(path, old, direction))
        if outcome == "tightened" and joined is None:
            tree.remove_entry(path)
        elif outcome == "tightened":
            tree.put_value(path, joined, layer)
        notes[outcome].append(format_path(path))
    return tuple(notes["tightened"]), tuple(notes["ignored"])


def find_leaves(data: Data) -> Iterator[tuple[Path, Data]]:
    """Yield the values of a file that are compared as one: scalars, lists and nulls."""
    stack: list[tuple[Path, Data]] = [((), data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            stack.extend(((*path, key), within) for key, within in reversed(value.items()))
        elif path:
            yield path, value


def add_rules(tree: Tree, layer: Layer, rules: list[Data]) -> None:
    """Add a workspace's rules: only deny and ask, each under an id of its own, its words marked as the workspace's."""
    known = {get_rule_id(rule) for rule in tree.get(RULES)}
    for number, rule in enumerate(rules):
        path = (*RULES, number)
        if rule["then"] == "allow":
            refuse(layer.name, layer.find_line((*path, "then")), "a workspace file may only add `deny` and `ask` rules")
        if get_rule_id(rule) in known:
            sentence = (
                f"the rule `{escape_text(get_rule_id(rule))}` exists already; a workspace file adds rules under new ids"
            )
            refuse(layer.name, layer.find_line((*path, "id")), sentence)
        said = escape_text(rule.get("message", ""), _MESSAGE)
        marked = f'a rule of this workspace: "{said}"' if said else f"the workspace's rule `{get_rule_id(rule)}`"
        tree.put_value((*RULES, len(tree.get(RULES))), {**rule, "message": marked}, layer, path)


def describe_loosening(path: Path, old: Data, direction: Direction) -> str:
    """Return the sentence about a value that would loosen."""
    now = "not set" if old is None else f"`{escape_text(json.dumps(old))}`"
    return (
        f"`{escape_text(format_path(path))}` would loosen the policy, where it is {now}; allowed is {direction.words}"
    )


def describe_no_say(path: Path) -> str:
    """Return the sentence about a key that is not a workspace's to set."""
    section = sorted({key for key in TIGHTER if key.startswith(f"{path[0]}.")})
    key = escape_text(format_path(path))
    if not section:
        sections = sorted({key.partition(".")[0] for key in TIGHTER})
        return f"`{key}` is not a workspace's to set; it may tighten {', '.join(f'`{name}`' for name in sections)}"
    return f"`{key}` is not a workspace's to set; there it may tighten {', '.join(f'`{name}`' for name in section)}"
