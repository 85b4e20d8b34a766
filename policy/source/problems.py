"""Everything that is wrong with a file at once: what cannot be used is told and left out, and the rest looked at."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace
from pydantic import ValidationError

from foregate.policy.source.keys import FileKeys
from foregate.policy.source.layers import RULES, Layer, Tree, get_rule_id, lay_over
from foregate.policy.source.strict_yaml import LEFT_OUT, Data, Path, Problem, escape_text, name_path, walk_values
from foregate.schemas.errors import PolicyError

_ROUNDS = 8
"""How often what does not fit is left out before the rest is not looked at any more."""


def find_problems(
    layer: Layer,
    tree: Tree,
    keys: FileKeys,
    find_senseless: Callable[[Tree], Iterable[Problem]],
    faults: Sequence[Problem] = (),
) -> list[Problem]:
    """Lay a file over the values of `tree` and return everything that is wrong with it, by line.

    `faults` are what was left out of the file already.

    `find_senseless` is asked about values that are of the right types. Where there are problems, the tree holds what
    is left without them.
    """
    default = copy.deepcopy(tree.data)
    unknown = [*keys.find_unknown_keys(layer.data), *find_empty_keys(layer, keys)]
    found = {(layer.find_line(path), f"{layer.name}:{layer.find_line(path)}: {said}") for path, said in unknown}
    found |= {*find_doubled_rules(layer), *faults}
    lay_over(tree, replace(layer, data=_leave_out(layer.data, [path for path, _ in unknown])))
    for _ in range(_ROUNDS):
        misfits = dict(find_misfits(tree, keys))
        if not misfits:
            return sorted(found | set(find_senseless(tree)))
        found |= set(misfits.values())
        for path in misfits:
            _repair(tree, default, path)
    return sorted(found)


def _leave_out(data: Data, paths: Iterable[Path]) -> Data:
    """Return a copy of a file's values without those at these paths, and without what was left out already."""
    kept = copy.deepcopy(data)
    doomed = dict.fromkeys(paths)
    # Of a list the last first.
    for path in reversed([path for path, value in walk_values(data) if value is LEFT_OUT]):
        if not any(path[:size] in doomed for size in range(1, len(path))):
            doomed[path] = None
    for path in doomed:
        holder = kept
        for step in path[:-1]:
            holder = holder[step]
        if path[:-1] == RULES and isinstance(holder, list):
            # Those behind it keep their places.
            holder[int(path[-1])] = _build_sound_rule(path[-1])
            continue
        del holder[path[-1]]
        if path[:-2] == RULES and isinstance(holder, dict):
            # What it was to match is unknown, so nothing is said of that.
            holder.setdefault("tool", "*")
    return kept


def _build_sound_rule(place: str | int) -> dict[str, Data]:
    return {"id": f"out-of-order-{place}", "then": "ask", "tool": "*"}


def _repair(tree: Tree, default: Mapping[str, Data], path: Path) -> None:
    """Put what stood there before in the place of a value that does not fit; a rule becomes one that is in order.

    What was not there before goes, as a whole.
    """
    if path[: len(RULES)] == RULES and len(path) > len(RULES):
        place, rule = int(path[len(RULES)]), tree.get(path[: len(RULES) + 1])
        sound = _build_sound_rule(place)
        # What else it matches is looked at.
        if isinstance(rule, dict) and len(path) > len(RULES) + 1:
            gone = path[len(RULES) + 1], "stands_for"
            sound |= {key: value for key, value in rule.items() if key not in gone}
        tree.get(RULES)[place] = sound
        return
    known = Tree(dict(default))
    ends = range(1, next((place for place, step in enumerate(path) if isinstance(step, int)), len(path)) + 1)
    here = next((path[:end] for end in ends if known.get(path[:end]) is None), path[: ends[-1]])
    before, holder = known.get(here), tree.get(here[:-1])
    if isinstance(holder, dict):
        holder.pop(here[-1], None)
        holder |= {here[-1]: copy.deepcopy(before)} if before is not None else {}


def find_doubled_rules(layer: Layer) -> Iterator[Problem]:
    """Yield line and sentence for rules that share an id within one file."""
    rules = layer.data.get("rules")
    listed = rules.get("list") if isinstance(rules, dict) else None
    seen: dict[str, int] = {}
    for number, rule in enumerate(listed if isinstance(listed, list) else ()):
        line, name = layer.find_line((*RULES, number)), get_rule_id(rule)
        if name and name in seen:
            sentence = f"the rule `{escape_text(name)}` is already on line {seen[name]}; give each rule its own id"
            yield line, f"{layer.name}:{line}: {sentence}"
        seen.setdefault(name, line)


def find_empty_keys(layer: Layer, keys: FileKeys) -> Iterator[tuple[Path, str]]:
    """Yield path and sentence for every key with nothing behind it that may only be left out: a rule with an empty
    `command` would match every one."""
    for path, value in walk_values(layer.data):
        if value is None and keys.may_be_left_out(path):
            shown = escape_text(name_path(path, layer.data))
            yield path, f"`{shown}` is empty; allowed is {keys.describe_allowed_at(path)}"


def find_misfits(tree: Tree, keys: FileKeys) -> Iterator[tuple[Path, Problem]]:
    """Yield the path of every value that is not of its key's type, with line and sentence."""
    try:
        keys.model.model_validate_json(json.dumps(tree.data))
    except ValidationError as error:
        for item in error.errors(include_url=False, include_context=False):
            path = cut_path(tuple(step for step in item["loc"] if step != "[key]"), keys)
            yield path, locate_problem(tree, path, describe_misfit(tree, path, item["type"], keys))


def cut_path(path: Path, keys: FileKeys) -> Path:
    """Return a path up to the value that may be of several kinds: what is wrong with it is told once, not for each."""
    ends = (end for end in range(1, len(path)) if "besides" in (keys.find_node(path[:end]) or {}))
    return path[: next(ends, len(path))]


def describe_misfit(tree: Tree, path: Path, kind: str, keys: FileKeys) -> str:
    key = escape_text(tree.name_path(path))
    if kind == "missing":
        return f"the key `{key}` is missing; it is {keys.describe_allowed_at(path)}"
    value = tree.get(path)
    kinds = {dict: "a mapping", list: "a list", type(None): "empty"}
    what = kinds.get(type(value)) or f"`{escape_text(json.dumps(value))}`"
    return f"`{key}` is {what}; allowed is {keys.describe_allowed_at(path)}"


def locate_problem(tree: Tree, path: Path, sentence: str) -> Problem:
    """Return line and sentence with the file and line a value comes from."""
    place = tree.find_place(path)
    if place is None:
        return 0, f"default.yaml: {sentence}"
    return place.line, f"{place.layer.name}:{place.line}: {sentence}"


def raise_first(problems: Iterable[Problem], layer: Layer | None, command: str) -> None:
    """Raise PolicyError with the first problem of a file, saying how many more `command` lists."""
    found = sorted(problems)
    if found:
        file = layer.name if layer is not None else "default.yaml"
        more = f" (and {len(found) - 1} more: `{command} {file}` lists them)" if len(found) > 1 else ""
        raise PolicyError(found[0][1] + more)
