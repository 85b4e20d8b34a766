"""Write docs/architecture.md and its picture: the floors, what each package is, what it imports, and figures."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from textwrap import fill
from typing import Any

from msgspec import Struct

PAGE = Path(__file__).with_name("architecture.md")
PICTURE = Path(__file__).with_name("images") / "floors.svg"
HOUSE: Mapping[str, Any] = runpy.run_path(str(Path(__file__).parents[1] / "tests" / "floors.py"))
CORE = (
    "schemas",
    "evidence",
    "evidence.state",
    "policy.risk",
    "gates",
    "telemetry.log",
    "agent.survey",
    "agent.loop",
)
"""What one must trust for verdicts and the log."""
WINGS = {"agent": "#dbe9f6", "telemetry": "#e5e1f4", "policy": "#fbe8d3", "gates": "#f8dcdc", "evidence": "#dff0e3"}
FACE, NOUNS = "#eeeeee", "#f4f1d0"
WIDTH, HEIGHT, GAP, MARGIN = 1000, 34, 8, 12
HEAD = """\
# The architecture

Generated from the source by `docs/make_architecture.py`. The figures may lag a little behind it, the rest may not.

![The floors, the lowest at the bottom; a file imports only downwards](images/floors.svg)

`gates/evidence.py` may import from `policy` and `schemas`, never from `agent`. The rule: every file imports only from
its own package and from packages on lower floors, also for types and inside functions, and no files import each other
in a circle. `tests/floors.py` lists the floors, and `tests/test_floors.py` checks all of that. Packages side by side on
a floor do not know each other. Links in `src/foregate/` mount the folders `agent/`, `evidence/`, `gates/`, `policy/`,
`schemas/` and `telemetry/` as packages of `foregate`.
"""


class Package(Struct, frozen=True):
    """A package as the page tells of it; `imports` are those on lower floors, the highest first."""

    name: str
    sentence: str
    files: int
    lines: int
    imports: Sequence[str]


def packages() -> dict[str, Package]:
    """Return every package by its name, the highest floor first."""
    found: dict[str, list[Path]] = {}
    for module, path in HOUSE["sources"]().items():
        found.setdefault(HOUSE["package_of"](module), []).append(path)
    named = [name for floor in reversed(HOUSE["FLOORS"]) for name in sorted(floor)]
    arrows = HOUSE["arrows"]()
    return {
        name: Package(
            name,
            sentence_of(found[name]),
            len(found[name]),
            sum(path.read_text("utf-8").count("\n") for path in found[name]),
            [other for other in named if other in arrows[name]],
        )
        for name in named
    }


def sentence_of(files: Sequence[Path]) -> str:
    """Return what a package says of itself."""
    (face,) = (path for path in files if path.name == "__init__.py")
    return " ".join((ast.get_docstring(ast.parse(face.read_text("utf-8"))) or "").split())


def page() -> str:
    """Return the whole page."""
    known = packages()
    parts = [HEAD, core(known), "## The packages, from the top\n"]
    parts += [f"- `{one.name}`: {one.sentence}" for one in known.values()]
    files, lines = sum(one.files for one in known.values()), sum(one.lines for one in known.values())
    arrows = sum(len(one.imports) for one in known.values())
    parts.append(
        f"\nAll {len(known)} packages have {files} files with {lines:,} lines. They stand on {len(HOUSE['FLOORS'])} "
        f"floors, and {arrows} arrows lead from one to another, all downwards."
    )
    return "\n".join(parts) + "\n"


def core(known: Mapping[str, Package]) -> str:
    """Return the section about the part one must trust."""
    lines = sum(known[name].lines for name in CORE)
    whole = sum(one.lines for one in known.values())
    below = below_all(known, CORE)
    more = sum(known[name].lines for name in below)
    named = ", ".join(f"`{name}`" for name in CORE)
    beside = ", ".join(f"`{name}`" for name in known if name in below - set(CORE))
    paragraphs = (
        f"A verdict and the log are worth as much as the code behind them. That code is the core: {named}. It has "
        f"{lines:,} of {whole:,} lines ({100 * lines // whole} %), comments and empty lines included.",
        f"With every package it imports, directly or not, it is {more:,} lines. These are {beside}: the core looks and "
        "acts through them, and cannot judge what they do not report. None is a model, dialect, plan or command.",
    )
    return (
        "\n\n".join(["## The trusted core", *(fill(text, 120, break_on_hyphens=False) for text in paragraphs)]) + "\n"
    )


def below_all(known: Mapping[str, Package], names: Iterable[str]) -> set[str]:
    """Return the packages named and every package they import, directly or not."""
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += known[name].imports
    return found


def picture() -> str:
    """Return the floors as an SVG picture, the highest at the top."""
    known, rows = packages(), list(reversed(HOUSE["FLOORS"]))
    height = 2 * MARGIN + len(rows) * (HEIGHT + GAP) + 2 * GAP + 14
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for row, floor in enumerate(rows):
        names = sorted(floor)
        width = (WIDTH - 2 * MARGIN - GAP * (len(names) - 1)) / len(names)
        top = MARGIN + row * (HEIGHT + GAP)
        drawn += [box(known[name], MARGIN + place * (width + GAP), top, width) for place, name in enumerate(names)]
    below = MARGIN + len(rows) * (HEIGHT + GAP) + 14
    drawn.append(
        f'<text x="{MARGIN}" y="{below}" fill="#333333">A file imports only from its own box and from boxes on lower '
        "floors. A thick edge: the trusted core.</text>"
    )
    return "\n".join([*drawn, "</svg>"]) + "\n"


def box(package: Package, left: float, top: float, width: float) -> str:
    """Return one package of the picture."""
    wing = package.name.split(".")[0]
    fill = NOUNS if wing == "schemas" else WINGS.get(wing, FACE)
    edge = "#333333" if package.name in CORE else "#bbbbbb"
    stroke = 2 if package.name in CORE else 1
    return (
        f'<rect x="{left:.0f}" y="{top}" width="{width:.0f}" height="{HEIGHT}" rx="4" fill="{fill}" stroke="{edge}" '
        f'stroke-width="{stroke}"><title>{escape(package.sentence)}</title></rect>\n'
        f'<text x="{left + width / 2:.0f}" y="{top + HEIGHT / 2 + 4:.0f}" text-anchor="middle" fill="#111111">'
        f"{escape(package.name)}</text>"
    )


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
    PICTURE.write_text(picture(), "utf-8")
