"""`foregate trajectories` at the command line."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from foregate.cli.listing import open_new_file
from foregate.cli.trajectories import parse_moment
from foregate.schemas.errors import UsageError
from tests.cli.conftest import Cli
from tests.telemetry.export.openai_format import check_example

EDIT = "in a.txt replace teh with the"
REMOVE = "run rm a.txt"


@pytest.fixture
def told(cli: Cli) -> Cli:
    """The command line after two sessions, of which the second removed its file where there are sandboxes."""
    cli("run", EDIT)
    cli("run", REMOVE)
    Path("a.txt").unlink(missing_ok=True)
    return cli


def test_an_export_is_one_document_a_line_and_reads_back_as_recorded(told: Cli, folder: Path) -> None:
    code, out, err = told("trajectories", "export", "--check")
    assert code == 0
    assert [json.loads(line)["schema_version"] for line in out.splitlines()] == ["ATIF-v1.8"] * 2
    assert err.startswith("2 sessions, ")
    code, out, err = told("trajectories", "export", "--output", "o.jsonl", "--json")
    assert (code, err, json.loads(out)["sessions"]) == (0, "", 2)
    assert (folder / "o.jsonl").stat().st_mode & 0o777 == 0o600
    code, out, err = told("trajectories", "import", "o.jsonl")
    assert (code, err, out.count("as recorded\n")) == (0, "", 2)
    assert all(json.loads(line)["same"] for line in told("trajectories", "import", "o.jsonl", "--json")[1].splitlines())
    assert json.loads(told("trajectories", "import", "o.jsonl", "--events")[1].splitlines()[0])["seq"] == 1
    turns = told("trajectories", "import", "o.jsonl", "--turns")[1].splitlines()
    assert {"turn", "judgement"} <= set(json.loads(turns[0]))
    assert sorted(os.listdir(folder)) == ["o.jsonl"]


def test_sessions_are_chosen_by_name_by_time_or_all(told: Cli) -> None:
    def names(*arguments: str) -> list[str]:
        return [json.loads(line)["session_id"] for line in told("trajectories", "export", *arguments)[1].splitlines()]

    second, first = names()
    assert names("last")[0] in (first, second)
    assert names(first, second, first) == [first, second]
    assert names("--since", "1h") == [second, first]
    assert names("--since", "2999-01-01") == []
    assert told("trajectories", "export", "nope")[0] == 2


def test_a_file_that_is_there_is_left_as_it_is_unless_that_is_asked_for(told: Cli, folder: Path) -> None:
    (folder / "o").write_text("mine")
    (folder / "link").symlink_to("o")
    for name in ("o", "link", "."):
        code, out, err = told("trajectories", "export", "--output", name)
        assert (code, out) == (2, "")
        assert "already" in err
    assert (folder / "o").read_text() == "mine"
    assert told("trajectories", "export", "--output", "no/o")[0] == 2
    assert told("trajectories", "export", "--output", "o", "--overwrite")[0] == 0
    assert (folder / "o").read_text().startswith("{")
    assert told("trajectories", "export", "--output", ".", "--overwrite")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--format", "csv"), "no format `csv`"),
        (("--content", "some"), "neither `on` nor `off`"),
        (("--pairs",), "`--pairs` goes with `--format openai`"),
        (("--format", "openai", "--content", "off"), "made of texts"),
        (("--format", "openai", "--reward", "json:loads"), "no place for a reward"),
        (("--format", "sao", "--check"), "`--check` goes with"),
        (("--since", "yesterday"), "is no moment"),
        (("--since", ""), "is no moment"),
        (("--since", "99999999999d"), "is no moment"),
        (("--reward", "nothing"), "names no function"),
        (("--policy", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_options_that_cannot_be_used_are_one_sentence(told: Cli, arguments: tuple[str, ...], why: str) -> None:
    code, out, err = told("trajectories", "export", *arguments)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why in err


def test_a_reward_that_fails_leaves_no_file_and_what_one_prints_is_not_part_of_the_export(
    told: Cli, folder: Path
) -> None:
    (folder / "r.py").write_text("def score(trajectory):\n    return float('nan')\n")
    code, _, err = told("trajectories", "export", "--reward", "r.py:score", "--output", "o")
    assert (code, len(err.splitlines())) == (2, 1)
    assert sorted(os.listdir(folder)) == ["r.py"]
    (folder / "r.py").write_text(
        "print(1)\ndef score(trajectory):\n    print(2)\n    return len(trajectory.responses)\n"
    )
    out = told("trajectories", "export", "last", "--format", "sao", "--reward", "r.py:score")[1]
    rewards = [json.loads(line)["reward"] for line in out.splitlines()]
    assert rewards == [*([0.0] * (len(rewards) - 1)), float(len(rewards))]


def test_a_stricter_policy_at_the_export_masks_more(told: Cli, folder: Path) -> None:
    (folder / "p.yaml").write_text("sensitive:\n  patterns: ['the cat|teh cat|replace teh']\n")
    out = told("trajectories", "export", "--policy", "p.yaml", "--output", "o")[1]
    assert "events masked" in out
    assert "teh cat" not in (folder / "o").read_text()
    code, out, _ = told("trajectories", "import", "o")
    assert code == 8
    assert "not as recorded: " in out


def test_a_damaged_session_is_named_and_the_others_are_exported(told: Cli, home: Path) -> None:
    with closing(sqlite3.connect(home / "events.db")) as log, log:
        log.execute("UPDATE events SET text = replace(text, 'rm a', 'rm b') WHERE seq = 3")
    code, out, err = told("trajectories", "export", "--format", "openai")
    assert code == 8
    assert [check_example(line)["messages"][1]["content"] for line in out.splitlines()] == [EDIT]
    assert "was not exported: event 3 was changed" in err


def test_an_export_that_was_cut_is_not_as_it_was_recorded_wherever_it_was_cut(told: Cli, folder: Path) -> None:
    whole = json.loads(told("trajectories", "export", "last")[1])
    for step in range(len(whole["steps"])):
        cut = [one for number, one in enumerate(whole["steps"]) if number != step]
        (folder / "o").write_text(json.dumps({**whole, "steps": cut}))
        code, out, err = told("trajectories", "import", "o")
        assert (code, "as recorded" in out or "not whole" in out, err) == (8, True, "")


@pytest.mark.parametrize("text", ["", "\n\n", "{}\n", "[1]", "x", '{"extra": {"foregate": 3}}'])
def test_a_file_that_is_no_export_is_refused_in_one_sentence(cli: Cli, folder: Path, text: str) -> None:
    (folder / "o").write_text(text)
    code, out, err = cli("trajectories", "import", "o")
    assert (code, out, len(err.splitlines())) == (2 if text.strip() else 0, "", 1 if text.strip() else 0)


def test_a_file_that_cannot_be_read_is_one_sentence(cli: Cli, folder: Path) -> None:
    (folder / "o").write_bytes(b"\xff\xfe")
    for name in ("o", "nowhere", "."):
        code, out, err = cli("trajectories", "import", name)
        assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_a_moment_is_a_date_a_time_or_an_age() -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert parse_moment("12h", now) == datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_moment("2w", now) == datetime(2026, 1, 17, 12, tzinfo=UTC)
    assert parse_moment("2026-01-31") == datetime(2026, 1, 31, tzinfo=UTC)
    assert parse_moment("2026-01-31T09:30+01:00") == datetime(2026, 1, 31, 8, 30, tzinfo=UTC)


def test_what_comes_to_a_name_while_a_file_is_written_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "o"
    file = open_new_file(path)
    file.__enter__().write("ours")
    path.write_text("theirs")
    with pytest.raises(UsageError, match="nothing was written"):
        file.__exit__(None, None, None)
    assert path.read_text() == "theirs"
    assert os.listdir(tmp_path) == ["o"]
