"""Results as text: each kind says what it is about, how it ended and what is missing; real tools, real files."""

from __future__ import annotations

import json

import pytest

from foregate.agent.context.results import data_text, errors_text, result_text
from foregate.agent.tools.commands import run_command
from foregate.agent.tools.files import read_file, write_file
from foregate.agent.tools.git import git_status
from foregate.agent.tools.http import http_request
from foregate.agent.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.tool_result import ToolResult


async def test_a_file_is_named_and_its_content_cut_in_the_middle(workspace: Workspace, policy: Policy) -> None:
    workspace.write("a.txt", b"begin " + b"x" * 5000 + b" end")
    tool = read_file(workspace, policy)
    text = result_text(tool.spec, "a.txt", await tool.run({"path": "a.txt"}), 100)
    assert text.startswith("content of `a.txt`\nbegin ")
    assert text.endswith(" end")
    assert "characters left out ...]" in text


async def test_a_write_says_how_many_bytes(workspace: Workspace, policy: Policy) -> None:
    tool = write_file(workspace, policy)
    done = await tool.run({"path": "n", "content": "four"})
    assert result_text(tool.spec, "n", done, 0, written=4) == "changed `n` (4 bytes written)\ncreated `n`: 4 bytes"


async def test_a_command_says_its_exit_code_with_output_and_errors(workspace: Workspace, policy: Policy) -> None:
    tool = run_command(workspace, policy)
    done = await tool.run({"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"]})
    text = result_text(tool.spec, "sh", done, 0)
    assert text.startswith("command `sh`: exit code 3\n")
    assert "out\nerr" in text


async def test_git_and_http_name_what_they_are_about(workspace: Workspace, policy: Policy) -> None:
    status = git_status(workspace, policy).spec
    assert result_text(status, ".", ToolResult(True, "## main"), 0) == "git status in `.`\n## main"
    asked = http_request(policy).spec
    failed = ToolResult(False, "HTTP 500", error="http_status")
    assert result_text(asked, "https://a.org/", failed, 0) == "HTTP `https://a.org/`: failed (http_status)\nHTTP 500"


async def test_doubt_and_what_the_tool_left_out_are_said(workspace: Workspace, policy: Policy) -> None:
    lost = ToolResult(False, "", error="timeout", unknown=True, dropped=7)
    text = result_text(run_command(workspace, policy).spec, "make", lost, 0)
    assert text == (
        "command `make`: did not end by itself (timeout) (7 bytes were left out by the tool) "
        "(it is not known whether it took effect)"
    )


def test_data_is_indented_and_everything_else_left_as_it_is() -> None:
    assert json.loads(data_text('{"b":[1],"a":"é"}')) == {"a": "é", "b": [1]}
    assert '\n  "a": "é"' in data_text('{"b":[1],"a":"é"}')
    for text in ("{not json", '{"a":1,"a":2}', "plain", "", "7"):
        assert data_text(text) == text


@pytest.mark.parametrize(
    ("errors", "text"), [([], ""), (["one ", "one"], "one"), (["one", "", "two"], "1. one\n2. two")]
)
def test_errors_are_joined_and_said_once(errors: list[str], text: str) -> None:
    assert errors_text(errors) == text
