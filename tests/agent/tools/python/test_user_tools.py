"""Tools a user brings along in a file of their own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls, says
from foregate.agent.tools.custom_source import find_file, load_tools
from foregate.api import Agent
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import UsageError
from foregate.schemas.event import TurnJudged
from foregate.schemas.event_body import CallAnswered
from foregate.schemas.tool_spec import Effect
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent.running import run_alone
from tests.events import bodies

SOURCE = '''
import foregate
from foregate.schemas.tool_spec import Effect

shelf = {"a": b"one"}


class Shelf:
    def now(self, id):
        return shelf.get(id)

    def put_back(self, id, data):
        if data is None:
            shelf.pop(id, None)
        else:
            shelf[id] = data


@foregate.tool(
    effect="edit",
    external=False,
    needs_approval=False,
    reversible=True,
    targets={"key": "other"},
    classify=lambda arguments: Effect.DELETE if arguments.get("text") == "" else None,
    inverse=Shelf(),
)
def shelve(key: str, text: str) -> str:
    """Put a text on the shelf; an empty one takes it away."""
    shelf[key] = text.encode()
    return "shelved"


@foregate.tool(read_only=True)
async def look(key: str) -> str:
    """Look at the shelf."""
    return repr(shelf.get(key))
'''


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A module of tools, under the name of one of our packages."""
    made = tmp_path / "agent.py"
    made.write_text(SOURCE)
    return made


def test_the_tools_of_a_file_are_those_it_defines_in_their_order(file: Path) -> None:
    assert [made.spec.name for made in load_tools(str(file))] == ["shelve", "look"]
    assert find_file(str(file)) == file
    assert find_file("some.module") is None


def test_a_file_stands_in_for_no_module_whatever_its_name(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(file.parent)
    (file.parent / "json.py").write_text("raise SystemExit('shadowed')\n")
    before = {name: module for name, module in sys.modules.items() if not name.startswith("foregate_user_")}
    load_tools("agent.py")
    after = {name: module for name, module in sys.modules.items() if not name.startswith("foregate_user_")}
    assert {name: after[name] for name in before} == before
    assert "agent" not in after
    with pytest.raises(UsageError, match=r"write `agent\.py`"):
        load_tools("agent")


@pytest.mark.parametrize(
    ("source", "says_"), [("x = 1\n", "defines no tools"), ("import nothing_of_the_kind\n", "cannot be loaded")]
)
def test_a_file_without_tools_or_one_that_fails_is_one_sentence(tmp_path: Path, source: str, says_: str) -> None:
    made = tmp_path / "mine.py"
    made.write_text(source)
    with pytest.raises(UsageError, match=says_):
        load_tools(str(made))
    with pytest.raises(UsageError, match="no file"):
        load_tools(str(tmp_path / "none.py"))


def test_what_lies_beside_a_file_is_not_imported_and_the_error_says_so(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("import helper.words\n")
    (tmp_path / "helper.py").write_text("raise SystemExit('imported')\n")
    with pytest.raises(UsageError, match="put `helper` into it, or install it"):
        load_tools(str(tmp_path / "mine.py"))


def test_what_a_file_prints_is_not_on_standard_output(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(f"print('loaded')\n{SOURCE}")
    load_tools(str(file))
    assert capsys.readouterr() == ("", "loaded\n")


async def test_what_a_tool_of_a_user_changed_is_put_back_by_its_inverse(file: Path) -> None:
    tools = load_tools(str(file))
    model = ScriptedModel(
        [
            calls(("shelve", {"key": "a", "text": "two"}), text="I put two on the shelf under a."),
            calls(("look", {"key": "a"})),
            says("done"),
        ]
    )
    async with Agent(model=model, tools=tools, workspace=file.parent, builtin=False, log=MemoryLog()) as agent:
        outcome = await agent.run('put "two" on the shelf under the key "a"')
        assert outcome.status == "completed"
        session = await agent.open()
        shown = [message.text for message in session.state.messages if message.role == "tool"]
        assert "two" in shown[1]
        assert (await undo(session)).done
        assert (await run_alone(session.tools, calls(("look", {"key": "a"})).calls[0])).content == "b'one'"


async def test_the_classifier_of_a_tool_of_a_user_raises_the_effect_of_a_call(file: Path) -> None:
    model = ScriptedModel(
        [calls(("shelve", {"key": "a", "text": ""}), text="I empty the shelf under a now."), says("no")]
    )
    person = ScriptedPerson([])
    async with Agent(
        model=model, tools=load_tools(str(file)), workspace=file.parent, builtin=False, log=MemoryLog(), person=person
    ) as agent:
        events = [event async for event in agent.events('look at the key "a" of the shelf')]
    (judged,) = [body for body in bodies(events, TurnJudged) if body.turn.surveys]
    assert judged.turn.surveys[0].declared_effect is Effect.DELETE
    assert not any(event.kind == "tool_started" for event in events)


async def test_a_file_of_tools_inside_the_workspace_is_not_the_agent_s_to_write(file: Path) -> None:
    write = ("write_file", {"path": "agent.py", "content": "x"})
    setting = SessionOptions(
        workspace=file.parent,
        model=ScriptedModel([calls(write, text="I write agent.py anew now."), says("no")]),
        log=MemoryLog(),
        tool_modules=[str(file)],
        environ={},
    )
    opened = await open_session(setting)
    assert {"shelve", "look", "read_file"} <= opened.session.catalogue.keys()
    from foregate.agent.loop.runner import run

    await run(opened.session, "write x to agent.py")
    told = [body.code for body in bodies(await opened.session.log.read(), CallAnswered)]
    await opened.close()
    assert (told, file.read_text()) == (["denied_by_rule"], SOURCE)
