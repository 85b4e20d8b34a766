"""`foregate plan`, `execute` and `plans` as commands: what they print, what they leave, their exit codes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from foregate import Agent
from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.agent.planning.planner import FROM_FILE
from foregate.schemas.event_body import Kind
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session
from tests.cli.conftest import Cli, parse_lines

_SAID: tuple[Kind, ...] = ("user_message", "plan_proposed")
FIX = 'Fix the typo "teh" -> "the" in a.txt'


@pytest.fixture(autouse=True)
def no_configuration(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but the default."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home.parent / "config"))


@pytest.fixture
def saved(cli: Cli, tmp_path: Path) -> Path:
    """A plan file, made by the rehearsal model; nothing ran."""
    file = tmp_path / "plan.json"
    code, out, _ = cli("plan", FIX, "--save", str(file))
    assert (code, Path("a.txt").read_text()) == (0, "teh cat\n")
    assert "nothing has run" in out
    return file


def test_a_plan_is_made_saved_checked_executed_and_taken_back(cli: Cli, saved: Path, home: Path) -> None:
    assert cli("plan", "check", str(saved))[0] == 0
    code, out, _ = cli("execute", str(saved), "--yes")
    assert (code, Path("a.txt").read_text()) == (0, "the cat\n")
    assert [line.split()[0] for line in out.splitlines() if line.startswith("  done")] == ["done", "done"]
    code, out, _ = cli("plans", "rollback", "last")
    assert (code, out, Path("a.txt").read_text()) == (0, "taken back: edit_file a.txt\n", "teh cat\n")
    assert parse_lines(cli("plans", "list", "--json")[1])[0]["state"] == "rolled back"
    code, out, _ = cli("plans", "show", "last", "--json")
    assert [task["status"] for task in json.loads(out)["results"]] == ["done", "aborted"]
    assert cli("plans", "retry", "last", "--yes")[0] == 0
    assert Path("a.txt").read_text() == "the cat\n"
    log = SqliteLog(home / "events.db")
    names = parse_lines(cli("plans", "list", "--json")[1])
    assert all(verify_session(log, about["session"]).ok for about in names)
    log.close()


def test_what_was_filled_in_or_resolved_is_said_once(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "foreign.yaml"
    file.write_text("tasks: [{id: 1, reason: Look, calls: [{tool: file_read, arguments: {path: a.txt}}]}]\n")
    for command in (("plan", "check", str(file)), ("execute", str(file), "--yes"), ("execute", str(file), "--dry-run")):
        code, out, _ = cli(*command)
        assert (code, out.count("`file_read` is our `read_file`")) == (0, 1)


def test_without_a_person_and_without_yes_nothing_runs(cli: Cli, saved: Path) -> None:
    for named in (str(saved), "last"):
        code, out, err = cli("execute", named)
        assert (code, Path("a.txt").read_text()) == (3, "teh cat\n")
        assert "nobody is here to confirm it" in err
        assert "--yes" in err
        code, out, _ = cli("execute", named, "--json")
        assert (code, json.loads(out)["status"], "nobody is here" in out) == (3, "blocked", True)


def test_a_dry_run_changes_nothing_and_says_what_would_run(cli: Cli, saved: Path) -> None:
    code, out, _ = cli("execute", "last", "--dry-run", "--json")
    report = json.loads(out)
    assert (code, report["dry_run"], Path("a.txt").read_text()) == (0, True, "teh cat\n")
    assert parse_lines(cli("plans", "list", "--json")[1])[0]["state"] == "dry run"
    assert [task["status"] for task in report["tasks"]] == ["done", "skipped"]


def test_a_failed_plan_says_so_is_retried_and_may_be_run_anew(cli: Cli, saved: Path) -> None:
    Path("a.txt").write_text("no typo\n")
    code, out, _ = cli("execute", "last", "--yes", "--json")
    assert (code, json.loads(out)["status"]) == (5, "failed")
    Path("a.txt").write_text("teh dog\n")
    code, out, _ = cli("plans", "retry", "last", "--yes", "--json")
    report = json.loads(out)
    assert (code, [task["status"] for task in report["tasks"]]) == (0, ["done", "done"])
    Path("a.txt").write_text("teh end\n")
    code, out, _ = cli("execute", "last", "--yes", "--json")
    assert (code, json.loads(out)["session"] != report["session"]) == (0, True)
    assert Path("a.txt").read_text() == "the end\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("execute", "nowhere"), "no plan"),
        (("plans", "show", "nowhere"), "no plan"),
        (("plans", "resume", "last"), "not under way"),
        (("plans", "retry", "last", "--yes"), "nothing to retry"),
        (("plans", "rollback", "last"), "has not run"),
        (("plans", "retry", "last", "--task", "9"), "did not fail"),
        (("execute", "last", "--yes", "--step"), "exclude"),
        (("plan", " "), "say what to plan"),
        (("plan", "check", "nowhere.json"), "cannot be read"),
        (("plan", "check"), "name one plan file"),
        (("plan", "check", "a", "b"), "name one plan file"),
        (("plan", "check", "a.txt", "--save", "b.json"), "name one plan file"),
        (("execute", "last", "--yes", "--set", "2.pth=b.txt"), "did you mean `2.path`"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(cli: Cli, saved: Path, arguments: tuple[str, ...], says: str) -> None:
    code, _, err = cli(*arguments)
    assert code == 2
    assert says in err
    assert len(err.strip().splitlines()) == 1


def test_a_plan_file_that_is_wrong_names_everything_and_runs_nothing(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    calls = [{"tool": "frobnicate", "arguments": {}}]
    file.write_text(json.dumps({"goal": "g", "tasks": [{"id": 1, "calls": calls, "depends_on": [2]}, {"id": 2}]}))
    for command in (("plan", "check", str(file)), ("execute", str(file), "--yes")):
        code, out, _ = cli(*command)
        assert code == 2
        assert "frobnicate" in out
        assert "  defect" in out


def test_a_request_nobody_can_plan_ends_with_a_question(cli: Cli) -> None:
    code, out, _ = cli("plan", "frobnicate it", "--json")
    assert (code, json.loads(out)["plan"], json.loads(out)["tries"]) == (6, None, 3)


def test_a_saved_plan_never_takes_the_place_of_anything(cli: Cli, tmp_path: Path) -> None:
    there, link = tmp_path / "there.json", tmp_path / "link.json"
    there.write_text("mine")
    link.symlink_to(tmp_path / "elsewhere.json")
    for file in (there, link, tmp_path / "no" / "folder.json"):
        code, out, err = cli("plan", FIX, "--save", str(file))
        assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert there.read_text() == "mine"
    assert not (tmp_path / "elsewhere.json").exists()


def test_json_tells_everything_that_was_found(cli: Cli, tmp_path: Path) -> None:
    made = json.loads(cli("plan", FIX, "--json")[1])
    assert made["digest"]
    assert {"plan", "defects", "warnings", "notes", "session", "tries"} <= made.keys()
    file = tmp_path / "foreign.yaml"
    file.write_text("tasks: [{id: 1, reason: Look, calls: [{tool: file_read, arguments: {path: nothing.txt}}]}]\n")
    found = json.loads(cli("plan", "check", str(file), "--json")[1])
    assert (found["sound"], found["plan"]["tasks"][0]["calls"][0]["tool"]) == (True, "read_file")
    assert any("`file_read` is our `read_file`" in note for note in found["notes"])
    assert found["warnings"][0]["task"] == 1
    file.write_text("tasks: [{id: 2, calls: [{tool: frobnicate}]}]\n")
    code, out, _ = cli("execute", str(file), "--yes", "--json")
    told = json.loads(out)
    assert (code, told["sound"], {defect["field"] for defect in told["defects"]}) == (2, False, {"id", "calls.1.tool"})


@pytest.fixture
def talked(home: Path) -> str:
    """A session in which a second plan took the place of one that ran."""

    async def talk() -> str:
        async with Agent(model=RehearsalModel()) as agent:
            planning = await agent.plan(FIX)
            assert planning.plan is not None
            await agent.execute(planning.plan, confirmed=True)
            await agent.plan("read a.txt")
            return agent.session

    return asyncio.run(talk())


def test_every_plan_of_a_session_is_listed_shown_and_run_anew(cli: Cli, talked: str) -> None:
    listed = parse_lines(cli("plans", "list", "--json")[1])
    assert [(about["name"], about["state"]) for about in listed] == [
        (talked, "not confirmed"),
        (f"{talked}/1", "completed"),
    ]
    text = cli("plans", "list")[1].splitlines()
    assert text[0].split() == ["PLAN", "MADE", "DONE", "FAILED", "STATE", "GOAL"]
    assert text[2].split()[:1] + text[2].split()[3:6] == [f"{talked}/1", "2/2", "-", "completed"]
    for name in (f"{talked}/1", "last/1", listed[1]["id"]):
        shown = json.loads(cli("plans", "show", name, "--json")[1])
        assert [task["status"] for task in shown["results"]] == ["done", "done"]
    assert "| gave: teh cat" in cli("plans", "show", "last/1")[1]
    for name, *more in (("resume",), ("retry", "--yes"), ("rollback",)):
        code, _, err = cli("plans", name, f"{talked}/1", *more)
        assert (code, "a later plan of the session" in err) == (2, True)
    Path("a.txt").write_text("teh dog\n")
    assert cli("execute", f"{talked}/1", "--yes")[0] == 0
    assert Path("a.txt").read_text() == "the dog\n"
    assert cli("plans", "show", f"{talked}/3")[0] == 2


def test_a_plan_is_run_again_with_other_values_as_another_plan(cli: Cli, saved: Path, home: Path) -> None:
    Path("b.txt").write_text("teh bird\n")
    before = json.loads(cli("plans", "show", "last", "--json")[1])
    code, out, _ = cli("execute", "last", "--yes", "--set", "1.path=b.txt", "--set", "2.calls.1.path=b.txt")
    assert (code, Path("a.txt").read_text(), Path("b.txt").read_text()) == (0, "teh cat\n", "the bird\n")
    assert '`2.calls.1.path` is now "b.txt" (was "a.txt")' in out
    after = json.loads(cli("plans", "show", "last", "--json")[1])
    assert after["digest"] != before["digest"]
    assert after["plan"]["metadata"]["derived_from"] == {
        "plan": before["id"],
        "digest": before["digest"],
        "set": ["1.calls.1.path", "2.calls.1.path"],
        "source": before["name"],
    }
    assert json.loads(cli("plans", "show", before["name"], "--json")[1])["state"] == "not confirmed"
    log = SqliteLog(home / "events.db")
    told = [(event.actor, getattr(event.body, "text", None)) for event in log.events(after["name"], kinds=_SAID)]
    log.close()
    assert told == [("person", None), ("user", FROM_FILE)], "the words of the copied plan are not the person's"


def test_other_values_are_checked_and_confirmed_anew(cli: Cli, saved: Path) -> None:
    code, out, _ = cli("execute", str(saved), "--yes", "--set", "2.path=../a.txt")
    assert (code, "outside" in out, Path("a.txt").read_text()) == (2, True, "teh cat\n")
    code, _, err = cli("execute", str(saved), "--set", "2.new=a")
    assert (code, "--yes" in err, Path("a.txt").read_text()) == (3, True, "teh cat\n")
    code, _, err = cli("execute", str(saved), "--yes", "--set", "2.pth=a.txt")
    assert (code, "did you mean `2.path`? task 2 has `2.path`" in err) == (2, True)


def test_a_list_fits_the_terminal_whatever_goals_say(cli: Cli, talked: str, home: Path) -> None:
    from foregate.cli.plans import PLANS
    from foregate.views.terminal.plan_finding import list_log_plans, summarise_plan

    log = SqliteLog(home / "events.db")
    found = [summarise_plan(entry) for entry in list_log_plans(log)]
    log.close()
    lines = [line.plain for line in PLANS.format(found, 100)]
    assert [len(line) <= 100 for line in lines] == [True] * 3
    assert lines[1].endswith("Read a.txt")
    assert lines[2].endswith("…")
    assert [*PLANS.format([], 90)] == []


def test_a_plan_that_asks_after_a_failure_goes_on_as_resume_says(cli: Cli, tmp_path: Path) -> None:
    wrong = {"tool": "edit_file", "arguments": {"path": "a.txt", "old": "not there", "new": "x"}}
    made = {"tool": "write_file", "arguments": {"path": "b.txt", "content": "made"}}
    file = tmp_path / "asking.json"
    tasks = [{"id": 1, "calls": [wrong]}, {"id": 2, "calls": [made]}]
    file.write_text(json.dumps({"goal": "g", "on_failure": "ask", "tasks": tasks}))
    for choice, code, exists in ((("--failed", "stop"), 3, False), (("--failed", "go-on"), 5, True), ((), 5, True)):
        assert cli("execute", str(file), "--yes")[0] == 10
        assert cli("plans", "resume", "last", "--failed", "perhaps")[0] == 2
        assert cli("plans", "resume", "last", *choice)[0] == code, choice
        assert Path("b.txt").exists() is exists
        Path("b.txt").unlink(missing_ok=True)
