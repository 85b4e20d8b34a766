"""A process that ends while something is only observed leaves nothing that an undo would wait for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from foregate.agent.loop.asking import describe_open_trouble
from foregate.agent.loop.reconcile import resume
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session.session import Session
from foregate.agent.session.session_log import fold_session
from foregate.agent.tools.tool import Toolbox
from foregate.schemas.event import Event
from foregate.schemas.event_body import EffectUndone, ToolFinished, ToolStarted
from foregate.schemas.message import ModelRequest
from foregate.schemas.protocols import RunContext
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.loop.test_answers import EDIT, PLANNED, READ, TALK, plan
from tests.agent.world import World
from tests.policies import policy_with

OBSERVED = ("runner remedy", "runner early", "model prefetched", "model", "postlude")
"""Who observes in the task below, and what for."""


class Killed(BaseException):
    """The process is gone."""


def answer(request: ModelRequest) -> Any:
    """Return what a model says that edits a file unread, then reads, then edits, and has its promise checked."""
    if request.purpose != "chat":
        return plan("file_contains", "a.txt", "the cat")
    names = {call.id: call.name for message in request.messages for call in message.calls}
    told = [(names[one.call], json.loads(one.text)["ok"]) for one in request.messages if one.role == "tool"]
    if ("edit_file", True) in told:
        return says("fixed")
    if not told:
        return calls(EDIT, text=TALK)
    if ("read_file", True) not in told:
        return calls(READ, ("read_file", {"path": "b.txt"}))
    return calls(EDIT)


def name_look(body: ToolStarted, actor: str) -> str:
    if actor == "runner":
        return f"runner {'early' if body.early else 'remedy'}"
    return "model prefetched" if body.look is not None else actor


async def killed_in(who: str) -> World:
    """Return a world whose process ended in the first thing observed by and for `who`."""
    world = World(policy=policy_with(PLANNED))
    seen = []

    def die(event: Event) -> None:
        if isinstance(event.body, ToolStarted) and event.body.side_effect == "pure":
            seen.append(name_look(event.body, event.actor))
            if seen[-1] == who:
                raise Killed

    model = ScriptedModel([answer] * 40)
    session = await world.open(model, listeners=[die], prefetch=who != "model")
    with pytest.raises(Killed):
        await run(session, "fix a.txt")
    await world.kill(session)
    return world


@pytest.mark.parametrize("who", OBSERVED)
async def test_a_session_that_nobody_went_on_with_can_be_undone_and_gone_on_with(who: str) -> None:
    world = await killed_in(who)
    session = await world.open(ScriptedModel([answer] * 40), resume=True)
    assert session.running_calls == []
    report = await undo(session)
    assert report.done == (who == "postlude"), "only then something was changed"
    assert report.done or "nothing that was changed" in report.reason
    assert verify_rows(world.log.lines("s"), "s").defects == ()
    assert (await run_to_outcome(session)).status == "completed"
    assert verify_rows(world.log.lines("s"), "s").defects == ()


@pytest.mark.parametrize("who", OBSERVED)
async def test_a_session_that_was_gone_on_with_can_be_undone(who: str) -> None:
    world = await killed_in(who)
    session = await world.open(ScriptedModel([answer] * 40), resume=True)
    assert (await run_to_outcome(session)).status == "completed"
    assert session.state.in_flight == {}
    report = await undo(session)
    assert (report.done, report.reason, world.workspace.files["a.txt"]) == (True, "", b"teh cat")
    assert verify_rows(world.log.lines("s"), "s").defects == ()


@pytest.mark.parametrize("who", OBSERVED)
async def test_what_was_cut_off_is_closed_once_and_neither_told_the_model_nor_counted(who: str) -> None:
    world = await killed_in(who)
    before = await fold_session(world.log, "s")
    session = await world.open([], resume=True)
    closed = [body for body in await world.bodies(ToolFinished) if body.error == "process_ended"]
    left = [call for call in before.in_flight if not before.is_asked(call)]
    assert sorted(body.call for body in closed) == sorted(left)
    assert bool(left) != who.startswith("model"), "what the model asked for is run again"
    assert session.state.messages == before.messages
    assert describe_open_trouble(session.state) == describe_open_trouble(before)
    await world.kill(session)
    seq = session.state.seq
    assert (await world.open([], resume=True)).state.seq == seq


@pytest.mark.parametrize("who", OBSERVED)
async def test_the_log_of_an_earlier_version_that_never_closed_it_can_be_undone(who: str) -> None:
    world = await killed_in(who)
    old = Session(
        log=world.log,
        lease=await world.log.claim("s", create=False),
        state=await fold_session(world.log, "s"),
        blobs=world.blobs,
        model=ScriptedModel([answer] * 40),
        tools=Toolbox(world.tools()),
        policy=world.policy,
        workspace=world.workspace,
        clock=world.clock,
    )
    assert (await run_to_outcome(old)).status == "completed"
    await old.close()
    session = await world.open([], resume=True)
    await resume(session)
    assert (await undo(session)).done
    assert world.workspace.files["a.txt"] == b"teh cat"
    assert len(await world.bodies(EffectUndone)) == 1
    assert verify_rows(world.log.lines("s"), "s").defects == ()


async def test_an_undo_waits_for_what_runs_in_this_process() -> None:
    world = World()
    reasons: list[str] = []

    class Asking(Toolbox):
        """Tools that want an undo while they run."""

        async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
            reasons.append((await undo(session)).reason)
            return await super().run(call, context)

    session = await world.open([calls(READ), says("done")])
    session.tools = Asking(world.tools())
    await run(session, "read a.txt")
    assert reasons == ["a tool is still running; wait for it or cancel it"]
