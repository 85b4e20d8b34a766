"""What a tool prints while it runs: standard output holds what Foregate says, for a script or a pipe to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agent.models.openai.scripted_server import KEY, message
from tests.agent.planning.test_worked_examples import wants
from tests.cli.conftest import Cli, Endpoint, Piped

TOOL = """
import foregate


@foregate.tool(read_only=True)
def shout(word: str) -> str:
    '''Shout a word.'''
    print("LOUD", word)
    return word.upper()
"""
CALL = {"word": "hello"}


@pytest.fixture
def shouting(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A file with a tool that prints, and an endpoint whose model calls it."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    endpoint(wants("shout", CALL), message("It is HELLO."))
    file = tmp_path / "mine.py"
    file.write_text(TOOL)
    return file


@pytest.mark.parametrize("form", [(), ("--json",), ("--events",)])
def test_a_run_prints_its_answer_alone(cli: Cli, shouting: Path, form: tuple[str, ...]) -> None:
    code, out, err = cli("run", "shout hello", "--tools", str(shouting), *form)
    assert (code, "LOUD hello" in err) == (0, True)
    if not form:
        assert out == "It is HELLO.\n"
    else:
        assert [json.loads(line) for line in out.splitlines()]


def test_a_chat_with_a_program_prints_lines_of_json_alone(cli: Cli, piped: Piped, shouting: Path) -> None:
    piped('{"message": "shout hello"}\n')
    code, out, err = cli("chat", "--json", "--tools", str(shouting))
    assert (code, "LOUD hello" in err) == (0, True)
    kinds = [json.loads(line).get("kind") for line in out.splitlines()]
    assert "tool_finished" in kinds


def test_a_plan_under_way_prints_its_report_alone(cli: Cli, tmp_path: Path, home: Path) -> None:
    (tmp_path / "mine.py").write_text(TOOL)
    plan = tmp_path / "plan.json"
    task = {"id": 1, "action": "shout", "calls": [{"tool": "shout", "arguments": CALL}]}
    plan.write_text(json.dumps({"goal": "shout", "tasks": [task]}))
    code, out, err = cli("execute", str(plan), "--yes", "--json", "--tools", str(tmp_path / "mine.py"))
    assert (code, "LOUD hello" in err) == (0, True)
    assert json.loads(out)["status"] == "completed"
