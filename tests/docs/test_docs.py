"""The pages say what is so: generated ones are fresh, links lead somewhere, and every page can be found."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import get_args

import pytest

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.codes import CODES, MEANINGS, NOT_RUN, AnyGateCode
from tests.docs.pages import DOCS, PAGES, ROOT, anchors_of, links_of, prose_of, text_of

GENERATED = ("gates", "dialects", "events", "command-line", "python")
"""Pages of the reference that are written by the script `docs/make_<name>.py`."""


def made(name: str) -> object:
    """Return what a script's `page` or `pages` gives now."""
    script = runpy.run_path(str(DOCS / f"make_{name.replace('-', '_')}.py"))
    return script["pages"]() if "pages" in script else script["page"]()


def test_every_code_has_a_meaning_and_every_meaning_a_code() -> None:
    codes = {code for codes in CODES.values() for code in codes} | {*get_args(AnyGateCode), *NOT_RUN}
    assert set(MEANINGS) == codes


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_page_is_what_its_script_writes_now(name: str) -> None:
    assert text_of(DOCS / "reference" / f"{name}.md") == made(name), f"run docs/make_{name.replace('-', '_')}.py"


def test_the_pages_of_the_policy_and_the_configuration_are_what_their_script_writes_now() -> None:
    pages = made("policy")
    assert isinstance(pages, dict)
    for name, page in pages.items():
        assert text_of(DOCS / "reference" / name) == page, "run docs/make_policy.py"


def test_the_list_of_servers_is_what_its_script_writes_now() -> None:
    page, script = DOCS / "reference" / "endpoints.md", runpy.run_path(str(DOCS / "make_servers.py"))
    assert text_of(page) == script["fill"](text_of(page)), "run docs/make_servers.py"
    assert "- **OpenAI** " in text_of(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_to_a_file_and_every_anchor_to_a_heading(page: Path) -> None:
    for path, anchor in links_of(page):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors_of(target), f"{path}#{anchor}"


def test_the_index_links_every_page() -> None:
    linked = {(DOCS / path).resolve() for path, _ in links_of(DOCS / "index.md")}
    assert [page for page in DOCS.rglob("*.md") if page.resolve() not in linked | {DOCS / "index.md"}] == []


def test_the_readme_has_at_most_six_hundred_words_and_the_changelog_two_pages_a_version() -> None:
    seen = re.sub(r"<!-- .*? -->", "", prose_of(ROOT / "README.md"))  # what marks a figure is not shown
    assert len(seen.split()) <= 600
    for version in text_of(ROOT / "CHANGELOG.md").split("\n## ")[1:]:
        assert len(version.split()) <= 750, version.splitlines()[0]


def test_the_captures_of_the_chat_fit_their_terminals_and_hold_what_they_are_to_show() -> None:
    scenes = text_of(DOCS / "reference" / "chat-examples.md").split("\n## ")[1:]
    width = {"An approval on a wide screen": 200}
    whole_screens = (
        "A plan on a low screen",
        "An approval on a wide screen",
        "The tools of a server",
    )
    for scene in scenes:
        title = scene.splitlines()[0]
        captured = scene.split("```")[1].strip("\n").splitlines()
        assert max(map(len, captured)) <= width.get(title, 80)
        assert len(captured) <= 24 if title in whole_screens else captured[0].startswith("you> ")
    for picture in re.findall(r"images/([a-z-]+\.svg)", "".join(scenes)):
        assert (DOCS / "images" / picture).is_file()
    whole = "\n".join(scenes)
    for shown in (
        "  held    ",
        "approve? y",
        "  | + echo",
        "approve? n ",
        "  denied  ",
        "you> /undo",
        "  undone  ",
        "offer them?",
        "go on? s",
        "does it do? r",
        "to allow it",
    ):
        assert shown in whole


def test_the_page_of_the_tools_names_every_tool_and_every_option_of_those_it_lists(
    workspace: Workspace, policy: Policy, tmp_path: Path
) -> None:
    listed = text_of(DOCS / "reference" / "tools.md").partition("\n\nA limit in a call")[0].partition("\n\n- `")[2]
    rows = {name: row for row in f"`{listed}".split("\n- ") for name in re.findall(r"`(\w+)`", row.partition(":")[0])}
    for tool in builtin_tools(workspace, policy, memory=tmp_path / "memory.json"):
        row = rows[tool.spec.name]
        assert [name for name in tool.spec.parameters["properties"] if f"`{name}`" not in row] == [], tool.spec.name
