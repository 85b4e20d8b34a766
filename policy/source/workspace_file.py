"""Applying a workspace's own file: each key joined with what is in force, loosening refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES, Layer, Tree, get_rule_id
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path, refuse
from foregate.policy.source.tighten import TIGHTER, Direction, Outcome, find_direction

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
