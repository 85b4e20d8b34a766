"""`audit stats` at the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

from tests.cli.conftest import Cli

EDIT = "in a.txt replace teh with the"


def test_statistics_cover_all_sessions_or_those_named(cli: Cli) -> None:
    cli("run", EDIT)
    cli("run", "run rm a.txt")
    code, out, err = cli("audit", "stats")
    assert (code, err) == (0, "")
    assert out.startswith("2 sessions, 2 tasks, ")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "approvals none asked" in out
    assert "never fired: outside-workspace" in out
    found = json.loads(cli("audit", "stats", "--json")[1])
    assert (found["sessions"], found["advice"]["planner"]["model_calls"], found["held"]) == (2, 0, 1)
    assert json.loads(cli("audit", "stats", "last", "--json")[1])["sessions"] == 1
    assert cli("audit", "stats", "nope")[0] == 2


def test_statistics_of_a_damaged_log_are_one_sentence(cli: Cli, home: Path) -> None:
    cli("run", EDIT)
    with closing(sqlite3.connect(home / "events.db")) as log, log:
        log.execute("UPDATE events SET text = 'x' WHERE json_extract(text, '$.kind') = 'turn_judged'")
    code, out, err = cli("audit", "stats")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    assert "audit verify" in err


def test_statistics_of_no_sessions_are_zeros(cli: Cli) -> None:
    assert cli("audit", "stats")[1].startswith("0 sessions, 0 tasks, 0 judged turns, 0 calls")
