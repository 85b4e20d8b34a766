"""The pages say what is so: the generated one is fresh, links lead somewhere, and the log's page names every kind."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from foregate.agent.tools.builtin.builtin import builtin_tools
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.codes import CODES, NOT_RUN
from foregate.schemas.event import Event
from foregate.schemas.event_body import KINDS
from foregate.schemas.meanings import MEANINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_every_code_has_a_meaning_and_every_meaning_a_code() -> None:
    codes = {code for codes in CODES.values() for code in codes} | {"gate_error", *NOT_RUN}
    assert set(MEANINGS) == codes


def test_the_page_of_the_gates_is_what_its_maker_writes_now() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_gates.py"))["page"]()
    assert (ROOT / "docs" / "gates.md").read_text("utf-8") == made, "run docs/make_gates.py"


def test_the_page_of_the_dialects_is_what_its_maker_reads_and_runs_now() -> None:
    made = runpy.run_path(str(ROOT / "docs" / "make_dialects.py"))["page"]()
    assert (ROOT / "docs" / "dialects.md").read_text("utf-8") == made, "run docs/make_dialects.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_page_of_the_log_names_every_kind_and_every_field_of_an_event() -> None:
    text = (ROOT / "docs" / "log.md").read_text("utf-8")
    assert [kind for kind in KINDS if f"`{kind}`" not in text] == []
    assert [field for field in Event.__struct_fields__ if f"`{field}`" not in text and field != "hash"] == []


def test_the_captures_of_the_chat_fit_their_terminals_and_hold_what_they_are_to_show() -> None:
    scenes = (ROOT / "docs" / "chat.md").read_text("utf-8").split("\n## ")[1:]
    width = {True: 40, False: 80}
    for scene in scenes:
        captured = scene.split("```")[1].strip("\n").splitlines()
        assert max(map(len, captured)) <= width[scene.startswith("Forty")]
        assert captured[0].startswith("you> ")
    whole = "\n".join(scenes)
    for shown in ("  held    ", "approve? y", "  | + echo", "approve? n ", "  denied  ", "you> /undo", "  undone  "):
        assert shown in whole


def test_the_page_of_the_tools_names_every_tool_and_every_option_of_those_it_lists(
    workspace: Workspace, policy: Policy, tmp_path: Path
) -> None:
    text = (ROOT / "docs" / "tools.md").read_text("utf-8")
    table = [row for row in text.splitlines() if row.startswith("| `")]
    rows = {name: row for row in table for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    for tool in builtin_tools(workspace, policy, memory=tmp_path / "memory.json"):
        row = rows[tool.spec.name]
        if "| |" not in row:
            assert [name for name in tool.spec.parameters["properties"] if f"`{name}`" not in row] == [], tool.spec.name
