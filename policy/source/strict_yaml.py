"""Strict YAML 1.2: plain mappings, lists and scalars, and a line for everything; whatever could surprise is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn, TypeAlias

from msgspec import Struct, field

from foregate.schemas.errors import PolicyError
from foregate.schemas.late_pattern import compile_late

Data: TypeAlias = Any
"""Any value made of dict, list, str, int, bool and None, and float where decimal numbers are allowed."""

Path: TypeAlias = tuple[str | int, ...]
"""The way to a value: keys of mappings and places in lists."""

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_DIGITS = 4300

# "42", "-7".
_INTEGER = compile_late(r"[-+]?[0-9]+")
# "0o17", "0xff".
_BASED = compile_late(r"0o[0-7]+|0x[0-9a-fA-F]+")
# "1.5", "1e30", ".inf".
_FLOAT = compile_late(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_HALF = "half a character (a lone surrogate); write whole characters"
LEFT_OUT: Any = object()
"""Stands for a value that was left out, and for a key."""
# "read_file"; "a.b" and "7" stand in quotes, so that the written key names the same step.
_PLAIN_KEY = compile_late(r"[^.\"\s]*[^.\"\s0-9][^.\"\s]*")


Problem: TypeAlias = tuple[int, str]
"""The line of a problem and its sentence, which begins with the file."""


def parse_yaml(
    text: str, name: str, *, decimals: bool = False, faults: list[Problem] | None = None
) -> tuple[Data, dict[str, int]]:
    """Return the value of the one document in `text`, and the line of every dotted path in it.

    An empty document is an empty mapping. Numbers are whole; with `decimals` also finite decimal ones. Raises
    PolicyError with one sentence that names `name`, the line, and what is allowed instead. Where `faults` are gathered,
    what is wrong is noted, LEFT_OUT stands for it, and the rest is read: to name all that is wrong, never for use.
    """
    # A start reads compiled files alone.
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError

    refuse_text(text, name)
    builder = _YamlBuilder(name, decimals, faults)
    try:
        for event in YAML(typ="safe", pure=True).parse(text):
            builder.take_event(event)
    except PolicyError:
        raise
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        what = " ".join(str(error.problem or error.context or "it cannot be read").split())
        line = mark.line + 1 if mark else builder.line
        refuse(name, line, f"this is not YAML ({escape_text(what, 200)}); correct it there")
    except Exception:
        # The parser answers some malformed escapes with whatever it stumbles over.
        builder.refuse("this is not YAML; check quotes, escapes and indentation")
    return builder.value if builder.documents and builder.value is not None else {}, builder.lines


def format_path(path: Path) -> str:
    """Return a path as people write it; keys that hold dots or look like numbers are put in quotes."""
    return ".".join(
        str(step) if isinstance(step, int) or _PLAIN_KEY.fullmatch(step) else json.dumps(step, ensure_ascii=False)
        for step in path
    )


def name_path(path: Path, data: Data) -> str:
    """Return a path within `data` as people write it, with an entry of a list under its id where it has one."""
    named: list[str | int] = []
    for step in path:
        try:
            data = data[step]
        except (KeyError, IndexError, TypeError):
            data = None
        name = data.get("id") if isinstance(step, int) and isinstance(data, dict) else None
        named.append(name if isinstance(name, str) and name else step)
    return format_path(tuple(named))


def escape_text(text: object, longest: int = 80) -> str:
    """Return a text of the file for a sentence: short, and with everything that does not print written as escapes."""
    cut = str(text)[:longest]
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in cut)


def refuse(name: str, line: int, sentence: str) -> NoReturn:
    raise PolicyError(f"{name}:{line}: {sentence}")


def refuse_text(text: str, name: str) -> None:
    """Raise PolicyError for a text that is too large or holds half a character."""
    try:
        size = len(text.encode("utf-8")) if len(text) <= MAX_BYTES else MAX_BYTES + 1
    except UnicodeEncodeError as error:
        refuse(name, text.count("\n", 0, error.start) + 1, _HALF)
    if size > MAX_BYTES:
        raise PolicyError(f"{name}: the file is larger than {MAX_BYTES} bytes; make it shorter")


class _Open(Struct):
    """A mapping or list that is being read."""

    value: dict[str, Data] | list[Data]
    path: Path
    key: str | None = None


class _YamlBuilder(Struct):
    """Builds values from the parser's events, one at a time, and refuses at the first surprise."""

    name: str
    decimals: bool = False
    faults: list[Problem] | None = None
    value: Data = None
    line: int = 1
    lines: dict[str, int] = field(default_factory=dict)
    documents: int = 0
    open: list[_Open] = field(default_factory=list)

    def refuse(self, sentence: str) -> NoReturn:
        refuse(self.name, self.line, sentence)

    def leave_out(self, sentence: str) -> Any:
        """Refuse what stands here, or where faults are gathered, note it; return what stands for it then."""
        if self.faults is None:
            self.refuse(sentence)
        self.faults.append((self.line, f"{self.name}:{self.line}: {sentence}"))
        return LEFT_OUT

    def take_event(self, event: Any) -> None:
        self.line = event.start_mark.line + 1
        match kind := type(event).__name__:
            case "DocumentStartEvent":
                self.documents += 1
                if self.documents > 1:
                    self.refuse("a second document; one file holds one document")
                if event.tags or event.version not in (None, (1, 2)):
                    self.refuse("a directive; only plain YAML 1.2 is allowed")
            case "AliasEvent":
                gone = self.leave_out(f"the alias `*{escape_text(event.anchor, 40)}`; write the value out")
                if (within := self.find_keyless()) is not None:
                    within.key = gone
                else:
                    self.place_value(gone)
            case "ScalarEvent":
                self.refuse_extras(event)
                if (within := self.find_keyless()) is not None:
                    within.key = self.take_key(within, event)
                else:
                    self.place_value(self.resolve_scalar(event))
            case "MappingStartEvent" | "SequenceStartEvent":
                self.refuse_extras(event)
                if len(self.open) >= MAX_DEPTH:
                    self.refuse(f"nested deeper than {MAX_DEPTH}; flatten it")
                empty: dict[str, Data] | list[Data] = {} if kind == "MappingStartEvent" else []
                self.open.append(_Open(empty, self.place_value(empty)))
            case "MappingEndEvent" | "SequenceEndEvent":
                self.open.pop()

    def find_keyless(self) -> _Open | None:
        """Return the mapping in which a key comes next, None where a value does."""
        within = self.open[-1] if self.open else None
        return within if within is not None and isinstance(within.value, dict) and within.key is None else None

    def refuse_extras(self, event: Any) -> None:
        if event.anchor is not None:
            self.leave_out(f"the anchor `&{escape_text(event.anchor, 40)}`; write the value out where it is needed")
        if event.ctag is not None:
            self.leave_out(f"the tag `{escape_text(event.ctag, 60)}`; only plain values are allowed")

    def take_key(self, within: _Open, event: Any) -> Any:
        """Return a key: text that no other key of its mapping has."""
        key = self.resolve_scalar(event)
        if key is LEFT_OUT:
            return key
        if event.style is None and event.value == "<<":
            return self.leave_out("the merge key `<<`; write the keys out")
        if not isinstance(key, str):
            shown = escape_text(event.value, 40)
            return self.leave_out(f"the key `{shown}` is not text; put it in quotes if it is meant")
        path = format_path((*within.path, key))
        if path in self.lines:
            return self.leave_out(f"the key `{escape_text(key)}` is already on line {self.lines[path]}; keep one")
        self.lines[path] = self.line
        return key

    def place_value(self, value: Data) -> Path:
        """Put a value where it belongs and return its path."""
        if not self.open:
            self.value = value
            return ()
        within = self.open[-1]
        if within.key is LEFT_OUT:
            within.key = None
            # A place of its own.
            return "\0", len(self.faults or ())
        if isinstance(within.value, list):
            path: Path = (*within.path, len(within.value))
            within.value.append(value)
            self.lines[format_path(path)] = self.line
            return path
        if within.key is None:
            self.refuse("a key that is a list or a mapping; keys are text")
        path = (*within.path, within.key)
        within.value[within.key], within.key = value, None
        return path

    def resolve_scalar(self, event: Any) -> Data:
        """Return what a scalar means under the core schema of YAML 1.2; numbers are whole."""
        text: str = event.value
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            # Written as an escape.
            return self.leave_out(_HALF)
        if event.style is not None:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text) or _BASED.fullmatch(text):
            if len(text) > MAX_DIGITS:
                return self.leave_out(f"a number of more than {MAX_DIGITS} digits; use a smaller one")
            return int(text, 0 if _BASED.fullmatch(text) else 10)
        return self.parse_decimal(text) if _FLOAT.fullmatch(text) else text

    def parse_decimal(self, text: str) -> Any:
        """Return a finite decimal number where those are allowed."""
        shown = f"`{escape_text(text, 40)}`"
        if not self.decimals:
            return self.leave_out(f"{shown} is not a whole number; policies hold whole numbers and text in quotes")
        if "n" in text.casefold() or not math.isfinite(number := float(text)):
            return self.leave_out(f"{shown} is no finite number; use one, or put text in quotes")
        return number


def walk_values(data: Data) -> Iterator[tuple[Path, Data]]:
    """Yield every value within `data` with its path, outer ones first."""
    stack: list[tuple[Path, Data]] = [((), data)]
    while stack:
        here, value = stack.pop()
        yield here, value
        if isinstance(value, dict):
            stack.extend(((*here, key), inner) for key, inner in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(((*here, place), inner) for place, inner in reversed(list(enumerate(value))))
