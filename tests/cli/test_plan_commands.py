"""`foregate plan`, `execute` and `plans` as commands: what they print, what they leave, their exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from foregate.telemetry.sqlite_log import SqliteLog
from foregate.telemetry.verify import verify_session
from tests.cli.conftest import Cli

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
    assert (code, Path("a.txt").read_text()) == (0, "teh cat\n")
    code, out, _ = cli("plans", "show", "last", "--json")
    assert [task["status"] for task in json.loads(out)["results"]] == ["done", "aborted"]
    assert cli("plans", "retry", "last", "--yes")[0] == 0
    assert Path("a.txt").read_text() == "the cat\n"
    log = SqliteLog(home / "events.db")
    names = json.loads(cli("plans", "list", "--json")[1])
    assert all(verify_session(log, about["session"]).ok for about in names)
    log.close()


def test_without_a_person_and_without_yes_nothing_runs(cli: Cli, saved: Path) -> None:
    for named in (str(saved), "last"):
        code, _, err = cli("execute", named)
        assert (code, Path("a.txt").read_text()) == (2, "teh cat\n")
        assert "--yes" in err


def test_a_dry_run_changes_nothing_and_says_what_would_run(cli: Cli, saved: Path) -> None:
    code, out, _ = cli("execute", "last", "--dry-run", "--json")
    report = json.loads(out)
    assert (code, report["dry_run"], Path("a.txt").read_text()) == (0, True, "teh cat\n")
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
        (("plans", "retry", "last", "--task", "9"), "did not fail"),
        (("execute", "last", "--yes", "--step"), "exclude"),
        (("plan", " "), "say what to plan"),
        (("plan", "check", "nowhere.json"), "cannot be read"),
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
