"""What the house measures, printed where a bound is broken. Each bound falls; lines alone rise for a new capability."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.floors import FLOORS, ROOT, arrows, sources

MAX_LINES, MAX_FILES, MAX_PACKAGES, MAX_FLOORS = 108_186, 551, 37, 15
"""Of all Python outside tests, benchmarks and docs. That who can write there decides may add 2,000 lines to 107,049."""
MIN_SHARE_OF_COMMENTS = 0.0092
"""Of these lines, comments on a line of their own: reasons, and examples of regular expressions. It only ever rises."""
MAX_NAMES_WITH_TWO_MEANINGS = 1
MAX_LINES_OF_A_FUNCTION = 60
PHRASES = re.compile(
    r"\b(of which|of whom|came of|(?:gone?|goes|going) on with|nobody knows|there is none)\b", re.IGNORECASE
)
"""What needs a second reading: `a name of which nobody knows`."""
MAX_PHRASES = 0


class Definition(NamedTuple):
    """A class or a function, where it is, and how many lines of it follow the first."""

    path: Path
    name: str
    is_class: bool
    further_lines: int


@cache
def list_definitions() -> list[Definition]:
    """Return the classes and functions of the source."""
    return [
        Definition(path, node.name, isinstance(node, ast.ClassDef), (node.end_lineno or 0) - node.lineno)
        for path in sources().values()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_the_house_has_no_more_lines_files_packages_and_floors_than_before() -> None:
    lines = sum(path.read_text("utf-8").count("\n") for path in sources().values())
    measured = {"lines": lines, "files": len(sources()), "packages": len(arrows()), "floors": len(FLOORS)}
    bounds = dict(zip(measured, (MAX_LINES, MAX_FILES, MAX_PACKAGES, MAX_FLOORS), strict=True))
    assert not {what: count for what, count in measured.items() if count > bounds[what]}, measured


def test_enough_lines_say_why_something_is_as_it_is() -> None:
    lines = [line.strip() for path in sources().values() for line in path.read_text("utf-8").splitlines()]
    share = sum(line.startswith("#") for line in lines) / len(lines)
    assert share >= MIN_SHARE_OF_COMMENTS, f"{share:.4f}"


def test_few_class_names_have_two_meanings() -> None:
    places = defaultdict(set)
    for one in list_definitions():
        if one.is_class:
            places[one.name.lstrip("_")].add(str(one.path.relative_to(ROOT)))
    several = {name: sorted(found) for name, found in places.items() if len(found) > 1}
    assert len(several) <= MAX_NAMES_WITH_TWO_MEANINGS, several


def test_a_function_fits_on_a_screen() -> None:
    longer = [
        f"{one.path.name} {one.name}"
        for one in list_definitions()
        if not one.is_class and one.further_lines >= MAX_LINES_OF_A_FUNCTION
    ]
    assert longer == []


def test_the_source_says_ever_less_that_needs_a_second_reading() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {phrase[0]}"
        for path in sources().values()
        for phrase in PHRASES.finditer(path.read_text("utf-8"))
    }
    assert len(found) <= MAX_PHRASES, sorted(found)
