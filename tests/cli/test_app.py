"""The command line: what goes where, and what becomes of bad input."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from foregate.cli.app import main
from foregate.cli.exit_codes import STATUS
from foregate.home import Home, find_session
from foregate.schemas.event import STATUSES
from foregate.telemetry.sqlite_log import SqliteLog

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def home(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own, no endpoint, and the workspace as current folder."""
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "FOREGATE_MODEL", "FOREGATE_POLICY"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "home"
    monkeypatch.setenv("FOREGATE_HOME", str(path))
    monkeypatch.chdir(folder)
    (folder / "a.txt").write_text("teh cat\n")
    return path


@pytest.fixture
def cli(home: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs a command in this process; gives exit code, standard output and standard error."""

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(list(arguments))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int, Any], None]]:
    """An endpoint on loopback that answers every request with the given status and JSON."""
    answer: dict[str, Any] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            body = json.dumps(answer["body"]).encode()
            self.send_response(answer["status"])
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Stay quiet."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield lambda status, body: answer.update(status=status, body=body)
        server.shutdown()
        thread.join()


def test_every_status_has_an_exit_code_of_its_own() -> None:
    assert set(STATUS) == {*STATUSES, "needs_input", "awaiting_approval"}
    assert len(set(STATUS.values()) | {1, 2, 8, 9}) == len(STATUS) + 4


def test_run_prints_the_answer_alone_to_standard_output(cli: Cli) -> None:
    code, out, err = cli("run", "read a.txt")
    assert code == 0
    assert "teh cat" in out
    assert "held" not in out
    assert "the rehearsal model answers" in err
    assert "ran     read_file a.txt" in err


def test_run_prints_one_object_for_scripts(cli: Cli) -> None:
    code, out, err = cli("run", "--json", "in a.txt replace teh with the")
    said = json.loads(out)
    assert (code, err, said["status"]) == (0, "", "completed")
    assert set(said) == {"status", "text", "report", "session", "notes", "decisions"}
    assert {"validity", "prelude"} <= {point["gate"] for point in said["decisions"]}
    assert Path("a.txt").read_text() == "the cat\n"


def test_run_prints_events_as_they_stand_in_the_log(cli: Cli, home: Path) -> None:
    code, out, err = cli("run", "--events", "read a.txt")
    assert (code, err) == (0, "")
    events = [json.loads(line) for line in out.splitlines()]
    assert (events[0]["kind"], events[-1]["kind"]) == ("session_started", "session_ended")
    log = SqliteLog(home / "events.db")
    stored = [hash_ for _, _, hash_ in log.lines(events[0]["session"])]
    log.close()
    assert [event["hash"] for event in events] == stored


def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    cli("run", "--dry-run", "in a.txt replace teh with the")
    assert Path("a.txt").read_text() == "teh cat\n"


def test_what_would_need_a_person_is_denied_and_reported(cli: Cli) -> None:
    Path("b.txt").write_text("b")
    _, out, _ = cli("run", "--json", "run rm b.txt")
    assert Path("b.txt").exists()
    assert "approval_required" in {point["code"] for point in json.loads(out)["decisions"]}


def test_a_question_of_the_agent_has_its_own_exit_code(cli: Cli) -> None:
    Path("unsure.yaml").write_text("uncertainty:\n  threshold: 1\n")
    code, out, err = cli("run", "--policy", "unsure.yaml", "clean up")
    assert code == STATUS["needs_input"]
    assert out.strip()
    assert "uncertainty: uncertainty_clarification" in err


def test_sessions_are_listed_shown_filtered_and_verified(cli: Cli) -> None:
    assert cli("audit", "list") == (0, "", "there are no sessions yet; `foregate chat` begins one\n")
    cli("run", "in a.txt replace teh with the")
    (about,) = json.loads(cli("audit", "list", "--json")[1])
    assert (about["asked"], about["state"], about["tasks"]) == ("in a.txt replace teh with the", "completed", 1)
    assert about["session"] in cli("audit", "list")[1]
    points = [json.loads(line) for line in cli("audit", "show", "last", "--json")[1].splitlines()]
    shown = cli("audit", "show", "last", "--gate", "validity")[1].splitlines()
    assert len(shown) == sum(point["gate"] == "validity" for point in points) > 0
    assert cli("audit", "show", "last", "--severity", "error") == (0, "", "")
    assert cli("audit", "show", "last", "--notes")[0] == 0
    code, out, _ = cli("audit", "verify", about["session"][:-2])
    assert code == 0
    assert out.startswith(f"verified: {about['events']} events\nhead {about['events']}:")
    head = out.split()[-1]
    assert cli("audit", "verify", "last", "--head", head)[0] == 0
    wrong = f"{about['events']}:{'0' * 64}"
    assert cli("audit", "verify", "last", "--head", wrong)[0] == 8


def test_a_changed_byte_of_the_log_is_exit_code_8(cli: Cli, home: Path) -> None:
    cli("run", "read a.txt")
    with sqlite3.connect(home / "events.db") as connection:
        connection.execute("UPDATE events SET text = replace(text, 'read a.txt', 'read b.txt') WHERE seq = 3")
    connection.close()
    code, out, _ = cli("audit", "verify", "last")
    assert code == 8
    assert "not verified: event 3" in out
    assert json.loads(cli("audit", "verify", "last", "--json")[1])["ok"] is False


def test_undo_shows_first_and_then_restores(cli: Cli) -> None:
    cli("run", "in a.txt replace teh with the")
    code, out, _ = cli("undo", "last", "--preview")
    assert (code, Path("a.txt").read_text()) == (0, "the cat\n")
    assert "a.txt" in out
    code, out, _ = cli("undo", "last")
    assert (code, Path("a.txt").read_text()) == (0, "teh cat\n")
    code, _, err = cli("undo", "last")
    assert code == 1
    assert "nothing" in err


def test_an_undo_where_the_world_moved_on_is_refused(cli: Cli) -> None:
    cli("run", "in a.txt replace teh with the")
    Path("a.txt").write_text("mine now")
    code, _, err = cli("undo", "last")
    assert code != 0
    assert err.startswith("foregate: ")
    assert Path("a.txt").read_text() == "mine now"


def test_tools_are_listed_with_what_they_declare(cli: Cli) -> None:
    names = {spec["name"] for spec in json.loads(cli("tools", "list", "--json")[1])}
    assert {"read_file", "run_shell", "git_commit", "remember"} <= names
    assert "delete_path" in cli("tools", "list")[1]


def test_the_policy_is_shown_with_where_values_come_from(cli: Cli, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("limits:\n  turns: 7\n")
    code, out, _ = cli("policy", "show", "--policy", str(mine))
    assert code == 0
    assert "limits.turns" in out
    assert "mine.yaml" in out
    assert "limits.tokens" not in out
    assert "limits.tokens" in cli("policy", "show", "--effective", "--policy", str(mine))[1]
    assert cli("policy", "check", str(mine))[0] == 0
    rows = json.loads(cli("policy", "show", "--json", "--policy", str(mine))[1])["values"]
    assert rows == [{"key": "limits.turns", "value": 7, "from": "mine.yaml:2"}]


def test_a_policy_check_names_every_problem(cli: Cli) -> None:
    Path("bad.yaml").write_text("limits:\n  turms: 7\n  tokens: many\n")
    code, out, err = cli("policy", "check", "bad.yaml")
    assert (code, out) == (2, "")
    assert "bad.yaml:2" in err
    assert json.loads(cli("policy", "check", "--json", "bad.yaml")[1])["usable"] is False


def test_a_resume_without_anything_open_says_so(cli: Cli) -> None:
    cli("run", "read a.txt")
    assert "nothing waits" in cli("resume", "last")[1]


def test_a_chat_reads_lines_from_a_pipe(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO("read a.txt\n/evidence\n/quit\nnever\n"))
    code, out, _ = cli("chat")
    assert code == 0
    assert "file a.txt: file_read" in out
    assert "never" not in out


BAD = {
    "no such command": (("nope",), 2),
    "wrong flag": (("run", "--nope", "x"), 2),
    "two kinds of output": (("run", "--json", "--events", "x"), 2),
    "empty task": (("run", " "), 2),
    "missing argument": (("undo",), 2),
    "no workspace": (("run", "--workspace", "/nowhere/at/all", "x"), 2),
    "model without endpoint": (("run", "--model", "big", "x"), 2),
    "unknown session": (("audit", "show", "nope"), 2),
    "unknown session to verify": (("audit", "verify", "nope"), 2),
    "unknown session to undo": (("undo", "nope"), 2),
    "unknown session to resume": (("resume", "nope"), 2),
    "unknown session to chat": (("chat", "--resume", "nope"), 2),
    "no head": (("audit", "verify", "nope", "--head", "x"), 2),
    "unknown policy key": (("policy", "check", "bad.yaml"), 2),
    "broken policy in force": (("run", "--policy", "bad.yaml", "x"), 2),
    "no policy file": (("run", "--policy", "none.yaml", "x"), 2),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence_and_a_usage_exit_code(name: str, cli: Cli) -> None:
    Path("bad.yaml").write_text("limits:\n  turms: 7\n")
    arguments, expected = BAD[name]
    code, out, err = cli(*arguments)
    assert (code, out) == (expected, "")
    assert err.startswith("foregate: ")
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_an_unknown_filter_names_the_nearest(cli: Cli) -> None:
    cli("run", "read a.txt")
    code, _, err = cli("audit", "show", "last", "--gate", "evidnce")
    assert code == 2
    assert "did you mean `evidence`" in err


def test_a_log_that_is_not_ours_is_left_alone(cli: Cli, home: Path) -> None:
    home.mkdir(mode=0o700)
    (home / "events.db").write_bytes(b"somebody's notes, not a database\n" * 100)
    before = (home / "events.db").read_bytes()
    for arguments in (("run", "x"), ("audit", "list")):
        code, _, err = cli(*arguments)
        assert code == 1
        assert len(err.splitlines()) == 1
    assert (home / "events.db").read_bytes() == before


@pytest.mark.parametrize(("status", "message"), [(401, "Incorrect API key"), (404, "The model `big` does not exist")])
def test_a_wrong_key_or_model_fails_the_task_with_a_sentence(
    status: int, message: str, cli: Cli, endpoint: Callable[[int, Any], None]
) -> None:
    endpoint(status, {"error": {"message": message, "type": "invalid_request_error"}})
    code, out, err = cli("run", "--model", "big", "hello")
    assert (code, out) == (STATUS["failed"], "")
    assert "Traceback" not in err
    assert "failed" in err


def test_a_session_open_elsewhere_has_its_own_exit_code(cli: Cli, home: Path) -> None:
    import asyncio

    cli("run", "read a.txt")
    log = SqliteLog(home / "events.db")

    async def claim() -> None:
        await log.claim(await find_session(log, "last"))

    asyncio.run(claim())
    code, _, err = cli("undo", "last")
    log.close()
    assert code == 9
    assert "open in" in err


def test_the_real_command_line_starts_and_fails_as_it_says(home: Path) -> None:
    def foregate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "foregate", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)

    version = foregate("--version")
    assert (version.returncode, version.stdout.split()[0], version.stderr) == (0, "foregate", "")
    wrong = foregate("run", "--nope")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("foregate: ")
    done = foregate("run", "--json", "read a.txt")
    assert (done.returncode, json.loads(done.stdout)["status"], done.stderr) == (0, "completed", "")
    assert Home.path().is_dir()
    assert oct(Home.path().stat().st_mode & 0o777) == "0o700"
