"""Modes and answers at the command line: `run`, `chat`, `chat --json`, `execute` and `plans show`."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from foregate import Agent
from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.agent.models.scripted import ScriptedPerson
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.conversation import ChatSession
from foregate.cli.chat.slash import COMMANDS
from foregate.evidence.state.plan import PlanState
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.plan_sheet import PlanProgressRows
from foregate.views.terminal.screen import Screen
from tests.cli.conftest import Cli, Piped
from tests.cli.typist import Typed, Typist

FIX = 'Fix the typo "teh" -> "the" in a.txt'


@pytest.fixture(autouse=True)
def configuration(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that has every change planned."""
    file = home.parent / "mode.yaml"
    file.write_text("mode: plan\n")
    monkeypatch.setenv("FOREGATE_CONFIG", str(file))
    return file


def test_unattended_a_change_is_planned_and_left_for_execute(cli: Cli) -> None:
    code, out, _ = cli("run", "read a.txt")
    assert (code, "teh cat" in out) == (0, True)
    code, _, err = cli("run", FIX)
    assert (code, Path("a.txt").read_text()) == (3, "teh cat\n")
    assert "foregate execute" in err
    code, out, _ = cli("execute", "last", "--yes", "--json")
    report = json.loads(out)
    assert (code, report["status"], report["further"]) == (0, "completed", None)
    assert Path("a.txt").read_text() == "the cat\n"
    assert report["answer"].startswith("Done: ")
    assert json.loads(cli("plans", "show", "last", "--json")[1])["answer"] == report["answer"]
    assert f"| {report['answer'].splitlines()[0]}" in cli("plans", "show", "last")[1]


def test_a_plan_from_a_file_costs_no_answer_and_its_report_is_the_mechanical_one(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"goal": "look", "tasks": [{"id": 1, "tool": "read_file", "args": {"path": "a.txt"}}]}))
    report = json.loads(cli("execute", str(file), "--yes", "--json")[1])
    assert (report["status"], report["answer"], report["unanswered"]) == ("completed", "", "")


def test_a_configuration_that_cannot_be_read_opens_no_session(cli: Cli, configuration: Path) -> None:
    configuration.write_text("mode: sometimes\n")
    code, _, err = cli("run", "read a.txt")
    assert code == 2
    assert "mode" in err


async def chatted(folder: Path, lines: list[Typed], answers: list[Typed]) -> str:
    """Return what a chat showed."""
    screen, terminal = Screen(Console(file=io.StringIO(), width=100)), Typist(lines, answers)
    person = PersonAtTerminal(screen, terminal)
    setting = SessionOptions(folder, RehearsalModel(), person=person, log=MemoryLog(), environ={}, mode="plan")
    setting.listeners = [screen.show_event]
    opened = await open_session(setting)
    opened.session.subscribe(
        PlanProgressRows(screen, opened.configuration.formatting, PlanState(), ends=True).show_event
    )
    await ChatSession(opened, terminal, screen, person).run_chat()
    await opened.close()
    terminal.finish()
    assert isinstance(screen.console.file, io.StringIO)
    return screen.console.file.getvalue()


async def test_a_chat_shows_the_plan_takes_the_yes_and_says_the_answer_behind_its_bar(home: Path) -> None:
    shown = await chatted(Path(), [FIX, "/mode", "/mode never", "/mode direct", FIX], ["y"])
    assert Path("a.txt").read_text() == "the cat\n"
    assert "| Done: Replace" in shown
    assert shown.index("plan_required") < shown.index("y yes, exactly this") < shown.index("completed")
    assert shown.count("plan_required") == 1
    assert "/mode is plan; say /mode direct, /mode plan, /mode auto" in shown


async def test_a_chat_that_is_told_no_changes_nothing(home: Path) -> None:
    shown = await chatted(Path(), [FIX], ["n"])
    assert Path("a.txt").read_text() == "teh cat\n"
    assert "cancelled" in shown


def test_the_modes_are_completed() -> None:
    assert COMMANDS["/mode"].choices == ("direct", "plan", "auto")


def test_a_program_switches_the_mode_and_is_asked_about_the_plan(cli: Cli, piped: Piped) -> None:
    said = [{"command": "/mode plan"}, {"command": "/mode sideways"}, {"message": FIX}]
    piped("".join(f"{json.dumps(line)}\n" for line in said))
    code, out, _ = cli("chat", "--json")
    lines = [json.loads(line) for line in out.splitlines()]
    asked = next(line for line in lines if line.get("asks") == "task_plan")
    assert (code, asked["answers"]) == (7, ["yes", "step", "edit", "no"])
    assert asked["sheet"]["plan"]["goal"].startswith("Replace")
    assert [line["error"] for line in lines if "error" in line] == ["say `/mode [direct|plan|auto]`"]


async def test_the_person_of_a_library_is_asked(home: Path) -> None:
    person = ScriptedPerson(["yes"])
    async with Agent(model=RehearsalModel(), person=person, log=MemoryLog(), mode="plan") as agent:
        outcome = await agent.run(FIX)
    assert (outcome.status, Path("a.txt").read_text()) == ("completed", "the cat\n")
    assert person.needs[0].request["calls"][1]["effect"] == "edit"


async def test_a_mode_nobody_knows_lets_nothing_be_changed(home: Path) -> None:
    async with Agent(model=RehearsalModel(), log=MemoryLog(), mode="plann") as agent:  # type: ignore[arg-type]
        outcome = await agent.run(FIX)
    assert (outcome.status, Path("a.txt").read_text()) == ("blocked", "teh cat\n")
