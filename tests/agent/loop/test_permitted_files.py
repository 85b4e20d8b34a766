"""The files of a folder that were permitted are those that really lie there, whatever leads to them."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate import Agent
from foregate.schemas.judgement import Need
from foregate.testing import ScriptedModel, ScriptedPerson, calls, says
from tests.policies import policy_with

EACH = policy_with(
    {f"{gate}.mode": "off" for gate in ("narration", "uncertainty", "critique", "plan")} | {"approval.mode": "each"}
)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with two folders, and a link from the one into the other."""
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "home"))
    root = tmp_path / "w"
    for folder in ("docs", "src"):
        (root / folder).mkdir(parents=True)
    (root / "docs" / "code").symlink_to("../src")
    return root


async def write(root: Path, path: str, *replies: str) -> list[Need]:
    """Have a new file written in a session of its own; return what was asked."""
    person = ScriptedPerson(replies)
    step = calls(("write_file", {"path": path, "content": "x"}), text="I will write it.")
    async with Agent(model=ScriptedModel([step, says("done")]), workspace=root, person=person, policy=EACH) as agent:
        await agent.run("Write what is missing.")
    person.finish()
    return list(person.needs)


async def test_the_wider_form_goes_for_the_folder_in_later_sessions(project: Path) -> None:
    await write(project, "docs/a.md", "wider")
    assert await write(project, "docs/b.md") == []
    assert await write(project, "docs/deep/c.md") == []
    assert len(await write(project, "src/a.py", "no")) == 1


async def test_a_link_out_of_the_folder_leads_out_of_what_was_permitted(project: Path) -> None:
    await write(project, "docs/a.md", "wider")
    assert len(await write(project, "docs/code/a.py", "no")) == 1
    assert len(await write(project, "docs/../src/a.py", "no")) == 1
    assert list((project / "src").iterdir()) == []


async def test_what_is_protected_within_the_folder_asks(project: Path) -> None:
    await write(project, "docs/a.md", "wider")
    assert len(await write(project, "docs/.envrc", "no")) == 1


async def test_a_plain_yes_and_a_no_permit_nothing_from_now_on(project: Path) -> None:
    await write(project, "docs/a.md", "yes")
    assert len(await write(project, "docs/b.md", "no")) == 1
    assert len(await write(project, "docs/b.md", "no")) == 1
