"""Figures on the pages come from a run: each stands in the results of a benchmark, or is none that was measured."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, FENCE, ROOT, text_of

SCRIPT = runpy.run_path(str(DOCS / "make_figures.py"))
PAGES = [
    page for page in SCRIPT["PAGES"] if not re.search(r"^Generated from", text_of(page), re.MULTILINE | re.IGNORECASE)
]
"""The pages that people write: what a script writes has no figures but those of the source."""
UNIT = (
    r"(?:[mµun]?s|(?:milli|micro)?seconds?|minutes?|hours?|[kKMGT]i?B|(?:kilo|mega|giga)?bytes?|x|times|%|"
    r"per ?cent|(?:requests|prompts|turns|calls|decisions|events|sessions) (?:a|per) (?:turn|task|call|second|minute))"
)
MEASURED = re.compile(
    rf"(?<![\w.])\d[\d,.]*[ -]?{UNIT}(?!\w)|\b(?:milli|micro)seconds?\b|\b(?:half|twice) as\b"
    r"|(?<!Python )(?<!Linux )(?<!YAML )(?<![\w.])\d+\.\d+(?![\w.])",
    re.I,
)
"""What reads as a figure: `0.54 ms`, `7.5 times`, `330 MB`, `1.2x`, `85 %`, `under a millisecond`, `twice as long`, and
in a cell of a table `3.55`."""
OTHERS: Mapping[str, Mapping[str, str]] = {
    "CONTRIBUTING.md": {"more than 5 %": "the bound of a test"},
    "docs/explanation/log.md": {"larger than 750 KB": "a bound of snapshots"},
    "docs/explanation/mandate.md": {
        "is 1200.5": "an example of a value",
        "lies | 85 % |": "a bar",
        "run | 0.3 | 0.63 | 0.82 |": "a bar, and work that others recorded, which is no part of the project",
        "requests | 0.3 | 0.23 | 0.47 |": "a bar, and work that others recorded",
        "person) | 15 to 25 % | 25 % | 29 % |": "a bar, and work that others recorded",
    },
    "docs/how-to/export-trajectories.md": {"1.8": "the version of a format"},
    "docs/reference/trajectories.md": {"1.8": "the version of a format"},
    "docs/explanation/classic.md": {"20 bytes": "a key of the policy, as it was"},
    "docs/reference/endpoints.md": {
        "300 seconds": "a setting of the client",
        "20 seconds": "a setting of the client",
        "60 seconds": "a setting of the client",
        "64 MiB": "a bound of the client",
        "30 minutes": "a bound of the client",
        "10 minutes": "a bound of the client",
    },
    "docs/how-to/export-telemetry.md": {"2 seconds": "a bound of the exporter"},
    "docs/how-to/write-a-policy.md": {"256 KiB": "a bound of the reader"},
    "docs/reference/order.md": {"4 MB": "a bound of the order"},
    "docs/reference/plans.md": {"96 KiB": "a bound of the reader"},
    "docs/reference/runtime.md": {"in milliseconds": "the unit of a field"},
}
"""Of each page the numbers that nobody measured, as they stand in it, with what they are."""


def prose_of(page: Path) -> str:
    """Return what a page says without code, and without the figures that are marked."""
    text = FENCE.sub("", text_of(page))
    return re.sub(r"`[^`\n]*`", "`code`", SCRIPT["MARKED"].sub("(figure)", text))


def find_unmarked(page: Path) -> Iterator[str]:
    """Yield the figures of a page that come from no result and are not among the others."""
    known = OTHERS.get(str(page.relative_to(ROOT)), {}) if page.is_relative_to(ROOT) else {}
    prose = " ".join(prose_of(page).split())
    for phrase in known:
        assert phrase in prose, f"{page.name} does not say `{phrase}` any more: take it out of OTHERS"
        prose = prose.replace(phrase, "(other)")
    for found in MEASURED.finditer(prose):
        yield prose[max(0, found.start() - 40) : found.end() + 20]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_figure_on_a_page_is_marked_with_the_result_it_comes_from(page: Path) -> None:
    assert list(find_unmarked(page)) == []


def test_every_marked_figure_is_the_one_that_was_measured_last() -> None:
    for page in SCRIPT["PAGES"]:
        assert SCRIPT["fill"](text_of(page)) == text_of(page), f"{page.name}: run docs/make_figures.py"


def test_a_figure_that_no_run_printed_is_found_and_one_of_no_result_cannot_be_written(tmp_path: Path) -> None:
    page = ROOT / "docs" / "explanation" / "concepts.md"
    for claim in ("in 0.54 ms", "1.2x the time", "85 % of all", "under a millisecond", "twice as fast", "| 3.55 |"):
        copy = tmp_path / page.name
        copy.write_text(f"{text_of(page)}\nIt takes {claim}.\n", "utf-8")
        assert len(list(find_unmarked(copy))) == 1, claim
    with pytest.raises(KeyError, match="no result of `overhead`"):
        SCRIPT["fill"]("<!-- figure overhead: of nothing -->0.54 ms<!-- end -->")
