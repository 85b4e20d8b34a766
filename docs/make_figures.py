"""Write the figures that benchmarks measured into the pages: each stands between two comments that name it.

    It costs <!-- figure overhead: processor time of a turn -->0.54 ms<!-- end -->.

The name is that of a file in `benchmarks/results` and of a figure in it.
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
SHARED: Mapping[str, Any] = runpy.run_path(str(ROOT / "benchmarks" / "figures.py"), run_name="figures")
MARKED = re.compile(r"<!-- figure ([\w-]+): ([^>]+?) -->(.*?)<!-- end -->", re.DOTALL)


def read_figure(benchmark: str, name: str) -> str:
    """Return a figure with its unit. Raises KeyError where no result has it."""
    path = ROOT / SHARED["RESULTS"] / f"{benchmark}.json"
    figures = json.loads(path.read_text("utf-8"))["figures"] if path.exists() else ()
    for figure in figures:
        if figure["name"] == name and "skipped" not in figure:
            return str(SHARED["show_value"](figure["value"], figure.get("unit", "")))
    raise KeyError(f"no result of `{benchmark}` has the figure `{name}`: run `make bench NAMES={benchmark}`")


def fill(text: str) -> str:
    """Return a page with the figures as they were measured last."""
    return MARKED.sub(lambda m: f"<!-- figure {m[1]}: {m[2]} -->{read_figure(m[1], m[2])}<!-- end -->", text)


if __name__ == "__main__":
    for page in PAGES:
        text = page.read_text("utf-8")
        if (filled := fill(text)) != text:
            page.write_text(filled, "utf-8")
