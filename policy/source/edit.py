"""Changing single keys in the text of a policy file: comments, order and spaces stay, for nothing else is touched."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path as FilePath
from textwrap import wrap
from typing import NamedTuple

from msgspec import Struct
from ruamel.yaml import YAML
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from foregate.policy.source.layers import RULES, Layer, build_layer, get_rule_id, read_text
from foregate.policy.source.strict_yaml import Data, Path, escape_text, format_path, parse_yaml
from foregate.schemas.errors import PolicyError, UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.visible import make_visible

# "read_file", "two words": text that YAML reads as itself without quotes.
_PLAIN = compile_late(r"[A-Za-z_][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*")
_RESERVED = {"null", "true", "false"}
_STEP = 2
"""Columns by which what is new stands further right than what it belongs to."""
# "fewer-questions".
_ID = compile_late(r"[a-z0-9][a-z0-9-]{0,63}")
_WIDTH = 96
_MARK = "# A suggestion for a Foregate policy; `foregate policy apply` lays it over yours."


class TextChange(NamedTuple):
    """The value that a key is to have; None takes the key out. A rule stands under its id, as in `rules.list.ID`."""

    path: Path
    value: Data


def list_changes(fragment: Data) -> Iterator[TextChange]:
    """Yield what a fragment of a policy changes: values and lists as they are, rules one by one.

    A `null` of the fragment is a value, by which an entry of a default goes.
    """
    stack: list[tuple[Path, Data]] = [((), fragment)]
    while stack:
        path, value = stack.pop()
        if path == RULES and isinstance(value, list):
            yield from (TextChange((*RULES, get_rule_id(rule)), rule) for rule in value)
        elif isinstance(value, dict) and (value or not path):
            stack.extend(((*path, key), within) for key, within in reversed(value.items()))
        else:
            yield TextChange(path, NULL if value is None else value)


class _Null:
    """Stands for a `null` that is written, where None takes a key out."""


NULL = _Null()


def change_text(text: str, name: str, changes: Iterable[TextChange]) -> str:
    """Return the text of a file with these changes; `name` is the file's for errors. Lines end as they did.

    Raises PolicyError where the text is no policy, or the change cannot be made without touching something else.
    """
    if 0 < text.count("\n") == text.count("\r\n"):
        return change_text(text.replace("\r\n", "\n"), name, changes).replace("\n", "\r\n")
    for change in changes:
        before, _ = parse_yaml(text, name)
        wanted = copy.deepcopy(before)
        _change_data(wanted, change)
        if wanted == before:
            continue
        text = _change_once(text, change) or "{}\n" * bool(text.strip() == "" and wanted)
        if _read_again(text, name) != wanted:
            key = escape_text(format_path(change.path))
            raise PolicyError(f"{name}: `{key}` cannot be changed there without rewriting more; change it by hand")
    return text


def _read_again(text: str, name: str) -> Data:
    try:
        return parse_yaml(text, name)[0]
    except PolicyError:
        return None


def _change_data(data: Data, change: TextChange) -> None:
    """Make a change to plain values; mappings that are empty then go too."""
    path, value = change.path, None if change.value is NULL else change.value
    holder: Data = data
    holders: list[tuple[Data, str | int]] = []
    for place, step in enumerate(path[:-1]):
        inner: Data = [] if path[: place + 1] == RULES else {}
        at = _find_place(holder, path[:place], step)
        if isinstance(holder, list) and at is None:
            raise PolicyError(f"there is no rule `{escape_text(step)}` in the file; give the whole rule")
        if isinstance(holder, dict) and not isinstance(holder.get(step), (dict, list)):
            if change.value is None:
                return
            holder[step] = inner
        holders.append((holder, step if at is None else at))
        holder = holder[step if at is None else at]
    last = _find_place(holder, path[:-1], path[-1])
    if change.value is not None:
        if isinstance(holder, list) and last is None:
            holder.append(value)
        else:
            holder[path[-1] if last is None else last] = value
        return
    if isinstance(last, int) or (isinstance(holder, dict) and last in holder):
        # A place of a list, or a key of a mapping.
        del holder[last]
    for outer, step in reversed(holders):
        if outer[step] in ({}, []):
            del outer[step]


def _find_place(holder: Data, path: Path, step: str | int) -> str | int | None:
    """Return where in a mapping or a list a step leads: in the list of rules to the one of that id."""
    if path != RULES or not isinstance(holder, list):
        return step
    return next((place for place, rule in enumerate(holder) if get_rule_id(rule) == step), None)


class _Found(NamedTuple):
    """The nodes along a path as far as there are any: keys and the values they have."""

    values: list[Node]
    keys: list[Node]
    missing: Path


def _change_once(text: str, change: TextChange) -> str:
    root = YAML(typ="safe", pure=True).compose(text)
    if root is None:
        return _join_lines(text, render_block(_build_missing((), change.path, change.value), 0))
    found = _walk_nodes(root, change.path)
    if change.value is None:
        return _remove(text, found)
    if found.missing:
        return _insert(text, found, change)
    return _replace(text, found.values[-1], change.value)


def _walk_nodes(root: Node, path: Path) -> _Found:
    values, keys = [root], list[Node]()
    for place, step in enumerate(path):
        node = values[-1]
        pairs: list[tuple[Node, Node]] = []
        if isinstance(node, MappingNode):
            pairs = [pair for pair in node.value if pair[0].value == step]
        elif isinstance(node, SequenceNode) and path[:place] == RULES:
            pairs = [(item, item) for item in node.value if _read_id(item) == step]
        if not pairs:
            return _Found(values, keys, path[place:])
        keys.append(pairs[0][0])
        values.append(pairs[0][1])
    return _Found(values, keys, ())


def _read_id(item: Node) -> str:
    pairs = item.value if isinstance(item, MappingNode) else ()
    return next((value.value for key, value in pairs if key.value == "id"), "")


def _build_missing(inside: Path, missing: Path, value: Data) -> Data:
    """Return a value within what is missing around it, from a mapping on; a rule stands in a list."""
    if (*inside, *missing)[:-1] == RULES:
        value, missing = [value], missing[:-1]
    for step in reversed(missing):
        value = {step: value}
    return value


def _replace(text: str, old: Node, value: Data) -> str:
    start, end = old.start_mark.index, _find_end(text, old)
    if _is_block(old) and isinstance(value, dict):
        return text[:start] + render_block(value, old.start_mark.column).strip() + text[end:]
    space = " " if start and text[start - 1] == ":" else ""
    # It begins on a line of its own.
    if _is_block(old) and isinstance(old, (MappingNode, SequenceNode)):
        start = len(text[:start].rstrip())
        space = " "
    return text[:start] + space + render_flow(value) + text[end:]


def _insert(text: str, found: _Found, change: TextChange) -> str:
    """Put what is not there yet behind the last entry of what is."""
    holder, missing = found.values[-1], found.missing
    inside = change.path[: len(change.path) - len(missing)]
    rule = inside == RULES
    value = change.value if rule else _build_missing(inside, missing, change.value)
    if not _is_block(holder):
        inner = render_flow(value) if rule else render_flow(value)[1:-1]
        end = _find_end(text, holder) - 1
        return text[:end].rstrip() + (", " if holder.value else "") + inner + text[end:]
    column = holder.start_mark.column
    lines = render_item(value, column) if rule else render_block(value, column)
    end = _find_end(text, holder)
    newline = text.find("\n", end)
    cut = len(text) if newline < 0 else newline + 1
    gap = "\n" if not inside and "\n\n" in text[:cut].strip() else ""
    return _join_lines(text[:cut], gap + lines) + text[cut:]


def _remove(text: str, found: _Found) -> str:
    if found.missing:
        return text
    at = len(found.keys) - 1
    while at and len(found.values[at].value) == 1:
        at -= 1
    holder, key, value = found.values[at], found.keys[at], found.values[at + 1]
    start, end = key.start_mark.index, _find_end(text, value)
    if _is_block(holder):
        first = text.rfind("\n", 0, start) + 1
        newline = text.find("\n", end)
        return text[:first] + ("" if newline < 0 else text[newline + 1 :])
    behind = re.match(r"\s*,\s*", text[end:])
    if behind is not None:
        return text[:start] + text[end + behind.end() :]
    return re.sub(r",?\s*$", "", text[:start]) + text[end:]


def _is_block(node: Node) -> bool:
    return isinstance(node, (MappingNode, SequenceNode)) and not node.flow_style


def _find_end(text: str, node: Node) -> int:
    """Return where a node ends in the text: that of a block is where the last value in it does."""
    if not _is_block(node) or not node.value:
        end: int = node.end_mark.index
        return len(text[:end].rstrip()) if isinstance(node, ScalarNode) and node.style in ("|", ">") else end
    last = node.value[-1]
    inner = last[1] if isinstance(last, tuple) else last
    if isinstance(last, tuple) and inner.start_mark.index == inner.end_mark.index:
        inner = last[0]
        return text.index(":", inner.end_mark.index) + 1
    return _find_end(text, inner)


def _join_lines(text: str, lines: str) -> str:
    if not text.strip("\ufeff") or text.endswith("\n"):
        return text + lines
    # As its last line had no end, it has none.
    return f"{text}\n{lines}".removesuffix("\n")


def render_block(value: dict[str, Data], column: int) -> str:
    """Return the lines of a mapping that begins in a column: mappings in blocks, all else on the line of its key."""
    lines: list[str] = []
    stack: list[tuple[int, Data, Data]] = [(column, key, inner) for key, inner in reversed(value.items())]
    while stack:
        at, key, inner = stack.pop()
        head = f"{' ' * at}{_render_scalar(key)}:"
        if isinstance(inner, dict) and inner:
            lines.append(head)
            stack.extend((at + _STEP, name, within) for name, within in reversed(inner.items()))
        elif isinstance(inner, list) and inner and isinstance(inner[0], dict):
            lines.append(head)
            lines += [render_item(item, at + _STEP).rstrip("\n") for item in inner]
        else:
            lines.append(f"{head} {render_flow(inner)}")
    return "".join(f"{line}\n" for line in lines)


def render_item(value: Data, column: int) -> str:
    """Return the lines of an entry of a list that begins in a column."""
    if not isinstance(value, dict) or not value:
        return f"{' ' * column}- {render_flow(value)}\n"
    within = render_block(value, column + _STEP)
    return f"{' ' * column}- {within[column + _STEP :]}"


def render_flow(value: Data) -> str:
    """Return a value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_render_scalar(key)}: {render_flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(render_flow, value)) + "]"
    return _render_scalar(value)


