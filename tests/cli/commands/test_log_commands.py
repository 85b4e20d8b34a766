"""`foregate log` and read-only copies, as a person uses them."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.cli.conftest import Cli, parse_lines


@pytest.fixture
def used(cli: Cli, home: Path) -> str:
    """The name of a session of the home that read and changed a file, and ended."""
    assert cli("run", "in a.txt replace teh with the")[0] == 0
    return str(parse_lines(cli("audit", "list", "--json")[1])[0]["session"])


def list_files(folder: Path) -> dict[str, bytes]:
    """Return what a folder holds."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_stats_count_what_there_is(cli: Cli, used: str) -> None:
    code, out, _ = cli("log", "stats")
    assert code == 0
    assert "1 session, 1 ended" in out
    assert "turn_judged" in out
    told = json.loads(cli("log", "stats", "--json")[1])
    assert told["sessions"] == 1
    assert told["missing"] == []
    assert told["freed"] == told["free"] + told["unused"]["bytes"]


def test_a_session_deleted_behind_the_logs_back_is_named(cli: Cli, used: str, home: Path) -> None:
    assert cli("run", "read a.txt")[0] == 0
    with sqlite3.connect(home / "events.db") as file:
        file.execute("DELETE FROM leases WHERE number = 1")
        file.execute("DELETE FROM events WHERE session = ?", (used,))
    file.close()
    out = cli("log", "stats")[1]
    assert "1 session gone from the file (by number: 1)" in " ".join(out.split())
    assert "1 session gone from the file (by number: 1)" in cli("audit", "list")[2]


