"""`policy explain`, `diff`, `lint` and `shadow` at the command line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Cli

MINE = (
    "narration: {min_chars: 300}\nevidence: {mode: shadow}\n"
    "rules: {list: [{id: no-push, then: deny, tool: git_push}]}\n"
)


def test_a_key_is_explained_with_its_value_its_users_and_how_often_it_decided(cli: Cli) -> None:
    Path("mine.yaml").write_text(MINE)
    cli("run", "--policy", "mine.yaml", "in a.txt replace teh with the")
    cli("run", "--policy", "mine.yaml", "run rm a.txt")
    code, out, err = cli("policy", "explain", "narration.min_chars", "--policy", "mine.yaml", "--json")
    told = json.loads(out)
    assert (code, err) == (0, "")
    assert (told["does"], told["takes"]) == (
        "Characters that count as having said something.",
        "a whole number, 0 or more",
    )
    assert (told["value"], told["from"], told["used_by"]) == (300, "mine.yaml:1", ["narration"])
    plain = cli("policy", "explain", "evidence", "--policy", "mine.yaml")[1]
    assert "keys      evidence.mode, evidence.requirements" in plain
    rule = cli("policy", "explain", "rules.list.no-push", "--policy", "mine.yaml")[1]
    assert "the rule denies calls with tool `git_push`" in rule
    code, _, err = cli("policy", "explain", "narration.min_char")
    assert (code, "did you mean `min_chars`?" in err) == (2, True)


def test_a_gate_in_shadow_is_reported_with_what_it_would_have_done(cli: Cli) -> None:
    code, out, _ = cli("policy", "shadow")
    assert (code, "no gate was in shadow" in out) == (0, True)
    Path("mine.yaml").write_text(MINE)
    cli("run", "--policy", "mine.yaml", "run rm a.txt")
    (report,) = json.loads(cli("policy", "shadow", "--json")[1])
    assert (report["gate"], report["sessions"], report["also"]) == ("evidence", 1, 0)
    assert report["would"] == {"held": 1, "asked": 0, "denied": 0}
    assert [row["code"] for row in report["newest"]] == ["missing_pre_execution_evidence"]
    assert "it would have held 1" in cli("policy", "shadow")[1]
    Path("both.yaml").write_text(f"{MINE}approval: {{mode: each}}\n")
    Path("a.txt").write_text("again\n")
    cli("run", "--policy", "both.yaml", "run rm a.txt")
    (report,) = json.loads(cli("policy", "shadow", "--json")[1])
    assert (report["would"]["held"], report["also"]) == (2, 1)


def test_policies_are_compared_with_files_shipped_ones_and_sessions(cli: Cli) -> None:
    Path("mine.yaml").write_text(MINE)
    cli("run", "--policy", "mine.yaml", "read a.txt")
    code, out, err = cli("policy", "diff", "default", "mine.yaml")
    assert (code, err, len(out.splitlines())) == (0, "", 3)
    assert out.splitlines()[0].startswith("stricter  `narration.min_chars` is 300 instead of 20")
    assert cli("policy", "diff", "default", "balanced")[1] == "the two policies are the same\n"
    rows = json.loads(cli("policy", "diff", "default", "session:last", "--json")[1])
    keys = {row["key"] for row in rows}
    assert keys == {"narration.min_chars", "evidence.mode", "rules.list.no-push", "files.protected"}
    assert cli("policy", "diff", "default", "session:none")[0] == 2


@pytest.mark.parametrize("command", ["check", "lint", "what-if", "rehearse", "apply"])
def test_a_pipe_is_read_once_and_comes_to_what_a_file_of_the_same_words_does(cli: Cli, command: str) -> None:
    cli("run", "run rm a.txt")
    text = "# why\nrules: {list: [{id: a, then: deny, tool: '*'}, {id: b, then: ask, tool: '[ab]'}]}\n"
    Path("mine.yaml").write_text(text)
    Path("own.yaml").write_text("{}\n")
    more = ("--policy", "own.yaml", "--dry-run") if command == "apply" else ()
    code, out, err = cli("policy", command, "mine.yaml", *more)
    reading, writing = os.pipe()
    os.write(writing, text.encode())
    os.close(writing)
    Path("piped").mkdir()
    Path("piped/mine.yaml").symlink_to(f"/dev/fd/{reading}")
    piped = cli("policy", command, "piped/mine.yaml", *more)
    os.close(reading)
    assert (piped[0], *(said.replace("piped/", "") for said in piped[1:])) == (code, out, err)


def test_lint_names_what_it_finds_and_fails_only_where_that_is_wanted(cli: Cli) -> None:
    Path("mine.yaml").write_text(MINE)
    cli("run", "--policy", "mine.yaml", "read a.txt")
    code, out, _ = cli("policy", "lint", "mine.yaml")
    assert code == 0
    assert "mine.yaml:2: a file may be changed that nobody has read" in out
    assert "mine.yaml:3: the rule `no-push` has never fired in the 1 sessions of the log" in out
    assert cli("policy", "lint", "mine.yaml", "--strict")[0] == 1
    assert cli("policy", "lint", "balanced", "--strict")[0] == 0
    Path("new.yaml").write_text(
        "rules: {list: [{id: no-reads, then: ask, tool: read_file}, {id: no-edits, then: ask, tool: edit_file},"
        " {id: no-rm, then: deny, tool: read_file, command: [rm]}]}\n"
    )
    remarks = sorted(row["remark"] for row in json.loads(cli("policy", "lint", "new.yaml", "--json")[1]))
    assert len(remarks) == 2
    assert remarks[0] == "the rule `no-edits` was never in force, and does not match the only call in the log"
    assert remarks[1].startswith("the rule `no-rm` never matches: `read_file` never runs a command")
    Path("bad.yaml").write_text("narration: {mode: on}\nsensitive: {patterns: ['', 'a*']}\n")
    code, _, err = cli("policy", "lint", "bad.yaml")
    assert code == 2
    assert err.count("also matches nothing at all") == 2
