"""Whoever cancels an agent's work is named in the log, and a caller's cancel goes on to the caller."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from foregate import Agent, RunResult, tool
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.workspace.cancelled_work import Stopped, stop_task
from foregate.policy.policy import Policy
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, TaskEnded
from foregate.schemas.judgement import Need
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.queries.verify import verify_session
from tests.events import bodies

TALK = "I will do what you asked for now."


class Place:
    """Somewhere in the midst of a task: it says that it was reached, and never comes back the first time."""

    def __init__(self, where: str) -> None:
        self.where, self.reached = where, asyncio.Event()

    async def stay(self, here: str) -> None:
        if here == self.where and not self.reached.is_set():
            self.reached.set()
            await asyncio.Event().wait()

    async def answer(self, need: Need) -> Reply | None:
        """Be asked."""
        await self.stay("question")
        return Reply("yes")


class Model(ScriptedModel):
    """A scripted model that may never answer."""

    def __init__(self, place: Place, steps: list[Any]) -> None:
        super().__init__(steps)
        self.place = place

    async def respond(self, *arguments: Any) -> ModelResponse:
        """Answer, if ever."""
        await self.place.stay("request")
        return await super().respond(*arguments)


async def by_timeout(work: Callable[[], Awaitable[Any]], reached: asyncio.Event) -> None:
    async def wait() -> None:
        async with asyncio.timeout(None) as bound:
            end = asyncio.ensure_future(reached.wait())
            end.add_done_callback(lambda _: bound.reschedule(0))
            await work()

    with pytest.raises(TimeoutError):
        await wait()


async def by_wait_for(work: Callable[[], Awaitable[Any]], reached: asyncio.Event) -> None:
    task = asyncio.ensure_future(asyncio.wait_for(work(), 1000))
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_cancel(work: Callable[[], Awaitable[Any]], reached: asyncio.Event) -> None:
    task = asyncio.ensure_future(work())
    await reached.wait()
    task.cancel("we are closing")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_sibling(work: Callable[[], Awaitable[Any]], reached: asyncio.Event) -> None:
    async def fail() -> None:
        await reached.wait()
        raise KeyError("sibling")

    async def go() -> None:
        await work()

    async def wait() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(go())
            group.create_task(fail())

    with pytest.raises(ExceptionGroup) as raised:
        await wait()
    assert [type(error) for error in raised.value.exceptions] == [KeyError]


WAYS = [by_timeout, by_wait_for, by_cancel, by_sibling]


def build(place: Place, folder: Path, policy: Policy, log: MemoryLog, **more: Any) -> Agent:
    """Return an agent that makes one change by a tool, which is asked about, and then says so."""

    @tool(effect="send", external=True, reversible=False, targets={"what": "message"})
    async def send(what: str) -> str:
        """Send something."""
        await place.stay("tool")
        return "sent"

    model = Model(place, [calls(("send", {"what": "a"}), text=TALK), *[says("Hello.")] * 4])
    options: dict[str, Any] = {"workspace": folder, "policy": policy, "tools": [send], "builtin": False, "log": log}
    return Agent(model=model, person=place, **options | more)


@pytest.mark.parametrize("where", ["request", "question", "tool"])
@pytest.mark.parametrize("way", WAYS)
async def test_a_callers_cancel_is_recorded_as_the_callers_and_goes_on(
    way: Callable[..., Awaitable[None]], where: str, folder: Path, policy: Policy
) -> None:
    place, log = Place(where), MemoryLog()
    async with build(place, folder, policy, log) as agent:
        await way(lambda: agent.run("send a"), place.reached)
        assert agent.outcome is not None
        (ended,) = bodies(await log.read(agent.session), TaskEnded)
        assert (agent.outcome.status, ended.status) == ("cancelled", "cancelled")
        said = "the caller (we are closing) cancelled" if way is by_cancel else "the caller cancelled"
        assert (ended.note, agent.outcome.report.blocker) == (said, said)
        events = await log.read(agent.session)
        assert len(bodies(events, OutcomeUnknown)) == (where == "tool")
        assert [one.message for one in bodies(events, CallAnswered)] == (
            [f"cancelled by {said.removesuffix(' cancelled')}"] if where == "question" else []
        )
        name = agent.session
        assert (await agent.run("go on")).status in ("completed", "awaiting_approval")
    async with build(Place(""), folder, policy, log, resume=name) as again:
        assert (await again.run("once more")).status == "completed"
    assert verify_session(log, name).ok


async def test_a_cancel_that_comes_when_the_task_has_ended_goes_on_and_the_log_says_completed(
    folder: Path, policy: Policy
) -> None:
    class Slow(MemoryLog):
        """A log that takes ever so long to write the end."""

        async def settle(self, lease: Any) -> None:
            if (await self.read(lease.session))[-1].kind == "task_ended" and not reached.is_set():
                reached.set()
                await asyncio.Event().wait()

    log, reached = Slow(), asyncio.Event()
    async with Agent(model=ScriptedModel([says("hello")]), workspace=folder, policy=policy, log=log) as agent:
        await by_cancel(lambda: agent.run("hello"), reached)
        assert agent.outcome is not None
        assert (agent.outcome.status, agent.outcome.text) == ("completed", "hello")
        assert [one.status for one in bodies(await log.read(agent.session), TaskEnded)] == ["completed"]


@pytest.mark.parametrize("person", [False, True])
async def test_a_cancel_reaches_through_a_child_task(person: bool, folder: Path, policy: Policy) -> None:
    place, log = Place("request"), MemoryLog()

    class Handing(ScriptedModel):
        """Hands on its task; who gets it never answers."""

        async def respond(self, *arguments: Any) -> ModelResponse:
            """Answer the first request only."""
            if self.requests:
                await place.stay("request")
            return await super().respond(*arguments)

    wide = policy.model_copy(update={"limits": policy.limits.model_copy(update={"child_depth": 1})})
    model = Handing([calls(("delegate", {"task": "count to three"}), text=TALK)])
    async with Agent(model=model, workspace=folder, policy=wide, log=log) as agent:
        if person:
            task = asyncio.ensure_future(agent.run("count to three"))
            await place.reached.wait()
            stop_task(task)
            assert (await task).status == "cancelled"
        else:
            await by_cancel(lambda: agent.run("count to three"), place.reached)
        sessions = [agent.session, *(name for name in await log.sessions() if name != agent.session)]
        ends = [bodies(await log.read(name), TaskEnded) for name in sessions]
    said = "the person cancelled" if person else "the caller (we are closing) cancelled"
    assert [[(one.status, one.note) for one in found] for found in ends] == [[("cancelled", said)]] * 2


async def test_who_is_cancelled_while_following_the_events_hears_of_it(folder: Path, policy: Policy) -> None:
    place, log = Place("request"), MemoryLog()
    async with build(place, folder, policy, log) as agent:

        async def follow() -> None:
            async for _ in agent.events("send a"):
                pass

        await by_cancel(follow, place.reached)
        assert agent.outcome is not None
        assert agent.outcome.report.blocker == "the caller cancelled"


async def test_a_persons_stop_ends_the_task_in_their_name_and_gives_its_outcome(folder: Path, policy: Policy) -> None:
    place, log = Place("tool"), MemoryLog()
    async with build(place, folder, policy, log) as agent:
        task: asyncio.Task[RunResult] = asyncio.ensure_future(agent.run("send a"))
        await place.reached.wait()
        stop_task(task)
        assert (await task).report.blocker == "the person cancelled"


async def test_a_person_who_gives_up_at_a_question_ends_the_task_in_their_name(folder: Path, policy: Policy) -> None:
    class GivesUp(Place):
        """Who presses Ctrl-C."""

        async def answer(self, need: Need) -> Reply | None:
            """Give up."""
            raise Stopped

    async with build(GivesUp(""), folder, policy, MemoryLog()) as agent:
        assert (await agent.run("send a")).report.blocker == "the person cancelled"


async def test_a_second_cancel_waits_until_the_first_has_left_nothing_open(folder: Path, policy: Policy) -> None:
    place, log = Place("question"), MemoryLog()
    async with build(place, folder, policy, log) as agent:
        task = asyncio.ensure_future(agent.run("send a"))
        await place.reached.wait()
        (await agent.open()).subscribe(lambda event: task.cancel() and None)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert [event.kind for event in await log.read(agent.session)][-2:] == ["call_answered", "task_ended"]


PROGRAM = """
import os, signal, sys
from foregate import Agent
from foregate.testing import ScriptedModel

class Never(ScriptedModel):
    async def respond(self, *arguments):
        os.kill(os.getpid(), signal.SIGINT)
        import asyncio
        await asyncio.Event().wait()

agent = Agent(model=Never([]), workspace=sys.argv[1])
{work}
print(agent.outcome.status, "|", agent.outcome.report.blocker)
agent._get_runner().run(agent.close())
"""
SYNC = "try: agent.run_sync('hello')\nexcept KeyboardInterrupt: print('interrupted')"


def test_ctrl_c_in_a_program_interrupts_it(folder: Path, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(work=SYNC))
    environment: Mapping[str, str] = {**os.environ, "FOREGATE_HOME": str(tmp_path / "home")}
    ran = subprocess.run(
        [sys.executable, "-I", program, folder], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.stdout.splitlines() == ["interrupted", "cancelled | the caller cancelled"], ran.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
