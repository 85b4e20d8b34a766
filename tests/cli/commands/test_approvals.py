"""`foregate approvals`: what waits is listed, shown and answered, without anything of the session that asks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate.agent.session.permissions import find_user
from foregate.testing import ScriptedModel, calls
from tests.cli.conftest import Cli, Piped, parse_lines

POLICY = "version: 1\nrules: {list: [{id: ask, then: ask, tool: '*'}]}\n" + "".join(
    f"{gate}: {{mode: 'off'}}\n" for gate in ("evidence", "plan", "critique")
)
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


@pytest.fixture
def policy(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A policy under which everything asks, that of every command."""
    path = home.with_name("policy.yaml")
    path.write_text(POLICY)
    monkeypatch.setenv("FOREGATE_POLICY", str(path))
    return path


def ask(*wanted: tuple[str, dict[str, Any]], tools: Any = (), text: str = "I will fix a.txt.", user: str = "") -> str:
    """Have a session ask about calls and be gone; return its name."""
    model = ScriptedModel([calls(*wanted, text=text)])
    with foregate.Agent(model=model, person=foregate.AbsentPerson(), tools=tools, user=user) as agent:
        assert agent.run_sync("fix teh in a.txt").status == "awaiting_approval"
        return agent.session


def read_name(cli: Cli) -> str:
    """Return the name of the one question that is open."""
    (row,) = parse_lines(cli("approvals", "list", "--json")[1])
    return str(row["question"])


@pytest.fixture
def name(policy: Path) -> str:
    """The session of a question about one edit."""
    return ask(EDIT)


def test_what_is_open_is_listed_and_shown_with_what_would_change_though_the_workspace_is_gone(
    cli: Cli, name: str, folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    shutil.rmtree(folder)
    code, out, _ = cli("approvals", "list")
    head, row = out.splitlines()
    assert (code, head.split()[0], "edit_file a.txt" in row) == (0, "QUESTION", True)
    assert row.split()[:2] == [f"{name}:{row.split(':')[1].split()[0]}", "open"]
    code, out, _ = cli("approvals", "show", name)
    assert code == 0
    for row in ("- teh cat", "+ the cat", "because", "the rule `ask` says ask", f"approve {name}:"):
        assert row in " ".join(out.split()), row
    shown = json.loads(cli("approvals", "show", name, "--json")[1])
    assert shown["prospects"]["c4.1"]["changes"][0]["diff"] == "@@ -1,1 +1,1 @@\n-teh cat\n+the cat\n"
    assert (shown["answers"], shown["expired"]) == (["yes", "grant", "project", "no"], False)


def test_a_yes_is_recorded_with_the_systems_user_and_resume_with_nobody_there_does_the_call(
    cli: Cli, name: str, folder: Path, piped: Piped
) -> None:
    piped("")
    code, out, _ = cli("resume", name)
    assert (code, f"foregate approvals approve {name}:" in " ".join(out.split())) == (7, True)
    code, out, _ = cli("approvals", "approve", name, "--json")
    told = json.loads(out)
    assert (code, told["delivery"], told["by"], told["answer"]) == (0, "recorded", find_user(), "yes")
    assert (folder / "a.txt").read_text() == "teh cat\n"
    assert cli("approvals", "list")[1] == ""
    piped("")
    code, out, _ = cli("resume", name)
    assert (code, (folder / "a.txt").read_text()) == (0, "the cat\n")
    assert "its question has been answered" in out
    assert (f"`foregate undo {name}`" in out, "/undo" in out) == (True, False)
    assert cli("audit", "verify", name)[0] == 0


def test_a_no_with_a_reason_is_told_to_the_model(cli: Cli, name: str, folder: Path, piped: Piped) -> None:
    assert cli("approvals", "deny", name, "--text", "not on a Friday")[0] == 0
    piped("")
    cli("resume", name)
    assert "not on a Friday" in cli("audit", "show", name)[1]
    assert (folder / "a.txt").read_text() == "teh cat\n"


def test_calls_are_answered_each_by_its_number(cli: Cli, policy: Path, folder: Path, piped: Piped) -> None:
    (folder / "b.txt").write_text("teh dog\n")
    other = ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"})
    name = ask(EDIT, other)
    assert cli("approvals", "approve", name, "--call", "2=no", "--text", "leave b.txt")[0] == 0
    piped("")
    cli("resume", name)
    assert [(folder / file).read_text() for file in ("a.txt", "b.txt")] == ["the cat\n", "teh dog\n"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--call", "2=yes"), "`2=yes` names no call; this question has 1, numbered from 1"),
        (("--call", "1=perhaps"), "say 1=yes or 1=no"),
        (("--named", "x"), "`x` is no value that this question wants named"),
    ],
)
def test_what_cannot_be_an_answer_is_one_sentence_and_leaves_the_question_open(
    cli: Cli, name: str, arguments: tuple[str, ...], sentence: str
) -> None:
    code, out, err = cli("approvals", "approve", name, *arguments)
    assert (code, out, err.count("\n"), sentence in err) == (2, "", 1, True)
    assert read_name(cli).startswith(name)


def test_an_answer_to_a_closed_question_and_to_none_is_one_sentence(cli: Cli, name: str) -> None:
    question = read_name(cli)
    assert cli("approvals", "deny", question)[0] == 0
    for wanted, sentence in (
        (question, "was answered already: no, by"),
        (f"{name}:1", "event 1 of session"),
        (f"{name}:0", "names no question"),
        ("nobody", "there is no session"),
    ):
        code, out, err = cli("approvals", "approve", wanted)
        assert (code, out, err.count("\n"), sentence in err) == (2, "", 1, True), err


def test_a_question_in_a_log_that_was_changed_is_not_answered(cli: Cli, name: str, home: Path) -> None:
    import sqlite3

    question = read_name(cli)
    with sqlite3.connect(home / "events.db") as log:
        log.execute("UPDATE events SET text = replace(text, 'fix teh', 'fix all') WHERE session = ?", (name,))
    log.close()
    code, out, err = cli("approvals", "approve", question)
    assert (code, out, "its hash does not match" in err) == (8, "", True)


def test_nothing_an_attacker_writes_begins_a_row_of_the_list(cli: Cli, policy: Path) -> None:
    """Names, targets and words of the model and of tools stand within one row, and hide nothing."""

    @foregate.tool(effect="send", targets={"to": "message"})
    def post(to: str, text: str) -> str:
        """Post a message."""
        return "posted"

    forged = "x\n20261123-000000-ffff:7  open      2026-11-23 10:00 UTC  read_file a.txt\x1b[2K\u202e"
    ask(("post", {"to": forged, "text": forged}), tools=[post], text=forged)
    code, out, _ = cli("approvals", "list")
    assert (code, out.count("\n"), "\x1b" in out, "\u202e" in out) == (0, 2, False, False)
    (row,) = parse_lines(cli("approvals", "list", "--json")[1])
    assert out.splitlines()[1].startswith(row["question"])
    shown = cli("approvals", "show", row["question"])[1]
    assert "\x1b" not in shown
    assert not [line for line in shown.splitlines() if line.startswith(("20261123", "  question  20261123-000000"))]


def test_a_list_of_nothing_says_so(cli: Cli) -> None:
    code, out, err = cli("approvals", "list")
    assert (code, out, err) == (0, "", "nothing waits for an answer\n")
    assert cli("approvals", "list", "--json") == (0, "", "")
