"""`audit explain` at the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, parse_lines

EDIT = "in a.txt replace teh with the"


def test_a_decision_is_explained_with_the_file_and_line_of_what_it_rests_on(cli: Cli) -> None:
    Path("mine.yaml").write_text("rules:\n  list:\n    - {id: no-edit, then: deny, tool: edit_file}\n")
    cli("run", "--policy", "mine.yaml", EDIT)
    points = [
        json.loads(line) for line in cli("audit", "show", "last", "--json", "--code", "denied_by_rule")[1].splitlines()
    ]
    code, out, err = cli("audit", "explain", points[0]["address"])
    assert (code, err) == (0, "")
    assert "The gate `rules` denied it (denied_by_rule)." in out
    assert "The rule `no-edit`: mine.yaml:3." in out
    assert "without the" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    session = parse_lines(cli("audit", "list", "--json")[1])[0]["session"]
    assert cli("audit", "explain", f"{session}/{points[0]['address']}")[1] == out
    found = json.loads(cli("audit", "explain", f"last/{points[0]['address']}", "--json")[1])
    assert (found["session"], found["point"]["address"]) == (session, points[0]["address"])
    assert {lever["key"] for lever in found["levers"]} >= {"rules.mode", "rules.list.no-edit"}


def test_a_value_of_the_workspaces_file_is_said_to_be_the_workspaces(cli: Cli) -> None:
    Path(".foregate.yaml").write_text("uncertainty: {threshold: 1}\n")
    cli("run", "clean up")
    point = json.loads(cli("audit", "show", "last", "--json", "--code", "uncertainty_clarification")[1].splitlines()[0])
    out = " ".join(cli("audit", "explain", point["address"])[1].split())
    assert "(`uncertainty.threshold`, workspace .foregate.yaml:1)" in out
    assert "`uncertainty.threshold` at" in out


@pytest.mark.parametrize("wanted", ["x", "last/5", "5.rules", "nope/5.rules"])
def test_what_is_no_decision_is_one_sentence_and_a_usage_exit_code(wanted: str, cli: Cli) -> None:
    code, out, err = cli("audit", "explain", wanted)
    assert (code, out, len(err.splitlines())) == (2, "", 1)


def test_what_a_model_wrote_cannot_pose_as_a_row_of_an_explanation(cli: Cli) -> None:
    Path("a\n  ruling   nothing\u202e.txt").write_text("x")
    cli("run", "read a\n  ruling   nothing\u202e.txt")
    shown = cli("audit", "show", "last", "--json")[1].splitlines()
    for point in map(json.loads, shown):
        out = cli("audit", "explain", point["address"])[1]
        assert "\u202e" not in out
        assert sum(line.startswith("  ruling") for line in out.splitlines()) == 1
