"""What the keys of a YAML file may be: read from the typed model behind it, for errors that say what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path

_MOST_NAMES = 16


class Keys:
    """The keys of one kind of file; `whole` is what a sentence calls the whole of it. `gone` tells of dotted keys there
    were once what stands in their place, as the end of a sentence."""

    def __init__(self, model: type[BaseModel], whole: str, gone: Mapping[str, str] | None = None) -> None:
        self.model = model
        self.whole = whole
        self.gone = gone or {}

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The JSON Schema of the whole file."""
        return self.model.model_json_schema()

    def find_node(self, path: Path) -> Mapping[str, Any] | None:
        """Return the schema of the value at a path, None where there is no such key."""
        node: Mapping[str, Any] | None = self.resolve_node(self.schema)
        for step in path:
            if node is None:
                return None
            node = self.find_inner_node(node, step)
        return node

    def resolve_node(self, node: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a node without references, and without the null beside a value that may be left out."""
        while True:
            if "$ref" in node:
                node = self.schema["$defs"][node["$ref"].rpartition("/")[2]]
            elif "anyOf" in node:
                node = next(option for option in node["anyOf"] if option.get("type") != "null")
            else:
                return node

    def find_inner_node(self, node: Mapping[str, Any], step: str | int) -> Mapping[str, Any] | None:
        """Return the schema one step further in."""
        if isinstance(step, int):
            places = node.get("prefixItems")
            if places is not None:
                return self.resolve_node(places[step]) if step < len(places) else None
            return self.resolve_node(node["items"]) if "items" in node else None
        properties = node.get("properties", {})
        if step in properties:
            return self.resolve_node(properties[step])
        others = node.get("additionalProperties")
        if not isinstance(others, Mapping):
            return None
        names = self.resolve_node(node.get("propertyNames", {})).get("enum")
        return self.resolve_node(others) if names is None or step in names else None

    def find_unknown_keys(self, data: Data) -> Iterator[tuple[Path, str]]:
        """Yield the path of every key nobody knows, with a sentence that names the nearest known one."""
        stack: list[tuple[Path, Data]] = [((), data)]
        while stack:
            path, value = stack.pop()
            if isinstance(value, dict):
                for key, within in value.items():
                    here = (*path, key)
                    if self.find_node(here) is not None:
                        stack.append((here, within))
                    elif (node := self.find_node(path)) is not None and node.get("type") == "object":
                        yield here, self.describe_unknown_key(here, node)
            elif isinstance(value, list):
                stack.extend(((*path, place), within) for place, within in enumerate(value))

    def describe_unknown_key(self, path: Path, node: Mapping[str, Any]) -> str:
        """Return the sentence about an unknown key."""
        if (instead := self.gone.get(format_path(path))) is not None:
            return f"the key `{format_path(path)}` is gone; {instead}"
        names = self.list_names(node)
        near = difflib.get_close_matches(str(path[-1]), names, n=1)
        where = f"`{escape_text(format_path(path[:-1]))}`" if len(path) > 1 else self.whole
        hint = f"did you mean `{near[0]}`?" if near else f"the keys of {where} are {join_names(names)}"
        return f"the key `{escape_text(format_path(path))}` is unknown; {hint}"

    def list_names(self, node: Mapping[str, Any]) -> list[str]:
        """Return the keys a mapping may have."""
        names = node.get("properties") or self.resolve_node(node.get("propertyNames", {})).get("enum") or ()
        return list(names)

    def describe_allowed_at(self, path: Path) -> str:
        """Return what is allowed at a path, as the end of a sentence."""
        node = self.find_node(path)
        return self.describe_allowed(node) if node is not None else "nothing here"

    def describe_allowed(self, node: Mapping[str, Any]) -> str:
        """Return what a node of the schema allows, in words."""
        if "enum" in node:
            return f"one of {join_names(node['enum'])}"
        if "const" in node:
            return f"only {node['const']}"
        kind = node.get("type")
        if kind == "integer":
            return describe_whole_number(node.get("minimum"), node.get("maximum"))
        if kind == "number":
            return f"a number from {node['minimum']} to {node['maximum']}"
        if kind == "boolean":
            return "true or false"
        if kind == "string":
            return f"text that fits {node['pattern']}" if "pattern" in node else "text"
        if kind == "array":
            if "prefixItems" in node:
                return f"a list of {len(node['prefixItems'])} values"
            return f"a list, each entry {self.describe_allowed(self.resolve_node(node['items']))}"
        names = self.list_names(node)
        return f"a mapping with the keys {join_names(names)}" if names else "a mapping"


def describe_whole_number(least: int | None, most: int | None) -> str:
    """Return the words for a whole number within bounds."""
    if least is not None and most is not None:
        return f"a whole number from {least} to {most}"
    return f"a whole number, {least} or more" if least is not None else "a whole number"


def join_names(names: list[str]) -> str:
    """Return names as people list them."""
    cut = [f"`{name}`" for name in names[:_MOST_NAMES]]
    return ", ".join(cut) + (", ..." if len(names) > _MOST_NAMES else "")


POLICY = Keys(Policy, "a policy")
"""The keys of a policy file."""
