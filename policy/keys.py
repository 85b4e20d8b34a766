"""What the keys of a policy file may be: read from the typed policy, for errors that say what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from foregate.policy.policy import Policy
from foregate.policy.strict_yaml import Data, Path, dotted, shown

_MOST_NAMES = 16


@cache
def schema() -> Mapping[str, Any]:
    """Return the JSON Schema of the whole policy."""
    return Policy.model_json_schema()


def node_at(path: Path) -> Mapping[str, Any] | None:
    """Return the schema of the value at a path, None where there is no such key."""
    node: Mapping[str, Any] | None = resolved(schema())
    for step in path:
        if node is None:
            return None
        node = inner(node, step)
    return node


def resolved(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a node without references, and without the null beside a value that may be left out."""
    while True:
        if "$ref" in node:
            node = schema()["$defs"][node["$ref"].rpartition("/")[2]]
        elif "anyOf" in node:
            node = next(option for option in node["anyOf"] if option.get("type") != "null")
        else:
            return node


def inner(node: Mapping[str, Any], step: str | int) -> Mapping[str, Any] | None:
    """Return the schema one step further in."""
    if isinstance(step, int):
        places = node.get("prefixItems")
        if places is not None:
            return resolved(places[step]) if step < len(places) else None
        return resolved(node["items"]) if "items" in node else None
    properties = node.get("properties", {})
    if step in properties:
        return resolved(properties[step])
    others = node.get("additionalProperties")
    if not isinstance(others, Mapping):
        return None
    names = resolved(node.get("propertyNames", {})).get("enum")
    return resolved(others) if names is None or step in names else None


def unknown_keys(data: Data) -> Iterator[tuple[Path, str]]:
    """Yield the path of every key nobody knows, with a sentence that names the nearest known one."""
    stack: list[tuple[Path, Data]] = [((), data)]
    while stack:
        path, value = stack.pop()
        if isinstance(value, dict):
            for key, within in value.items():
                here = (*path, key)
                if node_at(here) is not None:
                    stack.append((here, within))
                elif (node := node_at(path)) is not None and node.get("type") == "object":
                    yield here, unknown(here, node)
        elif isinstance(value, list):
            stack.extend(((*path, place), within) for place, within in enumerate(value))


def unknown(path: Path, node: Mapping[str, Any]) -> str:
    """Return the sentence about an unknown key."""
    names = known_names(node)
    near = difflib.get_close_matches(str(path[-1]), names, n=1)
    where = f"`{shown(dotted(path[:-1]))}`" if len(path) > 1 else "a policy"
    hint = f"did you mean `{near[0]}`?" if near else f"the keys of {where} are {listing(names)}"
    return f"the key `{shown(dotted(path))}` is unknown; {hint}"


def known_names(node: Mapping[str, Any]) -> list[str]:
    """Return the keys a mapping may have."""
    names = node.get("properties") or resolved(node.get("propertyNames", {})).get("enum") or ()
    return list(names)


def allowed_at(path: Path) -> str:
    """Return what is allowed at a path, as the end of a sentence."""
    node = node_at(path)
    return allowed(node) if node is not None else "nothing here"


def allowed(node: Mapping[str, Any]) -> str:
    """Return what a node of the schema allows, in words."""
    if "enum" in node:
        return f"one of {listing(node['enum'])}"
    if "const" in node:
        return f"only {node['const']}"
    kind = node.get("type")
    if kind == "integer":
        return whole_number(node.get("minimum"), node.get("maximum"))
    if kind == "boolean":
        return "true or false"
    if kind == "string":
        return f"text that fits {node['pattern']}" if "pattern" in node else "text"
    if kind == "array":
        if "prefixItems" in node:
            return f"a list of {len(node['prefixItems'])} values"
        return f"a list, each entry {allowed(resolved(node['items']))}"
    names = known_names(node)
    return f"a mapping with the keys {listing(names)}" if names else "a mapping"


def whole_number(least: int | None, most: int | None) -> str:
    """Return the words for a whole number within bounds."""
    if least is not None and most is not None:
        return f"a whole number from {least} to {most}"
    return f"a whole number, {least} or more" if least is not None else "a whole number"


def listing(names: list[str]) -> str:
    """Return names as people list them."""
    cut = [f"`{name}`" for name in names[:_MOST_NAMES]]
    return ", ".join(cut) + (", ..." if len(names) > _MOST_NAMES else "")
