"""The JSON Schema of a policy file for editors: nothing is required but within entries, and every key is explained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from foregate.policy.source.comments import explain_key
from foregate.policy.source.keys import FLAGS, POLICY, PROTECTIONS
from foregate.policy.source.layers import REMOVABLE, Tree
from foregate.policy.source.load import default_data
from foregate.policy.source.strict_yaml import Path

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BOUNDS = ("type", "enum", "const", "minimum", "maximum", "minLength", "pattern", "minItems", "maxItems")
_NAMES: Mapping[Path, tuple[str, ...]] = {
    ("rules", "list", "*", "protected"): PROTECTIONS,
    ("rules", "list", "*", "capability"): FLAGS,
}
_SHORT = 60


def build_editor_schema() -> dict[str, Any]:
    """Return the schema (JSON Schema 2020-12) of a user's policy file."""
    about = "What you want otherwise than Foregate's default policy. It needs only the keys it changes."
    whole = _build_node(POLICY.schema, ())
    return {"$schema": DIALECT, "title": "A policy of Foregate", **whole, "description": about}


def _build_node(node: Mapping[str, Any], path: Path) -> dict[str, Any]:
    node = POLICY.resolve_node(node)
    built = {key: node[key] for key in _BOUNDS if key in node}
    if path and (words := explain_key(path)):
        built["description"] = words
    match node.get("type"):
        case "object":
            built |= _build_keys(node, path)
        case "array" if "prefixItems" in node:
            built["prefixItems"] = [_build_node(one, (*path, "*")) for one in node["prefixItems"]]
        case "array":
            built["items"] = _build_node(node["items"], (*path, "*"))
            built["items"].pop("description", None)
            if (names := _NAMES.get(path)) is not None:
                built["items"]["enum"] = list(names)
        case _:
            built |= _find_default(path)
    if others := node.get("besides"):
        return {**built, "anyOf": [{key: built.pop(key) for key in ("type", "items")}, *others]}
    if path[:-1] in REMOVABLE:
        built["type"] = [built["type"], "null"]
    return built


def _build_keys(node: Mapping[str, Any], path: Path) -> dict[str, Any]:
    built: dict[str, Any] = {}
    if "properties" in node:
        built["properties"] = {key: _build_node(one, (*path, key)) for key, one in node["properties"].items()}
    others = node.get("additionalProperties", False)
    built["additionalProperties"] = _build_node(others, (*path, "*")) if isinstance(others, Mapping) else others
    if names := POLICY.resolve_node(node.get("propertyNames", {})).get("enum"):
        built["propertyNames"] = {"enum": names}
    if _is_in_list(path) and "required" in node:
        built["required"] = node["required"]
    return built


def _is_in_list(path: Path) -> bool:
    """Whether a path lies in an entry of a list, which no other file completes."""
    nodes = (POLICY.find_node(tuple(0 if step == "*" else step for step in path[:end])) for end in range(len(path)))
    return any(node is not None and node.get("type") == "array" for node in nodes)


def _find_default(path: Path) -> dict[str, Any]:
    value = Tree(default_data()).get(path)
    return {} if value is None or len(str(value)) > _SHORT else {"default": value}
