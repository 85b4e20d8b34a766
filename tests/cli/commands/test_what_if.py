"""`policy what-if` at the command line."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli

EMPTY = "{}\n"
NO_EDIT = "rules:\n  list:\n    - {id: no-edit, then: deny, tool: edit_file}\n"
EDIT = "in a.txt replace teh with the"


def what_if(cli: Cli, policy: str, *more: str) -> tuple[int, str, str]:
    """Run `policy what-if` over a file that says `policy`."""
    Path("new.yaml").write_text(policy)
    return cli("policy", "what-if", "new.yaml", *more)


def objects(out: str) -> list[dict[str, Any]]:
    """Return the objects of lines of JSON."""
    return [json.loads(line) for line in out.splitlines()]


def test_nothing_differs_under_the_same_policy_whatever_files_it_was_made_of(cli: Cli) -> None:
    Path("mine.yaml").write_text("narration: {min_chars: 30}\nfiles: {secret: [x.key]}\n")
    Path(".foregate.yaml").write_text("files: {secret: [z.pem]}\nlimits: {needs_per_gate: 1}\n")
    cli("run", "--policy", "mine.yaml", EDIT)
    cli("run", "--policy", "mine.yaml", "run rm a.txt")
    Path(".foregate.yaml").unlink()
    code, out, err = cli("policy", "what-if", "mine.yaml", "--json")
    assert (code, err) == (0, "")
    (summary,) = objects(out)
    assert (summary["kind"], summary["sessions"], summary["values"]) == ("summary", 2, {})
    assert summary["calls"]["unchanged"] == summary["turns"] > 2


def test_the_log_and_the_file_inside_the_workspace_make_no_difference(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(folder / "state"))
    Path("mine.yaml").write_text(EMPTY)
    cli("run", "--policy", "mine.yaml", EDIT)
    code, out, _ = cli("policy", "what-if", "mine.yaml", "--json")
    assert (code, objects(out)[-1]["values"]) == (0, {})


def test_the_table_fits_eighty_columns_marks_the_divergence_and_ends_with_one_sentence(cli: Cli) -> None:
    cli("run", EDIT)
    code, out, err = what_if(cli, NO_EDIT + "limits: {turns: 9}\n")
    assert (code, err) == (0, "")
    *table, sentence = out.splitlines()
    assert all(len(line) <= 80 for line in table)
    marked = [line for line in table if "first divergence" in line]
    assert len(marked) == 1
    assert "newly held      edit_file a.txt" in marked[0]
    assert any("let through -> denied by rules (denied_by_rule)" in line for line in table)
    assert any("rules.list.no-edit: none -> {" in line for line in table)
    assert any("limits.turns" in line for line in table)
    assert sentence.startswith("Under new.yaml, of ")
    assert "1 newly held" in sentence
    assert sentence.endswith(".")


def test_sessions_can_be_named(cli: Cli) -> None:
    cli("run", EDIT)
    cli("run", "read a.txt")
    assert objects(what_if(cli, NO_EDIT, "last", "--json")[1])[-1]["sessions"] == 1
    rows = objects(what_if(cli, NO_EDIT, "--json")[1])
    assert [row["kind"] for row in rows] == ["call", "summary"]
    assert (rows[0]["keys"], rows[0]["diverges"], rows[-1]["sessions"]) == (["rules.list.no-edit"], True, 2)
    assert objects(what_if(cli, NO_EDIT, rows[0]["session"], rows[0]["session"], "--json")[1]) == [
        rows[0],
        rows[-1] | {"sessions": 1, "turns": rows[-1]["turns"] - 1, "calls": rows[-1]["calls"] | {"unchanged": 1}},
    ]


def test_a_bad_file_is_named_as_by_policy_check(cli: Cli) -> None:
    Path("new.yaml").write_text("limits:\n  turms: 7\n  turns: x\n")
    assert cli("policy", "what-if", "new.yaml") == cli("policy", "check", "new.yaml")
    assert cli("policy", "what-if", "none.yaml")[0] == 2


def test_an_unknown_session_is_one_sentence(cli: Cli) -> None:
    code, out, err = what_if(cli, EMPTY, "nope")
    assert (code, out) == (2, "")
    assert err.startswith("foregate: there is no session `nope`")


CHANGES = {
    "no event": ("text = 'x'", "turn_judged"),
    "no verdicts": ("text = json_remove(text, '$.body.judgement.verdicts')", "turn_judged"),
    "no such answer": ("text = json_set(text, '$.body.turn.answers', json('[99]'))", "turn_judged"),
    "no policy": ("text = json_set(text, '$.body.policy', 3)", "session_started"),
    "no response": ("", "model_response"),
    "no beginning": ("", "session_started"),
}


def damage(home: Path, change: str, kind: str) -> None:
    """Change the events of a kind in the log of a home, or take them out where there is no change."""
    what = f"UPDATE events SET {change}" if change else "DELETE FROM events"
    with closing(sqlite3.connect(home / "events.db")) as log, log:
        log.execute(f"{what} WHERE json_extract(text, '$.kind') = ?", (kind,))


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_log_is_one_sentence(name: str, cli: Cli, home: Path) -> None:
    cli("run", EDIT)
    damage(home, *CHANGES[name])
    code, _, err = what_if(cli, NO_EDIT)
    assert code == 1
    assert err.startswith("foregate: ")
    assert len(err.splitlines()) == 1
    assert "audit verify" in err
    code, out, err = cli("policy", "levers")
    assert (code in (1, 2), out, len(err.splitlines())) == (True, "", 1), "what cannot be judged again claims nothing"


def test_levers_of_a_log_with_one_damaged_session_name_it_and_claim_nothing(cli: Cli, home: Path) -> None:
    for _ in range(2):
        cli("run", EDIT)
    with closing(sqlite3.connect(home / "events.db")) as log, log:
        whole, session = (name for (name,) in log.execute("SELECT DISTINCT session FROM events"))
        change, kind = CHANGES["no verdicts"]
        log.execute(
            f"UPDATE events SET {change} WHERE session = ? AND json_extract(text, '$.kind') = ?", (session, kind)
        )
    for _ in range(2):  # the second time most of it is indexed
        code, out, err = cli("policy", "levers", whole, session)
        assert (code, out, len(err.splitlines())) == (1, "", 1)
        assert f"session `{session}` cannot be read" in err
    code, _, err = what_if(cli, NO_EDIT)
    assert (code, f"audit verify {session}" in err) == (1, True)


def test_worker_processes_find_what_one_process_finds_in_the_same_order(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        cli("run", EDIT)
        Path("a.txt").write_text("teh cat\n")
    alone = what_if(cli, NO_EDIT, "--json")
    monkeypatch.setattr("foregate.tuning.pieces.EVENTS_PER_PIECE", 4)
    monkeypatch.setattr("foregate.tuning.pieces.MIN_EVENTS_FOR_WORKERS", 0)
    monkeypatch.setattr("foregate.tuning.pieces.cores", lambda: 2)
    assert what_if(cli, NO_EDIT, "--json") == alone


def test_what_a_worker_process_cannot_read_is_one_sentence(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("run", EDIT)
    damage(home, "", "model_response")
    monkeypatch.setattr("foregate.tuning.pieces.MIN_EVENTS_FOR_WORKERS", 0)
    monkeypatch.setattr("foregate.tuning.pieces.cores", lambda: 2)
    code, _, err = what_if(cli, NO_EDIT)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "cannot be judged again" in err


def test_with_assumed_answers_three_lines_say_how_sure_each_part_is(cli: Cli) -> None:
    cli("run", EDIT)
    code, out, err = what_if(cli, NO_EDIT, "--assume", "person=yes")
    assert (code, err) == (0, "")
    lines = out.splitlines()[-4:]
    titles = ["before the first divergence (exact): ", "at it (exact): ", "after it (estimated): ", "Recorded -> now."]
    assert [line.startswith(title) for line, title in zip(lines, titles, strict=True)] == [True] * 4
    assert "1 call, 1 newly held; plans 0, critiques 0, prompts 0" in lines[1]


SET = ["set", "narration.min_chars", "3", "--policy", "new.yaml", "--dry-run"]


@pytest.mark.parametrize("command", [["what-if", "new.yaml"], ["levers"], ["fuzz"], SET], ids=lambda one: one[0])
def test_sessions_that_another_version_recorded_are_named(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    Path("new.yaml").write_text(EMPTY)
    cli("run", EDIT)
    assert "another version" not in cli("policy", *command)[2]
    monkeypatch.setattr("foregate.tuning.rejudging.__version__", "9.9")
    _, _, err = cli("policy", *command)
    assert "recorded by another version of Foregate: 1 by 0." in err
    assert err.endswith(", of 1 in all; this is 9.9, whose gates may judge them otherwise\n")
