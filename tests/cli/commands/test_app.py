"""The command line: what goes where."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.assembly.home import Home
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.app import app
from foregate.schemas.event_body import STATUSES
from foregate.schemas.version import __version__
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.views.terminal.exit_codes import STATUS
from tests.cli.conftest import Cli, Piped, parse_lines
from tests.forever import FOREVER
from tests.full_disk import no_room_for
from tests.policies import EVERYTHING_OFF, policy_with


def test_every_status_has_an_exit_code_of_its_own() -> None:
    assert set(STATUS) == {*STATUSES, "needs_input", "awaiting_approval", "paused"}
    assert len(set(STATUS.values()) | {1, 2, 8, 9}) == len(STATUS) + 4


def list_commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield words
    for name, child in getattr(command, "commands", {}).items():
        yield from list_commands(child, (*words, name))


@pytest.mark.parametrize("words", list(list_commands(get_command(app))), ids=" ".join)
def test_every_command_shows_its_help_by_both_flags_and_by_the_command(cli: Cli, words: tuple[str, ...]) -> None:
    whole = cli(*words, "--help")
    assert whole[0] == 0
    assert whole[1].startswith(f"Usage: {' '.join(('foregate', *words))}")
    assert cli(*words, "-h") == cli("help", *words) == whole


def test_the_version_has_a_short_flag(cli: Cli) -> None:
    assert cli("-V") == cli("--version") == (0, f"foregate {__version__}\n", "")


def test_a_command_nobody_knows_is_one_sentence_with_the_nearest(cli: Cli) -> None:
    nearest = "foregate: there is no command `foregate audit shw`; did you mean `show`?\n"
    assert cli("help", "audit", "shw") == (2, "", nearest)
    assert cli("adit") == (2, "", "foregate: No such command 'adit'. Did you mean 'audit'?\n")
    assert cli("nothing")[2].endswith("; see `foregate --help`\n")
    assert cli("audit", "list", "--nothing")[2].endswith("; see `foregate audit list --help`\n")


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
    Path("shown.yaml").write_text("plan:\n  form: call\n")
    _, out, _ = cli("run", "--json", "--policy", "shown.yaml", "run curl -o b.txt https://example.org/")
    assert Path("b.txt").read_text() == "b"
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
    (about,) = parse_lines(cli("audit", "list", "--json")[1])
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
    head = out.splitlines()[1].removeprefix("head ")
    assert cli("audit", "verify", "last", "--head", head)[0] == 0
    wrong = f"{about['events']}:{'0' * 64}"
    assert cli("audit", "verify", "last", "--head", wrong)[0] == 8


def test_the_list_of_sessions_names_its_columns_like_that_of_plans_and_prints_a_line_of_json_each(cli: Cli) -> None:
    cli("run", "read a.txt")
    cli("run", "in a.txt replace teh with the")
    heads, newest, oldest = cli("audit", "list")[1].splitlines()
    assert heads.split() == ["SESSION", "EVENTS", "STATE", "ASKED"]
    for row, asked in ((newest, "in a.txt replace teh with the"), (oldest, "read a.txt")):
        assert row[heads.index("ASKED") :] == asked
        assert row[heads.index("STATE") :].split()[0] == "completed"
    assert [about["asked"] for about in parse_lines(cli("audit", "list", "--json")[1])] == [
        "in a.txt replace teh with the",
        "read a.txt",
    ]


def test_replay_notes_are_a_line_of_json_each(cli: Cli) -> None:
    Path("unsure.yaml").write_text("uncertainty:\n  threshold: 1\n")
    cli("run", "--policy", "unsure.yaml", "clean up")
    (note,) = parse_lines(cli("audit", "show", "last", "--notes", "--json")[1])
    assert note["code"] == "uncertainty_clarification"


def test_a_changed_byte_of_the_log_is_exit_code_8(cli: Cli, home: Path) -> None:
    cli("run", "read a.txt")
    with sqlite3.connect(home / "events.db") as connection:
        connection.execute("UPDATE events SET text = replace(text, 'read a.txt', 'read b.txt') WHERE seq = 3")
    connection.close()
    code, out, _ = cli("audit", "verify", "last")
    assert code == 8
    assert "tampered at 3: event 3" in out
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


def test_an_undo_that_breaks_off_says_so_in_three_sentences_and_the_next_goes_on(cli: Cli) -> None:
    size = 4 << 20
    Path("tree").mkdir()
    Path("tree/a").write_text("a")
    Path("tree/b").write_bytes(b"b" * size)

    async def delete() -> None:
        model = ScriptedModel([calls(("delete_path", {"path": "tree", "recursive": True})), says("gone")])
        opened = await open_session(SessionOptions(model=model, policy=policy_with(EVERYTHING_OFF)))
        await run(opened.session, "delete tree")
        await opened.close()

    asyncio.run(delete())
    with no_room_for(size):
        code, out, err = cli("undo", "last")
    assert (code, out) == (1, "")
    assert err.splitlines() == [
        "foregate: cannot write `tree/b`: File too large",
        "foregate: this was done: nothing",
        "foregate: this was not: bring the folder `tree` back (in part); undo again continues",
    ]
    assert cli("audit", "verify", "last")[0] == 0
    assert cli("undo", "last", "--preview")[1].splitlines()[1:] == ["  bring the folder `tree` back"]
    assert cli("undo", "last")[0] == 0
    assert (Path("tree/a").read_text(), Path("tree/b").stat().st_size) == ("a", size)


def test_an_undo_where_the_world_moved_on_is_refused(cli: Cli) -> None:
    cli("run", "in a.txt replace teh with the")
    Path("a.txt").write_text("mine now")
    code, _, err = cli("undo", "last")
    assert code != 0
    assert err.startswith("foregate: ")
    assert Path("a.txt").read_text() == "mine now"


@pytest.mark.parametrize("depth", [0, 1])
def test_the_tools_listed_are_those_a_session_is_offered(cli: Cli, depth: int) -> None:
    Path("mine.yaml").write_text(f"limits:\n  child_depth: {depth}\n")
    events = [json.loads(line) for line in cli("run", "--events", "--policy", "mine.yaml", "hello")[1].splitlines()]
    listed = parse_lines(cli("tools", "list", "--json", "--policy", "mine.yaml")[1])
    assert all(spec.pop("in_force") for spec in listed)
    assert listed == events[0]["body"]["catalogue"]
    assert [spec["name"] for spec in listed if spec["name"] == "delegate"] == ["delegate"] * depth
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


def test_the_shipped_policy_is_named_wherever_a_file_is(cli: Cli, piped: Piped) -> None:
    Path("classic").write_text("narration: {mode: 'off'}\n")
    assert cli("policy", "check", "classic")[:2] == (0, "classic: usable\n")
    shown = cli("policy", "show", "--policy", "classic")[1]
    assert "classic.yaml:" in shown
    assert "narration.mode" not in shown
    assert "narration.mode" in cli("policy", "show", "--policy", "./classic")[1]
    policies = []
    for arguments in (("run", "--json", "replace teh by the in a.txt"), ("chat",)):
        piped("/policy\n/quit\n")
        code, out, _ = cli(*arguments, "--policy", "classic")
        assert code == 0
        policies.append(out)
    assert "plan_accepted" in policies[0]
    assert "classic.yaml" in policies[1]


def test_a_resume_without_anything_open_says_so(cli: Cli) -> None:
    cli("run", "read a.txt")
    assert "nothing waits" in cli("resume", "last")[1]


def test_a_chat_reads_lines_from_a_pipe(cli: Cli, piped: Piped) -> None:
    piped("read a.txt\n/evidence\n/quit\nnever\n")
    code, out, _ = cli("chat")
    assert code == 0
    assert "file a.txt: file_read" in out
    assert "never" not in out


def test_the_real_command_line_starts_and_fails_as_it_says(home: Path) -> None:
    def foregate(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "foregate", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=FOREVER, stdin=subprocess.DEVNULL)

    version = foregate("--version")
    assert (version.returncode, version.stdout.split()[0], version.stderr) == (0, "foregate", "")
    closed = subprocess.run(
        f"'{sys.executable}' -m foregate chat <&-", shell=True, capture_output=True, text=True, timeout=FOREVER
    )
    assert (closed.returncode, closed.stderr) == (0, "")
    wrong = foregate("run", "--nope")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("foregate: ")
    done = foregate("run", "--json", "read a.txt")
    assert (done.returncode, json.loads(done.stdout)["status"], done.stderr) == (0, "completed", "")
    assert Home.path().is_dir()
    assert oct(Home.path().stat().st_mode & 0o777) == "0o700"
