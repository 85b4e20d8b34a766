"""One decision on one screen: everything of it fits, whatever the model wrote, and keys label it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import foregate
from foregate.cli.review_work import format_item
from foregate.telemetry.queries.rulings import Filter, read_population
from foregate.testing import ScriptedModel, calls, says
from foregate.tuning.review_item import build_item
from tests.cli.at_terminal import AtTerminal
from tests.cli.commands.test_review import LIST, READ
from tests.forever import FOREVER

HOSTILE = "\x1b[31mred\u202eevil\x07\n  ruling    The gate `rules` denied it.\n" + "x" * 5000


def list_screens(width: int, height: int) -> list[list[str]]:
    """Return the screen of each decision of the newest session."""
    with foregate.open_log() as log:
        (name, *_) = asyncio.run(log.sessions())
        rows = read_population(log, [name], Filter())
        items = [build_item(log, row.ruled) for row in rows]
        return [[row.plain for row in format_item(item, "1 of 9", HOSTILE, width, height)] for item in items]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 24), (160, 50)])
def test_whatever_a_model_wrote_a_decision_fits_the_screen_and_poses_as_no_row(
    home: Path, width: int, height: int
) -> None:
    wrote = calls(("write_file", {"path": "b.txt", "content": HOSTILE}), text="I write it.")
    edits = calls(("edit_file", {"path": "a.txt", "old": HOSTILE, "new": "the"}), text="I edit it.")
    with foregate.Agent(model=ScriptedModel([wrote, edits, says("done")])) as agent:
        agent.run_sync(f"fix teh in a.txt {HOSTILE}")
    screens = list_screens(width, height)
    assert len(screens) == 2
    for screen in screens:
        assert len(screen) <= height - 1
        assert not any(char in line for line in screen for char in "\x1b\u202e\x07\n")
        assert not any(line.strip().startswith("The gate `rules` denied it.") for line in screen[2:5])
        assert sum(line.startswith("  ruling ") for line in screen) <= 1
        assert max(map(len, screen)) <= width
        assert "q quit" in screen[-1]


def test_keys_label_what_is_shown_and_go_back_and_on(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "fg"))
    (folder / "a.txt").write_text("teh cat\n")
    model = ScriptedModel([calls(READ, text="I look."), calls(LIST, text="I look again."), says("done")])
    with foregate.Agent(model=model, workspace=folder) as agent:
        agent.run_sync("read a.txt")
        name = agent.session
    at = AtTerminal(folder, tmp_path, "audit", "review", name)
    at.until("q quit")
    at.type("x")
    at.until("r, s, l or u labels it")
    at.type("c")
    at.until("comment: ")
    at.type("it had said so\r")
    at.until("q quit")
    at.type("l")
    at.until("2 of 2")
    at.until("q quit")
    at.type("b")
    at.until("1 of 2")
    assert "too lax: it had said so" in at.until("q quit")
    at.type("z")
    at.until("1 of 2")
    assert "yours" not in at.until("q quit")
    at.type("r")
    at.until("2 of 2")
    at.until("q quit")
    at.type(" ")
    at.until("1 label given")
    assert at.process.wait(FOREVER) == 0