def _render_scalar(value: Data) -> str:
    if value is NULL:
        return "null"
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _RESERVED:
        return value
    return json.dumps(value, ensure_ascii=False)


class Suggestion(Struct, frozen=True):
    """What a file suggests: the words above it, a paragraph each, and what it changes."""

    words: tuple[str, ...]
    changes: tuple[TextChange, ...]
    layer: Layer


def format_suggestion(words: Sequence[str], changes: Iterable[TextChange]) -> str:
    """Return the text of a suggestion's file; `words` are paragraphs for whoever decides about it."""
    paragraphs = ["\n".join(f"# {line}" for line in wrap(make_visible(said), _WIDTH)) for said in words if said.strip()]
    return change_text("\n#\n".join([_MARK, *paragraphs]) + "\n", "the suggestion", changes)


def read_suggestion(file: FilePath) -> Suggestion:
    """Return what a file suggests; any fragment of a policy is a suggestion. Raises PolicyError for what is none."""
    text = read_text(file, kind="suggestion")
    layer = build_layer(str(file), file.name, text, kind="suggestion")
    return Suggestion(read_words(text.splitlines()), tuple(list_changes(layer.data)), layer)


def read_words(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the paragraphs of the comment a file begins with, but for the line that says what the file is."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if not line.startswith("#"):
            break
        said = line.strip().lstrip("#").strip()
        if said and line.strip() != _MARK:
            paragraphs[-1].append(said)
        elif paragraphs[-1]:
            paragraphs.append([])
    return tuple(" ".join(lines) for lines in paragraphs if lines)


def find_suggestion(named: str, folder: FilePath) -> FilePath:
    """Return the file of a suggestion by its id, which is kept in `folder`, or by its path.

    An id never means a file of the current folder; such a file is named with its ending, or as `./NAME`. Raises
    UsageError for an unknown id.
    """
    if not _ID.fullmatch(named):
        return FilePath(named).expanduser()
    file = folder / f"{named}.yaml"
    if not file.is_file():
        known = ", ".join(f"`{one.stem}`" for one in sorted(folder.glob("*.yaml"))[-5:])
        hint = f"the newest are {known}" if known else "`foregate policy suggest` makes one"
        raise UsageError(f"there is no suggestion `{named}`; {hint}, and a file is named as `./{named}`")
    return file
