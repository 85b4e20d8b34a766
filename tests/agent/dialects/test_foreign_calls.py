"""A call under another agent's name is taken for ours where that is exact, in every dialect, and judged as ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foregate.agent.dialects.dialect import Names
from foregate.agent.dialects.dialect_model import build_dialect_model
from foregate.agent.dialects.foreign_calls import take_call
from foregate.agent.dialects.tag_dialects import ActionTags
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.gates.validity import ValidityGate
from foregate.schemas.event import ModelResponded
from foregate.schemas.event_body import CallAnswered
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import Follower, ModelResponse
from foregate.schemas.tool_call import SentCall, ToolCall
from foregate.schemas.tool_spec import build_catalogue
from tests.agent.dialects.specs import BUILTIN, TOOLS, spec
from tests.agent.world import World
from tests.policies import policy_with


def patch(body: str) -> str:
    return f"*** Begin Patch\n{body}\n*** End Patch"


TALK = "I will mend the second line of a.txt as you asked."
GATE = ValidityGate(policy_with(), build_catalogue(BUILTIN))
CATALOGUE = {one.name: one for one in BUILTIN}
EXACT: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("file_read", {"path": "a", "max_bytes": 9}, "read_file", {"path": "a", "max_bytes": 9}),
    ("Read", {"file_path": "a"}, "read_file", {"path": "a"}),
    ("read", {"filePath": "a", "limit": None}, "read_file", {"path": "a"}),
    ("read_file", {"file_path": "a"}, "read_file", {"path": "a"}),
    ("Write", {"file_path": "a", "content": "x"}, "write_file", {"path": "a", "content": "x"}),
    ("str_replace", {"path": "a", "old_str": "x", "new_str": "y"}, "edit_file", {"path": "a", "old": "x", "new": "y"}),
    (
        "Edit",
        {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": False},
        "edit_file",
        {"path": "a", "old": "x", "new": "y"},
    ),
    (
        "str_replace_editor",
        {"command": "str_replace", "path": "a", "old_str": "x"},
        "edit_file",
        {"path": "a", "old": "x", "new": ""},
    ),
    (
        "str_replace_editor",
        {"command": "create", "path": "a", "file_text": "x"},
        "write_file",
        {"path": "a", "content": "x"},
    ),
    ("str_replace_based_edit_tool", {"command": "view", "path": "a"}, "read_file", {"path": "a"}),
    ("apply_patch", {"path": "a", "patch": "@@ -1 +1 @@"}, "edit_file", {"path": "a", "diff": "@@ -1 +1 @@"}),
    ("apply_patch", {"input": patch("*** Add File: a\n+x\n+")}, "write_file", {"path": "a", "content": "x\n\n"}),
    ("apply_patch", {"input": patch("*** Delete File: a")}, "delete_path", {"path": "a"}),
    (
        "apply_patch",
        {"patch": patch("*** Update File: a\n@@\n teh\n-x\n+y\n\n@@ def f():\n-p\n")},
        "edit_file",
        {"path": "a", "diff": "@@ -1,3 +1,3 @@\n teh\n-x\n+y\n \n@@ -1000000000,2 +1000000000,1 @@\n-p\n \n"},
    ),
    (
        "Bash",
        {"command": "ls | wc", "timeout": 5, "description": "count", "run_in_background": False},
        "run_shell",
        {"command": "ls | wc", "timeout_ms": 5},
    ),
    ("shell", {"command": ["ls", "-l"], "workdir": "src"}, "run_command", {"argv": ["ls", "-l"], "cwd": "src"}),
    ("shell", {"command": "ls"}, "run_shell", {"command": "ls"}),
    ("run_command", {"command": "ls | wc", "cwd": "src"}, "run_shell", {"command": "ls | wc", "cwd": "src"}),
    ("grep", {"pattern": "a|b", "include": "*.py"}, "search_text", {"pattern": "a|b", "glob": "*.py", "regex": True}),
    ("search_files", {"path": "src", "regex": "a+"}, "search_text", {"path": "src", "pattern": "a+", "regex": True}),
    ("glob", {"pattern": "**/*.py"}, "list_files", {"glob": "**/*.py", "recursive": True}),
    ("ls", {"path": "src"}, "list_files", {"path": "src"}),
]
INEXACT: list[tuple[str, dict[str, Any], str]] = [
    ("Read", {"file_path": "a", "offset": 10}, "read_file"),
    ("read", {"path": "a", "limit": 10}, "read_file"),
    ("Edit", {"file_path": "a", "old_string": "x", "new_string": "y", "replace_all": True}, "edit_file"),
    ("edit", {"path": "a", "file_path": "b", "old": "x", "new": "y"}, "edit_file"),
    ("str_replace_editor", {"command": "insert", "path": "a", "insert_line": 1, "new_str": "x"}, "edit_file"),
    ("str_replace_editor", {"command": "view", "path": "a", "view_range": [1, 2]}, "edit_file"),
    ("apply_patch", {"input": "*** Begin Patch"}, "edit_file"),
    ("apply_patch", {"input": patch("*** Update File: a\n*** Move to: b\n@@\n-x\n+y")}, "edit_file"),
    ("apply_patch", {"input": patch("*** Update File: a\n@@\n+y")}, "edit_file"),
    ("apply_patch", {"input": patch("*** Delete File: a\n*** Delete File: b")}, "edit_file"),
    ("apply_patch", {"input": patch("*** Update File: a\n-x\n+y\n*** End of File")}, "edit_file"),
    ("apply_patch", {"input": patch("*** Add File: a\nx")}, "edit_file"),
    ("bash", {"command": "sleep 9", "run_in_background": True}, "run_shell"),
    ("glob", {"pattern": "*.py", "path": "src"}, "list_files"),
    ("delete_file", {"path": "src", "recursive": True}, "delete_path"),
    ("execute_command", {"command": "ls"}, "run_command"),
    ("applypatch", {"input": "*** Begin Patch"}, "edit_file"),
]


@pytest.mark.parametrize(("name", "arguments", "tool", "ours"), EXACT)
def test_an_exact_meaning_is_taken_and_what_was_sent_is_kept(
    name: str, arguments: dict[str, Any], tool: str, ours: dict[str, Any]
) -> None:
    sent = ToolCall.of(name, arguments, id="c1")
    taken = take_call(sent, CATALOGUE)
    assert (taken.name, taken.arguments, taken.id) == (tool, ours, "c1")
    assert taken.sent == SentCall(name, sent.raw)
    assert taken.digest == ToolCall.of(tool, ours).digest
    assert take_call(taken, CATALOGUE) is taken


@pytest.mark.parametrize(("name", "arguments", "near"), INEXACT)
def test_a_meaning_that_is_not_exact_is_left_and_refused_by_the_nearest_tools_name(
    name: str, arguments: dict[str, Any], near: str
) -> None:
    call = ToolCall.of(name, arguments)
    assert take_call(call, CATALOGUE) is call
    assert f"did you mean `{near}`?" in GATE.describe_unknown(call, 0)


def test_a_name_that_is_offered_in_other_letters_or_behind_its_servers_is_that_tool() -> None:
    call = ToolCall.of("bash", {"command": "ls"})
    for own in ("Bash", "server.bash", "mcp__box__bash"):
        assert take_call(call, {**CATALOGUE, own: spec(own, {})}) is call


def test_no_tool_is_meant_that_is_not_offered_or_not_foregates_own() -> None:
    call = ToolCall.of("bash", {"command": "ls"})
    assert take_call(call, {}) is call
    assert take_call(call, {"run_shell": spec("run_shell", {"command": {"type": "string"}})}) is call


def test_the_names_of_the_configuration_come_first_and_for_any_tool() -> None:
    names = Names(tags={"bash": "search_text"}, parameters={"search_text": {"command": "pattern"}})
    taken = take_call(ToolCall.of("bash", {"command": "ls"}), CATALOGUE, names)
    assert (taken.name, taken.arguments) == ("search_text", {"pattern": "ls"})


WAYS = {
    "native": calls(("file_read", {"file_path": "a.txt"})),
    "json": says('{"tool": "file_read", "args": {"file_path": "a.txt"}}'),
    "action_tags": says("<file_read><file_path>a.txt</file_path></file_read>"),
    "service_tags": says("<files><file_read><file_path>a.txt</file_path></file_read></files>\n<execute_tools />"),
    "auto": says('{"tool": "file_read", "args": {"file_path": "a.txt"}}'),
}


@pytest.mark.parametrize("dialect", WAYS)
async def test_in_every_dialect_the_call_runs_and_the_log_says_both_names(dialect: str) -> None:
    world = World()
    session = await world.open(build_dialect_model(ScriptedModel([WAYS[dialect], says("It says teh.")]), dialect))
    outcome = await run(session, "what does a.txt say?")
    assert outcome.status == "completed"
    assert world.effects == [ToolCall.of("read_file", {"path": "a.txt"}).digest]
    (call,) = (await world.bodies(ModelResponded))[0].calls
    assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": "a.txt"})
    assert call.sent == SentCall("file_read", '{"file_path":"a.txt"}')
    assert call.call.sent == call.sent


async def test_the_names_of_the_configuration_reach_calls_in_json() -> None:
    world, names = World(), Names(tags={"show": "read_file"}, parameters={"read_file": {"what": "path"}})
    model = ScriptedModel([says('{"tool": "show", "args": {"what": "a.txt"}}'), says("It says teh.")])
    await run(await world.open(build_dialect_model(model, "json", names)), "what does a.txt say?")
    assert len(world.effects) == 1


async def test_a_rule_against_the_name_that_was_sent_holds_for_what_it_is_taken_for() -> None:
    rule = {"id": "none-of-these", "tool": "file_*", "then": "deny"}
    world = World(policy=policy_with({"rules.list": [rule]}))
    session = await world.open(build_dialect_model(ScriptedModel([WAYS["native"], says("I may not.")]), "native"))
    await run(session, "what does a.txt say?")
    assert world.effects == []
    assert [body.code for body in await world.bodies(CallAnswered)] == ["denied_by_rule"]


async def test_a_rule_that_allows_the_name_that_was_sent_allows_nothing() -> None:
    deny = {"id": "no-reading", "tool": "read_file", "then": "ask"}
    allow = {"id": "aliases", "tool": "file_read", "then": "allow"}
    world = World(policy=policy_with({"rules.list": [allow, deny]}))
    session = await world.open(build_dialect_model(ScriptedModel([WAYS["native"], says("I may not.")]), "native"))
    await run(session, "what does a.txt say?")
    assert world.effects == []


class Streaming:
    """A model that tells of its calls as they come."""

    name = "streaming"

    async def respond(self, request: ModelRequest, on_text: Any = None) -> ModelResponse:
        response = WAYS["native"]
        assert isinstance(on_text, Follower)
        on_text.call(response.calls[0])
        return response


async def test_who_follows_a_response_is_told_of_the_call_it_is_taken_for() -> None:
    class Listener(Follower):
        def __init__(self) -> None:
            super().__init__()
            self.names: list[str] = []

        def call(self, call: ToolCall) -> None:
            self.names.append(call.name)

    told = Listener()
    await build_dialect_model(Streaming(), "native").respond(ModelRequest([Message("user", "u")], TOOLS), told)
    assert told.names == ["read_file"]


def test_a_tag_of_another_agent_within_a_line_is_words() -> None:
    text = "Other agents write <read>a.txt</read> for that."
    assert ActionTags().build_reader(TOOLS).feed(text) == text


async def test_a_patch_of_one_file_edits_it_as_the_patching_program_would() -> None:
    world = World()
    sent = ("apply_patch", {"input": patch("*** Update File: a.txt\n@@\n-teh cat\n+the cat\n+sat")})
    world.workspace.files["a.txt"] = b"teh dog\nteh cat\n"
    model = ScriptedModel([calls(("read_file", {"path": "a.txt"}), text=TALK), calls(sent), says("Mended.")])
    session = await world.open(build_dialect_model(model, "native"))
    await run(session, "In a.txt mend the cat.")
    assert world.workspace.files["a.txt"] == b"teh dog\nthe cat\nsat\n"
