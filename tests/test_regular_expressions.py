"""Every regular expression has an example in quotes beside it, and the example matches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import zip_longest

from tests.floors import ROOT, sources

LEFT_OUT = ("schemas/late_pattern.py", "telemetry/queries/texts.py", "agent/planning/reader.py")
"""Files whose expressions are built from what they are given, and one without room for a further line."""
QUOTED = re.compile(r"`([^`]+)`|\"([^\"]+)\"|(?<!\w)'([^']+)'")
"""A text in quotes: `"10:30"`."""
ESCAPE = re.compile(r"\\(?:[nrt]|x[0-9a-f]{2}|u[0-9a-f]{4})")
"""A character as a comment writes it: `\\n`, `\\x1b`."""


@dataclass(frozen=True)
class Expression:
    """A statement with a regular expression: its place, the texts in quotes beside it, and its name in the module, ""
    for one that is part of something else."""

    place: str
    examples: tuple[str, ...]
    module: str
    name: str


def find_expressions() -> Iterator[Expression]:
    """Yield every regular expression of the source; a comment with its example is above it, a docstring below."""
    for module, path in sources().items():
        text, file = path.read_text("utf-8"), str(path.relative_to(ROOT))
        if "compile" not in text or file in LEFT_OUT:
            continue
        tree, lines = ast.parse(text), text.splitlines()
        for body in [found for node in ast.walk(tree) if isinstance(found := getattr(node, "body", None), list)]:
            for statement, following in zip_longest(body, body[1:]):
                if not hasattr(statement, "body") and any(map(is_pattern, ast.walk(statement))):
                    beside = f"{read_comments(statement, lines)} {read_docstring(following)}"
                    examples = tuple(one or other or third for one, other, third in QUOTED.findall(beside))
                    name = find_name(statement) if body is tree.body else ""
                    yield Expression(f"{file}:{statement.lineno}", examples, module, name)


def is_pattern(node: ast.AST | None) -> bool:
    """Whether a node of the source compiles a regular expression."""
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("compile_late", "re.compile")


def read_comments(statement: ast.stmt, lines: list[str]) -> str:
    """Return the comments above a statement and within it."""
    first = statement.lineno - 1
    while lines[first - 1].lstrip().startswith("#"):
        first -= 1
    return "\n".join(line for line in lines[first : statement.end_lineno] if line.lstrip().startswith("#"))


def read_docstring(statement: ast.stmt | None) -> str:
    """Return the text of a statement that is nothing but one."""
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return str(ast.literal_eval(statement.value)) if is_text else ""  # type: ignore[union-attr]


def find_name(statement: ast.stmt) -> str:
    """Return the name that a statement gives to one expression, "" for any other statement."""
    if not isinstance(statement, ast.Assign) or not is_pattern(statement.value):
        return ""
    return ast.unparse(statement.targets[0])


def is_matched(pattern: re.Pattern[str] | re.Pattern[bytes], example: str) -> bool:
    """Whether an expression finds something in a text, as it is written or with its escapes read."""
    read = ESCAPE.sub(lambda escape: str(ast.literal_eval(f"'{escape[0]}'")), example)
    if isinstance(pattern.pattern, bytes):
        return any(pattern.search(text.encode("latin-1")) for text in (example, read))  # type: ignore[arg-type]
    return any(pattern.search(text) for text in (example, read))  # type: ignore[arg-type]


def test_every_regular_expression_has_an_example_beside_it() -> None:
    assert [one.place for one in find_expressions() if not one.examples] == []


def test_an_example_of_a_regular_expression_matches() -> None:
    named = [one for one in find_expressions() if one.name and one.examples]
    unmatched = [
        f"{one.place}: {one.examples}"
        for one in named
        if not any(is_matched(getattr(import_module(one.module), one.name), example) for example in one.examples)
    ]
    assert len(named) > 200
    assert unmatched == []
