"""Results as text: each kind says what it is about, how it ended and what is missing; real tools, real files."""

from __future__ import annotations

import json
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.compression import build_result, format_data, format_errors, format_result
from foregate.agent.tools.commands import run_command
from foregate.agent.tools.files import edit_file, read_file, write_file
from foregate.agent.tools.git import git_add, git_status
from foregate.agent.tools.looking import search_text
from foregate.agent.tools.project import run_tests
from foregate.agent.workspace.workspace import Workspace
from foregate.cli.demo import run_git
from foregate.policy.policy import Policy
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.tool_call import ToolCall
from tests.agent.running import Bench, run_alone
from tests.agent.tools.builtin.test_http import call, listed, server, tool_for
from tests.agent.world import World

__all__ = ["listed", "server"]


async def test_a_file_is_named_and_its_content_cut_in_the_middle(workspace: Workspace, policy: Policy) -> None:
    workspace.write("a.txt", b"begin " + b"x" * 5000 + b" end")
    tool = read_file(workspace, policy)
    text = format_result(tool.spec, "a.txt", await tool.run({"path": "a.txt"}), 100)
    assert text.startswith("content of `a.txt`\nbegin ")
    assert text.endswith(" end")
    assert "characters left out ...]" in text


async def test_every_way_to_write_says_how_many_bytes(workspace: Workspace, policy: Policy) -> None:
    write, edit = write_file(workspace, policy), edit_file(workspace, policy)
    made = await write.run({"path": "n", "content": "four"})
    assert format_result(write.spec, "n", made, 0) == "changed `n`\ncreated `n`: 4 bytes"
    longer = await edit.run({"path": "n", "old": "four", "new": "fifteen"})
    assert format_result(edit.spec, "n", longer, 0) == "changed `n`\nedited `n`: 4 -> 7 bytes"


async def test_a_file_that_is_not_there_is_no_content(workspace: Workspace, policy: Policy) -> None:
    box = Bench(workspace, [read_file(workspace, policy)])
    missing = await run_alone(box, ToolCall.of("read_file", {"path": "n"}))
    text = format_result(read_file(workspace, policy).spec, "n", missing, 0)
    assert text.startswith("content of `n`: failed (WorkspaceError)\ncannot read `n`")


async def test_a_command_says_its_exit_code_once_with_output_and_errors(workspace: Workspace, policy: Policy) -> None:
    tool = run_command(workspace, policy)
    done = await tool.run({"argv": ["sh", "-c", "echo out; echo err >&2; exit 3"]})
    assert format_result(tool.spec, "sh", done, 0) == "command `sh`: exit code 3\nout\nerr"
    killed = await tool.run({"argv": ["sh", "-c", "kill -9 $$"]})
    assert format_result(tool.spec, "sh", killed, 0) == "command `sh`: ended by signal 9"
    well = await tool.run({"argv": ["sh", "-c", "echo exit code 0"]})
    assert format_result(tool.spec, "sh", well, 0) == "command `sh`: exit code 0\nexit code 0\n"


async def test_a_command_that_was_stopped_and_one_that_never_began_say_so(workspace: Workspace, policy: Policy) -> None:
    tool, tests = run_command(workspace, policy), run_tests(workspace, policy)
    slow = await tool.run({"argv": ["sh", "-c", "echo begun; sleep 30; touch made"], "timeout_ms": 200})
    text = format_result(tool.spec, "sh", slow, 0)
    assert text.startswith("command `sh`: did not end by itself (timeout)")
    assert "begun" in text
    assert "(it is not known whether it took effect)" in text
    nothing = await run_alone(Bench(workspace, [tests]), ToolCall.of("run_tests", {}))
    assert format_result(tests.spec, "", nothing, 0).startswith("command `run_tests`: failed (WorkspaceError)\n")


async def test_git_names_the_state_of_the_repository(folder: Path, workspace: Workspace, policy: Policy) -> None:
    run_git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a.txt").write_text("a")
    status, staging = git_status(workspace, policy), git_add(workspace, policy)
    found = await status.run({})
    assert format_result(status.spec, ".", found, 0) == "git status in `.`\n## No commits yet on main\n?? a.txt\n"
    staged = await staging.run({"paths": ["a.txt"]})
    assert format_result(staging.spec, ".", staged, 0).startswith("git add in `.`\nstaged; the state is now:\n")


async def test_http_says_the_status_and_then_what_came(server: ThreadingHTTPServer, listed: Policy) -> None:
    tool = tool_for(listed, "127.0.0.1")
    url = f"http://api.test:{server.server_port}"
    gone = await call(tool, url=f"{url}/gone")
    assert format_result(tool.spec, url, gone, 0) == (
        f"HTTP 404 Not Found from `{url}`\ncontent-type: text/plain\n\nhéllo"
    )
    broken = await call(tool, url=f"{url}/drop")
    assert format_result(tool.spec, url, broken, 0).startswith(f"HTTP `{url}`: failed (broken)\nthe connection")


async def test_a_look_at_a_folder_names_the_look(workspace: Workspace, policy: Policy) -> None:
    workspace.write("a.txt", b"a needle")
    tool = search_text(workspace, policy)
    found = await tool.run({"pattern": "needle"})
    assert format_result(tool.spec, ".", found, 0) == "search_text in `.`\na.txt:1: a needle"


async def test_what_the_tool_left_out_is_said(workspace: Workspace, policy: Policy) -> None:
    workspace.write("big", b"x" * (policy.files.max_read + 7))
    tool = read_file(workspace, policy)
    read = await tool.run({"path": "big"})
    assert format_result(tool.spec, "big", read, 10).startswith(
        "content of `big` (7 bytes were left out by the tool)\n"
    )


async def test_a_result_told_from_the_log_is_the_text_it_was_when_it_came() -> None:
    world = World()
    steps = [calls(("read_file", {"path": "a.txt"}), ("read_file", {"path": "none"})), says("done")]
    session = await world.open(steps)
    await run(session, "read a.txt and none")
    spec = session.catalogue["read_file"]
    ended = await world.bodies(ToolFinished)
    texts = [format_result(spec, body.target, build_result(body), 0) for body in ended]
    assert texts[0] == "content of `a.txt`\nteh cat"
    assert texts[1].startswith("content of `none`: failed (WorkspaceError)\n")


def test_data_is_indented_and_everything_else_left_as_it_is() -> None:
    assert json.loads(format_data('{"b":[1],"a":"é"}')) == {"a": "é", "b": [1]}
    assert '\n  "a": "é"' in format_data('{"b":[1],"a":"é"}')
    for text in ("{not json", '{"a":1,"a":2}', "plain", "", "7"):
        assert format_data(text) == text


@pytest.mark.parametrize(
    ("errors", "text"), [([], ""), (["one ", "one"], "one"), (["one", "", "two"], "1. one\n2. two")]
)
def test_errors_are_joined_and_said_once(errors: list[str], text: str) -> None:
    assert format_errors(errors) == text
