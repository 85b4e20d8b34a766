"""Applying a workspace's own file: each key joined with what is in force, loosening refused."""

from __future__ import annotations

import json
from collections.abc import Iterator

from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES, Layer, Tree, rule_id
from foregate.policy.source.strict_yaml import Data, Path, dotted, refuse, shown
from foregate.policy.source.tighten import TIGHTER, Direction, Outcome, direction_of

_MESSAGE = 200


def restrain(tree: Tree, layer: Layer, policy: Policy, default: Policy) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Tighten the tree of the policy in force by a workspace file; return the keys it tightened and those it left.

    Raises PolicyError for a key a workspace has no say in and for every value that would loosen.
    """
    in_force, defaults = Tree(policy.model_dump(mode="json")), Tree(default.model_dump(mode="json"))
    notes: dict[Outcome, list[str]] = {"tightened": [], "same": [], "ignored": [], "loosens": []}
    for path, value in leaves(layer.data):
        if path == RULES:
            add_rules(tree, layer, value)
            notes["tightened"].append(dotted(path))
            continue
        direction = direction_of(path)
        if direction is None:
            refuse(layer.name, layer.line(path), no_say(path))
        old = in_force.at(path)
        try:
            joined, outcome = direction.join(defaults.at(path), old, value)
        except TypeError:  # there is nothing in force to compare with
            joined, outcome = old, "loosens"
        if outcome == "loosens":
            refuse(layer.name, layer.line(path), loosening(path, old, direction))
        if outcome == "tightened" and joined is None:
            tree.remove(path)
        elif outcome == "tightened":
            tree.put(path, joined, layer)
        notes[outcome].append(dotted(path))
    return tuple(notes["tightened"]), tuple(notes["ignored"])


def leaves(data: Data) -> Iterator[tuple[Path, Data]]:
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
    known = {rule_id(rule) for rule in tree.at(RULES)}
    for number, rule in enumerate(rules):
        path = (*RULES, number)
        if rule["then"] == "allow":
            refuse(layer.name, layer.line((*path, "then")), "a workspace file may only add `deny` and `ask` rules")
        if rule_id(rule) in known:
            sentence = f"the rule `{shown(rule_id(rule))}` exists already; a workspace file adds rules under new ids"
            refuse(layer.name, layer.line((*path, "id")), sentence)
        said = shown(rule.get("message", ""), _MESSAGE)
        marked = f'a rule of this workspace: "{said}"' if said else f"the workspace's rule `{rule_id(rule)}`"
        tree.put((*RULES, len(tree.at(RULES))), {**rule, "message": marked}, layer, path)


def loosening(path: Path, old: Data, direction: Direction) -> str:
    """Return the sentence about a value that would loosen."""
    now = "not set" if old is None else f"`{shown(json.dumps(old))}`"
    return f"`{shown(dotted(path))}` would loosen the policy, where it is {now}; allowed is {direction.words}"


def no_say(path: Path) -> str:
    """Return the sentence about a key that is not a workspace's to set."""
    section = sorted({key for key in TIGHTER if key.startswith(f"{path[0]}.")})
    key = shown(dotted(path))
    if not section:
        sections = sorted({key.partition(".")[0] for key in TIGHTER})
        return f"`{key}` is not a workspace's to set; it may tighten {', '.join(f'`{name}`' for name in sections)}"
    return f"`{key}` is not a workspace's to set; there it may tighten {', '.join(f'`{name}`' for name in section)}"
