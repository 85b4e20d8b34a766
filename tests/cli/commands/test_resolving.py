"""`foregate plans resolve` and `/resolve`: what came of a call whose process died, said in another process."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.control import follow_plan, preview_open_tasks, record_confirmation
from foregate.agent.planning.planner import record_proposal
from foregate.agent.tools.tool import WrappedToolSource
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.conversation import ChatSession
from foregate.schemas.protocols import RunContext
from foregate.schemas.task_plan import PlannedCall, PlanTask, TaskPlan
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.screen import Screen
from tests.agent.planning.plans import CONFIGURATION, PlanRun
from tests.cli.conftest import Cli
from tests.cli.typist import Typist

pytestmark = pytest.mark.usefixtures("no_sandboxes")  # where one is, nothing of an interrupted command is there
PLAN = TaskPlan(
    "p",
    "run touch made.txt",
    "touch made.txt",
    (PlanTask(1, calls=(PlannedCall("run_command", {"argv": ["touch", "made.txt"]}),)),),
)


class Died(BaseException):
    """The process ended."""


class Dying(WrappedToolSource):
    """The tools of a process that dies once a call has run."""

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        await super().run(call, context)
        raise Died


@pytest.fixture
def unclear(cli: Cli) -> str:
    """A session whose process died while its plan ran a command."""

    async def leave() -> str:
        opened = await open_session(SessionOptions(workspace=Path(), model=RehearsalModel()))
        session = opened.session
        state = await follow_plan(session)
        await record_proposal(session, PLAN, CONFIGURATION)
        looked = await preview_open_tasks(session, state)
        await record_confirmation(session, state, looked, PLAN.digest, seen=True)
        session.tools = Dying(session.tools)
        with pytest.raises(Died):
            await PlanRun(session, state, default_configuration()).run()
        await opened.close(end=False)
        return opened.name

    return run_async(leave())


def test_a_person_says_that_it_was_done_and_it_is_not_sent_again(cli: Cli, unclear: str) -> None:
    assert cli("plans", "resume", unclear)[0] == 5
    code, _, err = cli("plans", "retry", unclear, "--yes")
    assert (code, "plans resolve" in err) == (2, True)
    code, _, err = cli("plans", "resolve", unclear)
    assert (code, "it is unknown" in err) == (1, True)
    Path("made.txt").unlink()
    assert cli("plans", "resolve", unclear, "--done")[0] == 0
    code, out, _ = cli("plans", "retry", unclear, "--yes", "--json")
    assert (code, json.loads(out)["status"], Path("made.txt").exists()) == (0, "completed", False)


def test_a_person_says_that_it_was_not_done_and_it_may_be_sent_again(cli: Cli, unclear: str) -> None:
    assert cli("plans", "resume", unclear)[0] == 5
    code, out, _ = cli("plans", "resolve", unclear, "--not-done", "--json")
    assert (code, [one["outcome"] for one in json.loads(out)["found"]]) == (0, ["not_done"])
    Path("made.txt").unlink()
    code, out, _ = cli("plans", "retry", unclear, "--yes", "--json")
    assert (code, json.loads(out)["status"], Path("made.txt").exists()) == (0, "completed", True)


def test_an_undo_after_a_crash_says_what_is_unknown_and_what_to_do_and_waits_for_nobody(cli: Cli, unclear: str) -> None:
    code, _, err = cli("undo", unclear)
    assert (code, len(err.strip().splitlines())) == (1, 1)
    assert "it is unknown whether" in err
    assert "say so with `foregate plans resolve`" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(("--done", "--not-done"), "exclude"), (("c1.1", "--done"), "no call with an unknown outcome")],
)
def test_what_cannot_be_resolved_is_one_sentence(cli: Cli, unclear: str, arguments: tuple[str, ...], says: str) -> None:
    code, _, err = cli("plans", "resolve", unclear, *arguments)
    assert (code, says in err, len(err.strip().splitlines())) == (2, True, 1)


async def test_the_chat_names_what_is_unknown_and_takes_a_word_on_it(home: Path) -> None:
    opened = await open_session(SessionOptions(workspace=Path(), model=RehearsalModel()))
    session, screen = opened.session, Screen(Console(file=io.StringIO(), width=100))
    await session.record_message("run touch made.txt")
    state = await follow_plan(session)
    await record_proposal(session, PLAN, CONFIGURATION)
    await record_confirmation(session, state, await preview_open_tasks(session, state), PLAN.digest, seen=True)
    session.tools = Dying(session.tools)
    with pytest.raises(Died):
        await PlanRun(session, state, default_configuration()).run()
    await opened.close(end=False)
    opened = await open_session(SessionOptions(workspace=Path(), model=RehearsalModel(), resume=opened.name))
    (call,) = opened.session.state.parked
    chat = ChatSession(opened, Typist(["/resolve", "/resolve x", f"/resolve {call} done", "/resolve"]), screen, None)
    opened.resumed = False
    await chat.run_chat()
    shown = screen.console.file.getvalue()  # type: ignore[attr-defined]
    for said in ("took effect is unknown", "takes a call", f"{call} took effect", "every call is known"):
        assert said in shown
    await opened.close()
