"""The page of the architecture says what is so."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
MAKER = runpy.run_path(str(DOCS / "make_architecture.py"))
FIGURE = re.compile(r"\d[\d,]*")
LAG = 0.1
"""How far a figure of the page may be from the tree, so that not every change has to write the page anew."""


def test_the_page_of_the_architecture_is_what_its_maker_writes_now_but_for_the_last_few_lines_of_a_package() -> None:
    made, kept = (" ".join(text.split()) for text in (MAKER["page"](), (DOCS / "architecture.md").read_text("utf-8")))
    assert FIGURE.sub("0", kept) == FIGURE.sub("0", made), "run docs/make_architecture.py"
    pairs = zip(FIGURE.findall(kept), FIGURE.findall(made), strict=True)
    for then, now in ((int(a.replace(",", "")), int(b.replace(",", ""))) for a, b in pairs):
        assert abs(now - then) <= max(2, LAG * now), f"{then} is {now} by now; run docs/make_architecture.py"


def test_the_picture_of_the_floors_is_what_its_maker_draws_now() -> None:
    assert (DOCS / "images" / "floors.svg").read_text("utf-8") == MAKER["picture"](), "run docs/make_architecture.py"


@pytest.mark.parametrize("name", MAKER["CORE"])
def test_the_trusted_core_knows_no_model_no_dialect_no_plan_and_no_command(name: str) -> None:
    below = MAKER["below_all"](MAKER["packages"](), [name])
    strangers = ("agent.models", "agent.dialects", "agent.planning", "agent.serving", "assembly", "cli", "foregate")
    assert not [other for other in below if other.startswith(strangers)]
