"""Running tests and builds: the command that was found out is the one that is judged and the one that runs."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedPerson, calls, says
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.project import run_build, run_tests
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import build_catalogue
from tests.agent.running import Bench, run_alone
from tests.conftest import OpenSession
from tests.forever import FOREVER
from tests.policies import policy_with

SIGNS = [
    ("Makefile", "test:\n\techo hi\n", "make test", "make"),
    ("Makefile", "build: x\n", "", "make build"),
    ("Makefile", "test : x\n", "make test", "make"),
    ("Makefile", "test:: x\nbuild:\n", "make test", "make build"),
    ("Makefile", "test := x\nbuild:=y\ntest_all:\n", "", "make"),
    ("makefile", "test:\n", "make test", "make"),
    ("GNUmakefile", "test:\n", "make test", "make"),
    ("package.json", '{"scripts":{"test":"x","build":"y"}}', "npm test", "npm run build"),
    ("package.json", '{"scripts":{}}', "", ""),
    ("package.json", "{broken", "", ""),
    ("Cargo.toml", "", "cargo test", "cargo build"),
    ("go.mod", "", "go test ./...", "go build ./..."),
    ("pyproject.toml", "", "python3 -m pytest", "python3 -m build"),
    ("conftest.py", "", "python3 -m pytest", ""),
    ("readme", "", "", ""),
]


@pytest.fixture
def tools(workspace: Workspace, policy: Policy) -> Toolbox:
    return Bench(workspace, [run_tests(workspace, policy), run_build(workspace, policy)])


@pytest.mark.parametrize(("name", "content", "tests", "build"), SIGNS)
def test_what_is_judged_is_the_command_the_files_ask_for(
    folder: Path, workspace: Workspace, policy: Policy, tools: Toolbox, name: str, content: str, tests: str, build: str
) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / name).write_text(content)
    surveyor = Surveyor(workspace, tools, policy, build_catalogue(list(tools.specs())))
    for tool, wanted in (("run_tests", tests), ("run_build", build)):
        survey = surveyor.survey_call(ToolCall.of(tool, {"cwd": "sub"}), SessionState())
        if wanted:
            assert survey.command is not None
            assert (" ".join(survey.command.argv), survey.command.folder) == (wanted, "sub")
            assert survey.resources[0].id == wanted
        else:
            assert "give the command as `argv`" in survey.problem


def test_arguments_of_another_type_leave_the_command_untold_in_one_sentence(
    workspace: Workspace, policy: Policy
) -> None:
    box = Bench(workspace, [run_tests(workspace, policy)])
    with pytest.raises(WorkspaceError, match="what `run_tests` would do with these arguments cannot be told"):
        box.fill_arguments(ToolCall.of("run_tests", {"cwd": 5}))


async def test_a_command_that_is_not_the_judged_one_is_not_run(
    folder: Path, workspace: Workspace, policy: Policy, tools: Toolbox
) -> None:
    (folder / "Cargo.toml").write_text("")
    surveyor = Surveyor(workspace, tools, policy, build_catalogue(list(tools.specs())))
    survey = surveyor.survey_call(ToolCall.of("run_tests", {}), SessionState())
    (folder / "Makefile").write_text("test:\n\ttouch ran\n")
    done = await run_alone(tools, ToolCall.of("run_tests", {}), survey)
    assert "`make test` is not what was judged" in done.content
    assert not (folder / "ran").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
@pytest.mark.usefixtures("no_sandboxes")
async def test_one_yes_runs_the_tests_and_none_runs_nothing(
    folder: Path, workspace: Workspace, policy: Policy, open_session: OpenSession
) -> None:
    (folder / "Makefile").write_text("test:\n\t@echo ran >> ran; echo two failed; exit 1\n")
    alone = policy_with({"plan.mode": "off", "critique.mode": "off"})
    for choice, runs in (("no", False), ("yes", True)):
        steps = [calls(("run_tests", {}), text="I will run the project's tests now."), says("done")]
        person = ScriptedPerson([choice])
        session = await open_session(
            *steps, tools=[run_tests(workspace, policy)], policy=alone, person=person, name=choice
        )
        await run(session, "run the tests with run_tests")
        assert (folder / "ran").exists() == runs
        told = session.state.messages[-2].text
        assert ("two failed" in told and '"exit_code":2' in told) == runs


@pytest.mark.usefixtures("no_sandboxes")
async def test_a_time_limit_of_the_call_stops_it_and_never_extends_the_policy_s(tools: Toolbox) -> None:
    async with asyncio.timeout(FOREVER):
        done = await run_alone(
            tools, ToolCall.of("run_tests", {"argv": ["sh", "-c", "sleep 600; touch x"], "timeout_ms": 50})
        )
    assert (done.error, done.unknown) == ("timeout", True)
    assert "stopped after 0.05 seconds" in done.content
