"""`foregate audit verify` with signed checkpoints, `keygen`, `checkpoint` and `prove`, as somebody types them."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from foregate.views.terminal.exit_codes import NOT_VERIFIED, USAGE
from tests.cli.conftest import Cli
from tests.rewritten import find_line, rewrite_log

CHECKED = ["--file", "../checks", "--key", "../key"]


@pytest.fixture
def public(cli: Cli, home: Path) -> str:
    """The public key; there is a session that has ended, and a checkpoint over it."""
    assert cli("run", "in a.txt replace teh with the")[0] == 0
    code, out, err = cli("audit", "keygen", "../key")
    assert (code, err) == (0, "this is the public key; keep it where whoever can write the checkpoints cannot\n")
    assert cli("audit", "checkpoint", *CHECKED)[:2] == (0, "checkpoint 1: over 1 session, 1 of them new or further\n")
    return out.strip()


def change(home: Path, *statements: str) -> None:
    """Change the log as somebody else could."""
    with closing(sqlite3.connect(home / "events.db", isolation_level=None)) as file:
        for statement in statements:
            file.execute(statement)


def verify(cli: Cli, *more: str) -> tuple[int, str]:
    """Verify all sessions by the checkpoints; return the exit code and the first line, without the session's name."""
    code, out, err = cli("audit", "verify", "--checkpoint", "../checks", *more)
    return code, out.splitlines()[0].partition("  ")[2] if out else err


def test_each_way_a_log_may_stand_has_a_line_and_an_exit_code(cli: Cli, home: Path, public: str) -> None:
    assert verify(cli, "--public", public) == (0, "verified: 14 events")
    last = "SELECT max(seq) FROM events"
    change(home, f"DELETE FROM events WHERE seq = ({last})")
    change(home, f"UPDATE leases SET seq = ({last}), hash = (SELECT hash FROM events WHERE seq = ({last}))")
    assert verify(cli) == (
        NOT_VERIFIED,
        "truncated after 13: event 14 is missing: the log was cut off after event 13",
    )
    code, out, _ = cli("audit", "verify", "last")
    assert (code, out.splitlines()[0]) == (0, "consistent: 13 events; completeness of the tail unproven")
    assert cli("audit", "verify", "last", "--complete")[0] == NOT_VERIFIED
    change(home, "UPDATE events SET text = replace(text, 'teh', 'the') WHERE seq = 3")
    assert verify(cli)[1].startswith("tampered at 3: event 3 was changed: its hash does not match")
    change(home, "DELETE FROM events", "DELETE FROM leases")
    code, told = verify(cli)
    assert code == NOT_VERIFIED
    assert told.startswith("foregate: none of the 1 sessions of the checkpoints `../checks` is in this log: they are")


def test_a_session_that_was_taken_away_is_named_by_the_checkpoint(cli: Cli, home: Path, public: str) -> None:
    first = json.loads(cli("audit", "verify", "--json")[1])["session"]
    cli("run", "read a.txt")
    assert cli("audit", "checkpoint", *CHECKED)[1] == "checkpoint 2: over 2 sessions, 1 of them new or further\n"
    for table in ("events", "leases"):
        change(home, f"DELETE FROM {table} WHERE session = '{first}'")
    code, out, err = cli("audit", "verify", "--checkpoint", "../checks", "--json")
    states = {one["session"]: one["state"] for one in map(json.loads, out.splitlines())}
    assert (code, states.pop(first), list(states.values())) == (NOT_VERIFIED, "gone", ["verified"])
    assert "1 session gone from the file (by number: 1)" in err
    assert cli("audit", "verify", first, "--checkpoint", "../checks")[1].startswith("gone: session `")


def test_a_log_written_anew_as_a_whole_is_found_by_the_checkpoint_alone(cli: Cli, home: Path, public: str) -> None:
    session = json.loads(cli("audit", "verify", "--json")[1])["session"]
    rewrite_log(
        home / "events.db", session, lambda lines: find_line(lines, "session_started")["body"].update(model="m")
    )
    assert cli("audit", "verify")[0] == 0
    code, told = verify(cli)
    assert code == NOT_VERIFIED
    assert told.startswith("tampered at 14: event 14 is not the one that was kept: the log was written anew")


def test_one_event_is_proven_to_somebody_who_has_two_files(cli: Cli, public: str) -> None:
    given = ["--checkpoint", "../checks", "--public", public]
    code, out, _ = cli("audit", "prove", "last/5", *given, "--file", "../proof", "--verifier", "../check.py")
    assert (code, out.splitlines()) == (
        0,
        ["proven by checkpoint 1", "check it with `python ../check.py ../proof KEY`, where the key is", public],
    )
    command = [sys.executable, "-I", "-S", "../check.py", "../proof", public]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout.split(",")[0][:16]) == (0, "proven: event 5 ")
    before = Path("../proof").read_bytes()
    assert cli("audit", "prove", "last/5", *given, "--file", "../proof")[0] == USAGE
    assert Path("../proof").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("verify --public 00", "`--public` is the key of checkpoints; name their file with `--checkpoint`"),
        ("verify --checkpoint a.txt", "checkpoint 1 of `a.txt` does not hold: it is no checkpoint of a version"),
        ("verify --checkpoint none", "the checkpoints `none` cannot be read (No such file or directory)"),
        ("verify --checkpoint ../checks --public 00", "`00` is no public key; give the 64 hex digits"),
        (f"verify --checkpoint ../checks --public {'0' * 64}", "checkpoint 1 of `../checks` does not hold: it is sig"),
        ("verify --checkpoint ../key", "checkpoint 1 of `../key` does not hold: it is no checkpoint"),
        ("checkpoint", "name the file of checkpoints with `--file` and the key with `--key`"),
        ("checkpoint --file ../checks --key a.txt", "others may read the key `a.txt`"),
        ("checkpoint --file ../home/checks --key ../key", "`../home/checks` lies beside the log, where it proves noth"),
        (
            "checkpoint --file ../none/checks --key ../key",
            "`../none/checks` cannot be written (there is no such folder",
        ),
        ("keygen ../key", "`../key` is there already, and a key is never written over"),
        ("prove last --checkpoint ../checks --file ../p", "`last` names no event"),
        ("prove last/0 --checkpoint ../checks --file ../p", "there is no event 0"),
        ("prove last/99 --checkpoint ../checks --file ../p", "no checkpoint of `../checks` is over event 99"),
        ("prove last/1 --file ../p", "name the signed checkpoints with `--checkpoint`"),
    ],
)
def test_what_proves_nothing_gets_a_sentence_and_leaves_no_file(cli: Cli, public: str, command: str, why: str) -> None:
    before = {path: path.read_bytes() for path in Path("..").iterdir() if path.is_file()}
    Path("a.txt").chmod(0o644)
    code, out, err = cli("audit", *command.split())
    assert (code, out) == (USAGE, "")
    assert err.startswith(f"foregate: {why}")
    assert err.count("\n") == 1
    assert {path: path.read_bytes() for path in Path("..").iterdir() if path.is_file()} == before
