"""What a workspace's own file may do: tighten. One table says what tighter means for each key; loosening is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.policy.risk.http import is_host_match
from foregate.policy.source.layers import RULES, Layer, Tree, get_rule_id
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path, refuse, walk_values
from foregate.schemas.codes import GATES
from foregate.schemas.judgement import Mode
from foregate.schemas.tool_spec import Effect

Outcome = Literal["tightened", "same", "ignored", "loosens"]


class Direction(Struct, frozen=True):
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

_NAMED = (
    (LIMIT, "limits.", "turns model_calls tool_calls tokens cost wall_clock calls_per_response identical_changes"),
    (LIMIT, "limits.", "identical_observations repeated_holds malformed_calls futile_turns needs_per_gate child_depth"),
    (POSITIVE, "limits.", "parallel_calls"),
    (LOWER, "", "scope.max_resources uncertainty.threshold critique.risk critique.uncertainty mcp.restarts"),
    (LOWER, "", "serving.away runtime.patience"),
    (POSITIVE, "validity.", "max_bytes max_depth max_references"),
    (TRUE, "", "rules.refused_before"),
    (HIGHER, "", "narration.min_chars mcp.backoff runtime.backoff"),
    (LIMIT, "", "plan.changed_resources critique.risk_in_doubt"),
    (POSITIVE, "plan.", "max_amendments max_bytes"),
    (ADVICE, "", "plan.on_unavailable.dangerous plan.on_unavailable.other critique.on_unavailable.dangerous"),
    (ADVICE, "", "critique.on_unavailable.other critique.on_invalid.dangerous critique.on_invalid.other"),
    (POSITIVE, "critique.", "max_bytes"),
    (LIMIT, "approval.", "expires"),
    (AT_WORST, "tools.*.", "read_only idempotent reversible personal_memory"),
    (AT_RISK, "tools.*.", "external_side_effect needs_approval high_impact_write"),
    (REMOVES, "", "commands.read_only.* commands.reads.*"),
    (SHRINKS, "", "commands.read_only.*.options commands.read_only.*.valued commands.about commands.environment"),
    (SHRINKS, "", "mcp.environment mandate.pushing commands.further_words commands.checks"),
    (GROWS, "", "commands.reads.*.work commands.reads.*.patterns"),
    (GROWS, "", "commands.read_only.*.beneath commands.wrappers commands.open_ended files.protected files.secret"),
    (GROWS, "", "commands.completes files.runs_by_itself mandate.naming"),
    (FALSE, "", "commands.read_only.*.operands"),
    (POSITIVE, "commands.", "timeout sandbox.memory sandbox.processes sandbox.scratch sandbox.sent"),
    (POSITIVE, "commands.", "sandbox.connections"),
    (SHRINKS, "", "commands.sandbox.ports"),
    (HOSTS, "", "http.hosts"),
    (POSITIVE, "http.", "timeout max_bytes"),
    (LIMIT, "http.unsaid.", "path query content random"),
    (POSITIVE, "mcp.", "start_timeout call_timeout stop_timeout max_tools max_description max_definition"),
    (POSITIVE, "mcp.", "max_depth max_message max_traffic max_result max_stderr"),
    (POSITIVE, "serving.", "max_agents max_waiting max_message max_deadline ping"),
    (POSITIVE, "runtime.", "timeout max_tools max_message ping"),
    (POSITIVE, "files.", "max_read max_output max_hash max_entries max_survey"),
)
"""Directions, a section or "" for whole names, and the keys that are tightened so."""


def _read_type(section: str, key: str) -> Any:
    """Return the type of a key of a section, None where it has no such key."""
    model: Any = Policy.model_fields[section].annotation
    return model.model_fields[key].annotation if key in model.model_fields else None


TIGHTER: dict[str, Direction] = {
    **{f"{gate}.mode": MODE for gate in GATES if _read_type(gate, "mode") == Mode},
    **{f"{section}{key}": direction for direction, section, keys in _NAMED for key in keys.split()},
    "version": build_order_direction(1),
    "holds": build_order_direction("call", "whole_response"),
    "validity.closed_arguments": build_order_direction("builtin", "all"),
    "rules.unmatched": build_order_direction("allow", "ask", "deny"),
    "narration.scope": build_order_direction("risky", "first_side_effect", "first_response"),
    "drift.trigger": build_order_direction("contract", "no_mutation_no_observation"),
    "drift.wishes": build_order_direction("effects", "contract"),
    "drift.lasts": build_order_direction("request", "task"),
    "plan.due": build_order_direction("risky", "first_side_effect"),
    "plan.depth": build_order_direction("top_level", "every"),
    "plan.form": build_order_direction("call", "blind"),
    "plan.binding": build_order_direction("first_action", "scope", "steps"),
    "critique.level": build_scalar_direction(
        "`call`, or any where it is `off`", lambda old, new: new in (old, "call") or old == "off"
    ),
    "critique.on_budget_exhausted": build_order_direction("proceed", "ask"),
    "approval.mode": build_order_direction("scope", "each", "never"),
    "http.unlisted": build_order_direction("fail", "deny"),
    "approval.reads": build_order_direction("free", "ask"),
    "mandate.mode": build_order_direction("off", "enforce"),
    "postlude.mode": build_order_direction("off", "enforce"),
    "tools.*.effect": build_scalar_direction("a more dangerous effect, or `unknown`", is_effect_tighter),
    "commands.confinement.read": build_order_direction("limited", "full"),
    "commands.confinement.work": build_order_direction("limited", "full"),
    "commands.execute_command": build_order_direction("run_shell", "run_command"),
    "serving.approvals": build_order_direction("caller", "deny"),
    "runtime.declarations": build_order_direction("believe", "raise"),
}
"""Every key a workspace file may set, and what tighter means there. `rules.list` takes further deny and ask rules."""


def find_direction(path: Path) -> Direction | None:
    """Return what tighter means for the key at a path, None where a workspace file has no say."""
    steps = [str(step) for step in path]
    for start, length in (("tools", 3), ("commands", 4), ("commands", 3)):
        if steps[0] == start and len(steps) == length and (start == "tools" or steps[1] in ("read_only", "reads")):
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
        except TypeError:
            # There is nothing in force to compare with.
            joined, outcome = old, "loosens"
        if outcome == "loosens":
            refuse(layer.name, layer.find_line(path), describe_loosening(path, old, direction))
        if outcome == "tightened" and joined is None:
            tree.remove_entry(path)
        elif outcome == "tightened":
            tree.put_value(path, joined, layer)
        notes[outcome].append(format_path(path))
    return tuple(notes["tightened"]), tuple(notes["ignored"])


def find_leaves(data: Data) -> list[tuple[Path, Data]]:
    """Return the values of a file that are compared as one: scalars, lists and nulls."""
    found = ((path, value) for path, value in walk_values(data) if path and not isinstance(value, dict))
    return [(path, value) for path, value in found if not any(isinstance(step, int) for step in path)]


def add_rules(tree: Tree, layer: Layer, rules: list[Data]) -> None:
    """Add a workspace's rules: only deny and ask, each under an id of its own, its words marked as the workspace's."""
    known = {get_rule_id(rule) for rule in tree.get(RULES)}
    for number, rule in enumerate(rules):
        path = (*RULES, number)
        if rule["then"] == "allow":
            refuse(layer.name, layer.find_line((*path, "then")), "a workspace file may only add `deny` and `ask` rules")
        if get_rule_id(rule) in known:
            name = escape_text(get_rule_id(rule))
            sentence = f"the rule `{name}` exists already; a workspace file adds rules under new ids"
            refuse(layer.name, layer.find_line((*path, "id")), sentence)
        said = escape_text(rule.get("message", ""), _MESSAGE)
        marked = f'a rule of this workspace: "{said}"' if said else f"the workspace's rule `{get_rule_id(rule)}`"
        tree.put_value((*RULES, len(tree.get(RULES))), {**rule, "message": marked}, layer, path)


def describe_loosening(path: Path, old: Data, direction: Direction) -> str:
    now, key = "not set" if old is None else f"`{escape_text(json.dumps(old))}`", escape_text(format_path(path))
    return f"`{key}` would loosen the policy, where it is {now}; allowed is {direction.words}"


def describe_no_say(path: Path) -> str:
    within = sorted(name for name in TIGHTER if name.startswith(f"{path[0]}."))
    names = ", ".join(f"`{name}`" for name in within or sorted({name.partition(".")[0] for name in TIGHTER}))
    key, where = escape_text(format_path(path)), "there it" if within else "it"
    return f"`{key}` is not a workspace's to set; {where} may tighten {names}"
