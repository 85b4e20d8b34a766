"""An agent whose tools run in another process: what it reads, changes and asks, and what is undone where."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.reconcile import reconcile_calls
from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.planning.control import follow_plan
from foregate.api import Agent
from foregate.schemas.errors import UsageError
from foregate.schemas.tool_call import Origin
from tests.agent.planning.plans import call, carried_out, edit, plan, task
from tests.agent.tools.remote.conftest import Started
from tests.agent.tools.remote.worlds import BELIEVING, TOKEN, Gate, RemoteAgent, events
from tests.forever import FOREVER
from tests.policies import policy_with

READ = calls(("read_file", {"path": "a.txt"}))
EDIT = calls(("edit_file", {"path": "a.txt", "old": "teh", "new": "the"}))
GO = calls(("run_command", {"argv": ["sh", "go.sh"]}))
CALLERS = {"serving": {"approvals": "caller"}}


async def test_a_file_is_read_and_edited_there_and_can_be_undone_there(
    serve: Started, agent: Any, folder: Path
) -> None:
    runtime = serve()
    async with agent(runtime).session([READ, EDIT, says("done")]) as opened:
        outcome = await run(opened.session, "mend a.txt")
        assert (outcome.status, (folder / "a.txt").read_text()) == ("completed", "the cat\n")
        assert not list(Path(str(opened.workspace.root)).iterdir())
        read, _ = await events(opened, "tool_finished")
        assert (read.body.origin, read.body.evidence[0].origin) == (Origin.EXTERNAL, Origin.EXTERNAL)
        there = (await undo(opened.session)).reason
        assert "where the runtime runs" in there
    runtime.end()
    assert runtime.foregate("audit", "verify", "last")[0] == 0
    assert runtime.foregate("undo", "last")[0] == 0
    assert (folder / "a.txt").read_text() == "teh cat\n"


async def test_an_edit_of_what_was_not_read_is_held_here_and_the_look_is_taken_there(
    serve: Started, agent: Any, folder: Path
) -> None:
    async with agent(serve()).session([EDIT, EDIT, says("done")]) as opened:
        await run(opened.session, "mend a.txt")
        (held,) = await events(opened, "call_answered")
        assert held.body.code == "missing_pre_execution_evidence"
        assert "teh cat" in held.body.observed.output
        assert (folder / "a.txt").read_text() == "the cat\n"


async def test_a_file_of_the_same_name_here_is_neither_kept_nor_touched(
    serve: Started, agent: Any, folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "a.txt").write_text("mine\n")
    async with agent(serve()).session([READ, EDIT, says("done")]) as opened:
        await run(opened.session, "mend a.txt")
        started = await events(opened, "tool_started")
        assert [event.body.before for event in started] == [(), ()]
    assert (folder / "a.txt").read_text() == "the cat\n"
    assert (tmp_path / "here" / "a.txt").read_text() == "mine\n"


async def test_a_file_that_changed_there_since_it_was_read_is_stale_here(
    serve: Started, agent: Any, folder: Path
) -> None:
    def meanwhile(_: Any) -> Any:
        (folder / "a.txt").write_text("teh dog\n")
        return EDIT

    async with agent(serve()).session([READ, meanwhile, says("stopped")]) as opened:
        await run(opened.session, "mend a.txt")
        (held,) = await events(opened, "call_answered")
        assert (held.body.code, (folder / "a.txt").read_text()) == ("stale_evidence", "teh dog\n")


async def test_a_library_uses_a_runtime_as_the_command_line_does(
    serve: Started, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(tmp_path / "library-home"))
    monkeypatch.setenv("FOREGATE_RUNTIME_TOKEN", TOKEN)
    model, here = ScriptedModel([READ, EDIT, says("done")]), tmp_path / "elsewhere"
    here.mkdir()
    address = f"ws://127.0.0.1:{serve().port}"
    async with Agent(model=model, workspace=here, policy=policy_with(BELIEVING), runtime=address) as library:
        assert (await library.run("fix a.txt")).status == "completed"
    assert (folder / "a.txt").read_text() == "the cat\n"


async def test_without_a_word_of_the_policy_every_remote_call_asks(serve: Started, tmp_path: Path) -> None:
    policy = {**BELIEVING, "runtime.declarations": "raise"}
    remote = RemoteAgent(tmp_path / "agent-home", serve().port, policy)
    async with remote.session([READ, says("stopped")]) as opened:
        assert any("`runtime.declarations: believe`" in note for note in opened.notes)
        await run(opened.session, "look at a.txt")
        (denied,) = await events(opened, "call_answered")
        assert denied.body.code == "approval_required"


async def test_what_a_person_allows_here_runs_there_only_where_the_runtime_takes_their_word(
    serve: Started, agent: Any, folder: Path
) -> None:
    go = calls(("run_command", {"argv": ["touch", "made"]}))
    async with agent(serve()).session([go, says("stopped")], replies=["yes"]) as opened:
        await run(opened.session, "make it")
        (finished,) = await events(opened, "tool_finished")
        assert (finished.body.ok, finished.body.error) == (False, "approval_required")
        assert not (folder / "made").exists()


async def test_with_the_callers_word_it_runs_there(serve: Started, agent: Any, folder: Path) -> None:
    go = calls(("run_command", {"argv": ["touch", "made"]}))
    async with agent(serve(**CALLERS)).session([go, says("done")], replies=["yes"]) as opened:
        await run(opened.session, "make it")
        assert (folder / "made").exists()


async def test_a_cut_connection_is_made_again_and_the_call_has_one_effect(
    serve: Started, wired: Any, gate: Gate
) -> None:
    wire, agent = await wired(serve(**CALLERS))
    patient = RemoteAgent(agent.home, agent.port, {**BELIEVING, "runtime.patience": FOREVER})
    async with patient.session([GO, says("done")], replies=["yes"]) as opened:
        running = asyncio.ensure_future(run(opened.session, "go"))
        await gate.begun()
        wire.cut()
        gate.let_go()
        assert (await running).status == "completed"
        (finished,) = await events(opened, "tool_finished")
        assert finished.body.ok
        assert gate.effects == 1


async def test_a_connection_lost_for_long_is_an_unknown_outcome_until_the_runtime_answers(
    serve: Started, wired: Any, gate: Gate
) -> None:
    wire, agent = await wired(serve(**CALLERS))
    async with agent.session([GO, says("I do not know"), says("now I do")], replies=["yes"]) as opened:
        running = asyncio.ensure_future(run(opened.session, "go"))
        await gate.begun()
        wire.cut(down=True)
        assert (await running).status == "completed"
        (unknown,) = await events(opened, "outcome_unknown")
        assert unknown.body.error == "runtime_lost"
        assert not await events(opened, "outcome_resolved")
        gate.let_go()
        wire.down = False
        while opened.session.state.parked:
            await reconcile_calls(opened.session)
        await run(opened.session, "and?")
        (resolved,) = await events(opened, "outcome_resolved")
        assert (resolved.body.outcome, resolved.actor) == ("done", "runner")
        assert gate.effects == 1


async def test_a_runtime_killed_in_a_call_cannot_tell_and_says_so(serve: Started, agent: Any, gate: Gate) -> None:
    runtime = serve(**CALLERS)
    patient = RemoteAgent(agent(runtime).home, runtime.port, {**BELIEVING, "runtime.patience": FOREVER})
    async with patient.session([GO, says("I do not know")], replies=["yes"]) as opened:
        running = asyncio.ensure_future(run(opened.session, "go"))
        await gate.begun()
        runtime.end(9)
        runtime.start()
        assert (await running).status == "completed"
        (unknown,) = await events(opened, "outcome_unknown")
        assert unknown.body.error == ""
        gate.let_go()


async def test_a_session_resumed_in_another_process_hears_what_came_of_its_call(
    serve: Started, wired: Any, gate: Gate
) -> None:
    wire, agent = await wired(serve(**CALLERS))
    async with agent.session([GO, says("I do not know")], replies=["yes"]) as opened:
        running = asyncio.ensure_future(run(opened.session, "go"))
        await gate.begun()
        wire.cut(down=True)
        await running
        name = opened.name
    gate.let_go()
    wire.down = False
    async with asyncio.timeout(FOREVER):
        parked = True
        while parked:
            async with agent.session(resume=name) as opened:
                parked = bool(opened.session.state.parked)
    async with agent.session([says("it is done")], resume=name) as opened:
        await run(opened.session, "and?")
        (resolved,) = await events(opened, "outcome_resolved")
        assert (resolved.body.outcome, gate.effects) == ("done", 1)


async def test_a_lost_runtime_ends_the_whole_plan_and_is_named(serve: Started, agent: Any) -> None:
    runtime = serve()
    async with agent(runtime).session() as opened:
        await opened.session.tools.refresh([])
        wanted = plan(task(1, call("read_file", path="a.txt")), task(2, call("list_files", path="."), after=(1,)))
        runtime.end(9)
        report = await carried_out(opened.session, wanted)
        assert report.status == "blocked"
        assert "lost the runtime" in report.reason
        assert [one.status for one in report.tasks] == ["failed", "aborted"]


async def test_a_plan_runs_there(serve: Started, agent: Any, folder: Path) -> None:
    async with agent(serve()).session() as opened:
        wanted = plan(task(1, call("read_file", path="a.txt")), task(2, edit("a.txt", "teh", "the"), after=(1,)))
        report = await carried_out(opened.session, wanted)
        assert (report.status, (folder / "a.txt").read_text()) == ("completed", "the cat\n")
        assert await follow_plan(opened.session)


async def test_without_its_runtime_a_session_has_no_tools_and_says_so(serve: Started, agent: Any) -> None:
    remote = agent(serve())
    async with remote.session([READ, says("done")]) as opened:
        await run(opened.session, "look")
        name = opened.name
    from foregate.assembly.open import open_session
    from foregate.assembly.setting import SessionOptions

    environ = {"FOREGATE_HOME": str(remote.home), "HOME": str(remote.home)}
    bare = await open_session(SessionOptions(model="rehearsal", resume=name, environ=environ))
    assert list(bare.session.tools.specs()) == []
    assert any("--runtime" in note for note in bare.notes)
    await bare.close(end=False)


async def test_a_session_with_tools_of_its_own_gets_no_runtime(serve: Started, agent: Any, tmp_path: Path) -> None:
    from foregate.assembly.open import open_session
    from foregate.assembly.setting import SessionOptions

    remote = agent(serve())
    environ = {"FOREGATE_HOME": str(remote.home), "HOME": str(tmp_path)}
    own = await open_session(SessionOptions(workspace=tmp_path, model="rehearsal", environ=environ))
    await own.close(end=False)
    with pytest.raises(UsageError, match="begin a new one"):
        async with remote.session(resume=own.name):
            pass
