"""Questions over all sessions at the command line."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
import stat
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from pyarrow import parquet
from rich.cells import cell_len

from foregate.cli.selecting import parse_range
from foregate.schemas.errors import UsageError
from foregate.telemetry.queries.rows import DecisionRow, FoundText, SessionRow
from foregate.views.terminal.audit_lists import DECISIONS, PASSAGES, SESSIONS
from foregate.views.terminal.listing import defuse_cell
from tests.cli.conftest import Cli, parse_lines

EDIT = "in a.txt replace teh with the"
HOSTILE = "=cmd|' /C calc'!A0\x1b[2J\u202e<script>\n\t" + "界" * 200


@pytest.fixture
def played(cli: Cli) -> Cli:
    """Two sessions: an edit, and a look outside the workspace that a rule denies."""
    cli("run", EDIT)
    cli("run", "read ../x.txt")
    return cli


def test_decisions_are_found_in_all_sessions_and_written_in_every_form(played: Cli, tmp_path: Path) -> None:
    rows = parse_lines(played("audit", "decisions", "--json")[1])
    assert rows
    assert {row["severity"] for row in rows} >= {"warning"}
    assert not [row for row in rows if row["code"].endswith("_passed")]
    everything = parse_lines(played("audit", "decisions", "--all", "--json")[1])
    assert len({row["session"] for row in everything}) == 2
    assert [row["time"] for row in everything] == sorted((row["time"] for row in everything), reverse=True)

    code, out, _ = played("audit", "decisions", "--all", "--csv", "-")
    table = list(csv.DictReader(io.StringIO(out)))
    assert code == 0
    assert [row["summary"] for row in table] == [defuse_cell(row["summary"]) for row in everything]

    file = tmp_path / "all.parquet"
    assert played("audit", "decisions", "--all", "--parquet", str(file))[:2] == (
        0,
        f"{len(everything)} decisions: {file}\n",
    )
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    found = parquet.read_table(file).to_pylist()
    assert [(row["session"], row["seq"], row["gate"], row["rules"], row["risk"]) for row in found] == [
        (row["session"], row["seq"], row["gate"], row["rules"], row["risk"]) for row in everything
    ]
    assert found[0]["time"].isoformat().startswith(everything[0]["time"][:19])
    code, _, err = played("audit", "decisions", "--parquet", str(file))
    assert (code, len(err.splitlines())) == (2, 1)
    assert played("audit", "decisions", "--csv", str(file), "--overwrite")[0] == 0
    assert played("audit", "decisions", "--json", "--csv", "-")[0] == 2


@pytest.mark.parametrize(
    ("selected", "count"),
    [
        (("--verdict", "deny"), 1),
        (("--gate", "rules", "--verdict", "deny", "--tool", "edit_file"), 0),
        (("--tool", "edit_*"), 1),
        (("--rule", "*", "--code", "denied_by_rule"), 1),
        (("--key", "rules.*"), 1),
        (("--origin", "user", "--risk", "0.."), 2),
        (("--policy-hash", "zz"), 0),
        (("--session", "last"), 1),
    ],
)
def test_sessions_and_words_are_found_by_a_decision_that_the_session_holds(
    played: Cli, selected: tuple[str, ...], count: int
) -> None:
    code, out, err = played("audit", "list", "--json", *selected)
    assert (code, len(parse_lines(out))) == (0, count), err
    found = parse_lines(played("audit", "search", "txt", "--json", *selected)[1])
    assert len({one["session"] for one in found}) == count


def test_sessions_and_words_are_written_in_every_form(played: Cli, tmp_path: Path) -> None:
    for command in (("list",), ("search", "txt")):
        rows = parse_lines(played("audit", *command, "--json")[1])
        table = list(csv.DictReader(io.StringIO(played("audit", *command, "--csv", "-")[1])))
        assert [row["session"] for row in table] == [row["session"] for row in rows] != []
        file = tmp_path / f"{command[0]}.parquet"
        assert played("audit", *command, "--parquet", str(file))[0] == 0
        found = parquet.read_table(file).to_pylist()
        assert [row["session"] for row in found] == [row["session"] for row in rows]
        assert {name: row[name] for row in found for name in ("held", "seq") if name in row}


def test_words_are_found_between_two_moments_where_they_were_written_then(played: Cli) -> None:
    rows = parse_lines(played("audit", "search", "txt", "--limit", "0", "--json")[1])
    last = max(row["time"] for row in rows)
    found = parse_lines(played("audit", "search", "txt", "--since", last, "--limit", "0", "--json")[1])
    moments = [datetime.fromisoformat(row["time"]) for row in found]
    assert moments
    assert datetime.fromisoformat(last) - min(moments) <= timedelta(milliseconds=1)  # the index counts those


def test_a_table_says_what_it_leaves_out(played: Cli) -> None:
    out = played("audit", "decisions", "--limit", "1")[1].splitlines()
    assert (out[0].split()[0], out[1][:2]) == ("DECISION", "20")
    assert [line for line in out if line.endswith("--all shows them")]
    assert played("audit", "decisions", "--tool", "nothing")[1] == "no decision fits\n"
    shown = played("audit", "show", "last")[1].splitlines()
    assert shown[-1].endswith("only passed; --all shows them")
    hidden = int(shown[-1].split()[0])
    everything = played("audit", "show", "last", "--all")[1].splitlines()
    assert len(everything) == len(shown) - 1 + hidden
    assert [line for line in everything if line not in shown]
    assert set(shown[:-1]) <= set(everything)


def test_the_filters_of_a_list_and_of_one_session_select(played: Cli) -> None:
    names = [row["session"] for row in parse_lines(played("audit", "list", "--json")[1])]
    newest, oldest = parse_lines(played("audit", "list", "--json")[1])
    assert (newest["allowed"], newest["held"] + newest["denied"], oldest["denied"]) == (0, 1, 0)
    of_state = parse_lines(played("audit", "list", "--state", oldest["state"], "--json")[1])
    assert [row["session"] for row in of_state if row["session"] in names] == [
        row["session"] for row in (newest, oldest) if row["state"] == oldest["state"]
    ]
    assert parse_lines(played("audit", "list", "--text", "teh", "--json", "--since", "1h")[1])[0]["session"] == names[1]
    assert played("audit", "list", "--until", "2020-01-01")[1:] == ("", "no session fits\n")
    assert played("audit", "list", "--state", "blokced")[0] == 2
    assert len(parse_lines(played("audit", "list", "--limit", "1", "--json")[1])) == 1
    points = parse_lines(played("audit", "show", names[0], "--tool", "read_*", "--verdict", "deny", "--json")[1])
    assert [point["gate"] for point in points] == ["rules"]
    assert parse_lines(played("audit", "show", names[1], "--target", "../*", "--json")[1]) == []


def test_a_session_that_cannot_be_read_whole_is_listed_and_named(played: Cli, home: Path) -> None:
    with closing(sqlite3.connect(home / "events.db")) as log, log:
        log.execute("UPDATE events SET text = 'x' WHERE seq = 3 AND session = (SELECT max(session) FROM leases)")
    code, out, err = played("audit", "list")
    assert (code, len(out.splitlines()), len(err.splitlines())) == (0, 3, 1)
    assert "event 3 cannot be read" in err
    assert "audit verify" in err


def test_words_are_shown_where_they_stand(played: Cli) -> None:
    found = parse_lines(played("audit", "search", "teh", "--json")[1])
    assert {"request", "call"} <= {row["what"] for row in found}
    assert all("teh" in row["excerpt"] for row in found)
    assert played("audit", "search", "teh", "--limit", "1")[1].count("\n") == 2, "the names of the columns, and one"
    assert played("audit", "search", "nowhere")[1:] == ("", "found nowhere\n")
    assert played("audit", "search", "--", "--")[0] == 2


def test_statistics_cover_what_the_filters_select(played: Cli) -> None:
    one = json.loads(played("audit", "stats", "--target", "../*", "--json")[1])
    assert (one["sessions"], one["tasks"], one["held"]) == (1, 1, 1)
    assert one["gates"]["rules"]["fired"] == 1
    none = json.loads(played("audit", "stats", "--until", "2020-01-01", "--json")[1])
    assert (none["sessions"], none["turns"]) == (0, 0)


def test_a_home_that_only_can_be_read_is_indexed_in_the_cache(
    played: Cli, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from foregate.assembly.home import find_index_path

    assert find_index_path(home) == home / "index.db"
    monkeypatch.setattr(os, "access", lambda path, mode: not str(path).startswith(str(home)))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = find_index_path(home)
    assert path is not None
    assert path.is_relative_to(tmp_path / "cache")
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert find_index_path(home) is None


def test_two_sessions_are_shown_side_by_side(played: Cli) -> None:
    newest, oldest = [row["session"] for row in parse_lines(played("audit", "list", "--json")[1])]
    shown = played("audit", "diff", oldest, newest)[1]
    assert f"A  {oldest}\nB  {newest}\n" in shown
    assert "The policies are the same." in shown
    assert json.loads(played("audit", "diff", oldest, newest, "--json")[1])["policy"] == {}
    assert played("audit", "diff", oldest, "nope")[0] == 2


def row(**fields: object) -> DecisionRow:
    """Return a decision of which everything a model could say is hostile."""
    usual: dict[str, object] = dict.fromkeys(DecisionRow.__struct_fields__, HOSTILE)
    return DecisionRow(**{**usual, "seq": 7, "standing": "deny", "rules": (HOSTILE,), "risk": 500, "id": 1, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [0, 40, 80, 200])
def test_what_a_recorded_session_says_cannot_upset_a_terminal(width: int) -> None:
    session = SessionRow("20260101-000000-abcd", 3, 1, "open", HOSTILE, HOSTILE, HOSTILE, HOSTILE, last=HOSTILE)
    lists = {
        DECISIONS: row(session="20260101-000000-abcd").to_json(),
        PASSAGES: FoundText("20260101-000000-abcd", 7, "", "request").to_json(HOSTILE),
        SESSIONS: session.to_json(),
    }
    lines = [line.plain for listing, one in lists.items() for line in listing.format([one], width)]
    assert all(line.isprintable() for line in lines)
    assert all(cell_len(line) <= width for line in lines if width)


@pytest.mark.parametrize("width", [0, 40, 120])
def test_a_cell_shows_what_nobody_would_see_once(width: int) -> None:
    shown = [line.plain for line in DECISIONS.format([row(session="a\u202eb", tool="c\u202ed").to_json()], width)]
    assert [line for line in shown if "a\\u{202E}b" in line]
    assert not [line for line in shown if "u{5C}" in line]


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", "\uff0b1", "\uff0d1", "\uff201"]
)
def test_no_cell_begins_as_a_formula(text: str) -> None:
    assert defuse_cell(text).startswith("'")


def test_a_csv_reads_back_as_many_cells_as_were_written() -> None:
    file = io.StringIO(newline="")
    rows = [row(), row(tool='a","=1', target="x;=1\r\n=2")]
    assert DECISIONS.write_csv([one.to_json() for one in rows], file) == 2
    head, *cells = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert [len(line) for line in cells] == [len(head)] * 2
    assert all(cell.isprintable() for line in cells for cell in line)
    assert not [cell for line in cells for cell in line if cell.startswith(("=", "+", "-", "@"))]


@pytest.mark.parametrize("text", ["", "..", "x", "1..2..3", "-5", "99999"])
def test_a_range_that_is_none_is_one_clear_error(text: str) -> None:
    with pytest.raises(UsageError, match="no range"):
        parse_range(text)
