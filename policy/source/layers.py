"""Laying one policy file over another: mappings merge, lists replace, rules extend; every value knows its place."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import NamedTuple

from msgspec import Struct, field, to_builtins

from foregate.policy.source.shipped import find_compiled
from foregate.policy.source.strict_yaml import (
    MAX_BYTES,
    Data,
    Path,
    Problem,
    format_path,
    name_path,
    parse_yaml,
    walk_values,
)
from foregate.schemas.errors import PolicyError

RULES: Path = ("rules", "list")
"""The one list that a further file extends; a rule with the same id replaces."""

REMOVABLE = (("tools",), ("sources",), *(("commands", name) for name in ("read_only", "reads", "access", "code")))
"""The mappings from which a file takes out an entry with `null`."""
_DEFAULT = "default"


class Layer(Struct, frozen=True):
    """One file: `name` for errors, `label` for provenance, its values and the line of each dotted path."""

    name: str
    label: str
    data: dict[str, Data]
    lines: Mapping[str, int]

    def find_line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest one around it."""
        ends = (path[:end] for end in range(len(path), 0, -1))
        return next((line for end in ends if (line := self.lines.get(format_path(end)))), 1)


class ValueSource(NamedTuple):
    """Where a value comes from: a layer, the line in its file, and the path there."""

    layer: Layer
    line: int
    path: Path


class Tree(Struct):
    """The values in force and, by path, where each comes from."""

    data: dict[str, Data]
    places: dict[Path, ValueSource] = field(default_factory=dict)

    def get(self, path: Path) -> Data:
        """Return the value at a path, None for no value."""
        value: Data = self.data
        for step in path:
            try:
                value = value[step]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def find_place(self, path: Path) -> ValueSource | None:
        """Return where a value comes from, or what is around it, None for the defaults."""
        ends = (path[:end] for end in range(len(path), -1, -1))
        return next((self.places[end] for end in ends if end in self.places), None)

    def describe_origin(self, path: Path) -> str:
        """Return where a value comes from, as shown: `default` or file and line."""
        place = self.find_place(path)
        return f"{place.layer.label}:{place.line}" if place else _DEFAULT

    def name_path(self, path: Path) -> str:
        """Return a path as people write it: a rule under its id, or by its number in the file it comes from."""
        known = next((end for end in range(len(path), -1, -1) if path[:end] in self.places), None)
        if known is None:
            return name_path(path, self.data)
        place = self.places[path[:known]]
        return name_path((*place.path, *path[known:]), place.layer.data)

    def put_value(self, path: Path, value: Data, layer: Layer, source: Path | None = None) -> None:
        """Set a value; `source` is its path in the layer's file where that is another one."""
        holder: Data = self.data
        for step in path[:-1]:
            holder = holder.setdefault(step, {}) if isinstance(holder, dict) else holder[step]
        if isinstance(holder, list) and path[-1] == len(holder):
            holder.append(value)
        else:
            holder[path[-1]] = value
        self.forget_places(path)
        origin = source if source is not None else path
        for here, _ in walk_values(value):
            self.places[*path, *here] = ValueSource(layer, layer.find_line((*origin, *here)), (*origin, *here))

    def remove_entry(self, path: Path) -> None:
        del self.get(path[:-1])[path[-1]]
        self.forget_places(path)

    def forget_places(self, path: Path) -> None:
        """Forget the places of a value and of everything in it."""
        self.places = {known: place for known, place in self.places.items() if known[: len(path)] != path}


def lay_over(tree: Tree, layer: Layer) -> None:
    stack: list[tuple[Path, Data]] = [((), layer.data)]
    while stack:
        path, value = stack.pop()
        below = tree.get(path) if path else tree.data
        if isinstance(value, dict) and isinstance(below, dict):
            stack.extend(((*path, key), within) for key, within in reversed(value.items()))
        elif value is None and path[:-1] in REMOVABLE:
            if below is not None:
                tree.remove_entry(path)
        elif path == RULES and isinstance(value, list) and isinstance(below, list):
            extend_rules(tree, layer, value)
        else:
            tree.put_value(path, value, layer)


def extend_rules(tree: Tree, layer: Layer, rules: list[Data]) -> None:
    """Add a file's rules; one with a known id takes the known one's place."""
    known = {get_rule_id(rule): place for place, rule in enumerate(tree.get(RULES))}
    for number, rule in enumerate(rules):
        place = known.get(get_rule_id(rule), len(tree.get(RULES)))
        tree.put_value((*RULES, place), rule, layer, (*RULES, number))


def get_rule_id(rule: Data) -> str:
    """Return a rule's id, "" when what stands there has none."""
    found = rule.get("id") if isinstance(rule, dict) else None
    return found if isinstance(found, str) else ""


def read_layer(file: FilePath, label: str, *, trusted: bool, kind: str = "policy", decimals: bool = False) -> Layer:
    """Return a file as a layer; raise PolicyError with one sentence when it cannot be read.

    A file that is not `trusted` must be a regular file of its own, not a link to something else. `kind` is what a
    sentence calls the file; `decimals` allows numbers that are not whole.
    """
    text = read_text(file, trusted=trusted, kind=kind)
    return build_layer(str(file), label, text, kind=kind, decimals=decimals)


def build_layer(
    name: str,
    label: str,
    text: str,
    *,
    kind: str = "policy",
    decimals: bool = False,
    faults: list[Problem] | None = None,
) -> Layer:
    """Return a file's text as a layer; raise PolicyError with one sentence where it makes none. See `parse_yaml`."""
    if (known := find_compiled(text)) is not None and known.lines is not None:
        return Layer(name, label, to_builtins(known.values), known.lines)
    data, lines = parse_yaml(text, name, decimals=decimals, faults=faults)
    if not isinstance(data, dict):
        raise PolicyError(f"{name}:1: not a mapping; a {kind} file holds keys, each with its value")
    return Layer(name, label, data, lines)


def read_text(file: FilePath, *, trusted: bool = True, regular: bool = False, kind: str = "policy") -> str:
    """Return the text of a file; raise PolicyError with one sentence when it cannot be read. See `read_layer`.

    A pipe is read to its end where somebody writes to it. With `regular` it is refused, as is all else where reading
    could wait for another process.
    """
    name, regular = str(file), regular or not trusted
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if trusted else os.O_NOFOLLOW)
    try:
        with open(file, "rb", opener=lambda name, _: os.open(name, flags)) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if regular and not stat.S_ISREG(mode):
                raise PolicyError(f"{name}: not a regular file; make it one, or remove it")
            # None where there will be something.
            begin = stream.raw.read(1)
            if begin == b"" and stat.S_ISFIFO(mode):
                raise PolicyError(f"{name}: a pipe that nobody writes to; name a file, or write to it first")
            os.set_blocking(stream.fileno(), True)
            raw = (begin or b"") + stream.read(MAX_BYTES)
    except FileNotFoundError:
        raise PolicyError(f"{name}: there is no such {kind} file; name one that exists") from None
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise PolicyError(f"{name}: the {kind} file cannot be read ({why}); it must be a readable file") from None
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        if len(raw) <= MAX_BYTES:
            line = raw.count(b"\n", 0, error.start) + 1
            raise PolicyError(f"{name}:{line}: not UTF-8; save the file as UTF-8") from None
        return raw.decode("utf-8", "replace")