def test_a_backup_is_audited_like_the_log(cli: Cli, used: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    code, out, _ = cli("log", "backup", str(copy))
    assert code == 0
    assert "all of it verified there" in out
    here = cli("audit", "list", "--json")[1]
    assert cli("audit", "list", "--json", "--home", str(copy))[1] == here
    assert "verified: " in cli("audit", "verify", used, "--home", str(copy))[1]
    code, _, err = cli("log", "backup", str(copy))
    assert code == 1
    assert "there is something at" in err


def test_copy_takes_what_is_named_and_no_more(cli: Cli, used: str, tmp_path: Path) -> None:
    assert cli("run", "read a.txt")[0] == 0
    told = json.loads(cli("log", "copy", used, "--to", str(tmp_path / "one"), "--json")[1])
    assert told["sessions"] == 1
    rows = parse_lines(cli("audit", "list", "--json", "--home", str(tmp_path / "one"))[1])
    assert [row["session"] for row in rows] == [used]


def test_erase_asks_and_leaves_the_proof(cli: Cli, used: str) -> None:
    code, _, err = cli("log", "erase", used)
    assert code == 2
    assert "nobody can be asked here" in err
    code, out, _ = cli("log", "erase", used, "--yes", "--why", "a customer asked")
    assert code == 0
    assert "erased" in out
    assert "erased and there by their hashes alone" in cli("audit", "verify", used)[1]
    code, _, err = cli("undo", used)
    assert code != 0
    assert "was erased by" in err


def test_retain_shows_first_and_then_erases(cli: Cli, used: str) -> None:
    assert cli("log", "retain")[0] == 2
    assert cli("log", "retain", "--older-than", "soon")[0] == 2
    assert "nothing would go" in cli("log", "retain", "--older-than", "1d", "--dry-run")[1]
    shown = json.loads(cli("log", "retain", "--larger-than", "1", "--dry-run", "--json")[1])
    assert [one["session"] for one in shown["expired"]] == [used]
    assert cli("audit", "verify", used)[1].startswith("verified: ")
    told = json.loads(cli("log", "retain", "--larger-than", "1", "--yes", "--json")[1])
    assert told["sessions"] == [used]
    assert json.loads(cli("log", "compact", "--json")[1])["running"] == {}


AS_OTHER = """
import contextlib, io, os, sys
from foregate.cli.app import main
lines = sys.stdin.read().splitlines()
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    for line in lines:  # who they are then may not be able to read the library
        main(line.split())
os.environ["FOREGATE_HOME"] = sys.argv[1]
os.setgid(65534); os.setuid(65534)
for line in lines:
    print(f"[{main(line.split())}]", flush=True)
"""


def run_as_other(home: Path, *commands: str) -> str:
    """Run commands as a user who may only read, and return what they print."""
    own, empty = home.with_name("own"), home.with_name("empty")
    shutil.copytree(home, own)
    empty.mkdir(mode=0o755, exist_ok=True)
    command = [sys.executable, "-Ic", AS_OTHER, str(home)]
    environ = {**os.environ, "FOREGATE_HOME": str(own)}
    given = "\n".join(commands)
    ran = subprocess.run(command, input=given, text=True, env=environ, cwd=empty, capture_output=True, check=False)
    shutil.rmtree(own)
    return ran.stdout + ran.stderr


@pytest.fixture
def copy() -> Iterator[Path]:
    """A place for a copy that others may reach."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder, "copy")


def open_to_others(folder: Path) -> None:
    """Let everybody read a folder, and nobody else write to it."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_audits_a_copy_they_may_only_read(cli: Cli, used: str, home: Path, copy: Path) -> None:
    shutil.copytree(home, copy)
    assert not (copy / "events.db-wal").exists()
    open_to_others(copy)
    before = list_files(copy)
    judged = json.loads(cli("audit", "show", used, "--json")[1].splitlines()[0])
    looks = (f"audit verify {used}", f"audit show {used}", f"audit explain {used}/{judged['address']}", "log stats")
    out = run_as_other(copy, "audit list", *looks)
    assert out.count("[0]") == 5, out
    assert "verified: " in out
    for command in (
        "log compact",
        f"log erase {used} --yes",
        "run hello",
        f"undo {used}",
        "log retain --larger-than 1",
    ):
        refused = run_as_other(copy, command)
        assert "may only be read here" in refused, refused
        assert len(refused.splitlines()) == 2, refused
    assert list_files(copy) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_copy_made_while_the_log_was_written_is_read_whole_or_refused(used: str, home: Path, copy: Path) -> None:
    log = SqliteLog(home / "events.db")
    with sqlite3.connect(home / "events.db") as file:
        file.execute("PRAGMA wal_autocheckpoint=0")
        file.execute("INSERT INTO events VALUES ('x', 1, '', '')")
    shutil.copytree(home, copy)
    file.close()
    log.close()
    assert (copy / "events.db-wal").stat().st_size
    open_to_others(copy)
    assert "[0]" in run_as_other(copy, f"audit verify {used}")
    (copy / "events.db-shm").unlink()
    refused = run_as_other(copy, f"audit verify {used}")
    assert "the newest events of" in refused
    assert "copy both files" in refused


def test_what_is_no_home_is_one_sentence_and_nothing_is_written(
    cli: Cli, used: str, home: Path, tmp_path: Path
) -> None:
    half, broken, newer = tmp_path / "half", tmp_path / "broken", tmp_path / "newer"
    half.mkdir()
    for folder in (broken, newer):
        folder.mkdir()
        shutil.copy(home / "events.db", folder)
    whole = (broken / "events.db").read_bytes()
    (broken / "events.db").write_bytes(whole[:5000] + bytes(5000))
    with sqlite3.connect(newer / "events.db") as file:
        file.execute("PRAGMA user_version = 99")
    file.close()
    before = list_files(tmp_path)
    for folder, sentence in (
        (half, "there is no log in"),
        (tmp_path / "none", "there is no folder"),
        (broken, "the log"),
        (newer, "written by a newer Foregate"),
    ):
        for command in (
            ("audit", "list"),
            ("audit", "verify", used),
            ("log", "stats"),
            ("log", "copy", used, "--to", "x"),
        ):
            code, _, err = cli(*command, "--home", str(folder))
            assert code != 0
            assert sentence in err
            assert len(err.splitlines()) == 1, err
    assert {name: data for name, data in list_files(tmp_path).items() if not name.endswith(("-shm", "-wal"))} == before


def test_undo_of_an_ended_session_leaves_it_proven_and_the_list_names_the_link(cli: Cli, used: str, home: Path) -> None:
    before = cli("audit", "verify", used, "--all")[1]
    assert cli("resume", "last")[0] == 0
    assert cli("undo", used, "--call", "c99.1")[0] == 1
    assert [row["session"] for row in parse_lines(cli("audit", "list", "--json")[1])] == [used]
    assert cli("undo", "last")[0] == 0
    assert Path("a.txt").read_text() == "teh cat\n"
    assert cli("audit", "verify", used, "--all")[1] == before
    assert cli("audit", "verify", "last")[1].startswith("verified: ")
    rows = parse_lines(cli("audit", "list", "--json")[1])
    assert [(row["session"], row["follows"]) for row in rows] == [(f"{used}-2", used), (used, "")]
    assert f"follows {used}" in cli("audit", "list")[1]
    assert f"follows session {used}" in cli("audit", "show", "last")[1]
    assert cli("undo", used[:15])[0] == 1, "a beginning names the first of those that go on with each other"
