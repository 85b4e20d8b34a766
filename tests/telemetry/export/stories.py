"""Sessions of every kind, each a run of the real loop: those that fire every code, and those that end otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from foregate.agent.loop.reconcile import record_outcome
from foregate.agent.loop.runner import run, run_to_outcome, take_step
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.planning.control import decide
from foregate.agent.session.session import Session
from foregate.agent.workspace.cancelled_work import stop_task
from foregate.schemas.event import Draft, Event
from foregate.schemas.event_body import PolicyChanged
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.protocols import Reply
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.log.memory_log import MemoryLog
from tests.agent import corpus
from tests.agent.corpus import ASK_EDITS, EDIT, READ, SEND, TALK, rules
from tests.agent.planning.plans import call, carried_out, confirmed, edit, plan, task
from tests.agent.session.test_cancel_and_recover import Killed, at, hanging
from tests.agent.world import World
from tests.policies import policy_with

NOTE = ("note", {"key": "k"})
SMALL = policy_with(
    {
        "context.max_tokens": 1500,
        "context.keep_first": 1,
        "context.keep_last": 1,
        "limits.identical_observations": 0,
    }
)
DELEGATE = ("delegate", {"task": "read a.txt and say what it says"})


class Noting(ScriptedModel):
    """A scripted model that notes the messages of each request as they are then."""

    @property
    def sent(self) -> list[list[Message]]:
        """The messages of each request."""
        return self.__dict__.setdefault("noted", [])

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer; see ScriptedModel."""
        self.sent.append(list(request.messages))
        return await super().respond(request, on_text)


async def child(world: World) -> Session:
    """A task that is handed on, and a second one of the same session."""
    model = [calls(DELEGATE), calls(READ), says("it says teh cat"), says("teh cat, I hear"), says("you are welcome")]
    session = await world.open(model)
    await run(session, "what does a.txt say?")
    await run(session, "thanks")
    await session.close()
    return session


async def grandchild(world: World) -> Session:
    """A task handed on twice."""
    world.policy = policy_with({"limits.child_depth": 2})
    inner = [calls(DELEGATE), calls(READ), says("teh cat"), says("it says teh cat")]
    session = await world.open([calls(DELEGATE), *inner, says("teh cat, I hear")])
    await run(session, "what does a.txt say?")
    return session


async def plan_run(world: World) -> Session:
    """A plan that lists its calls: nobody asks a model."""
    session = await world.open([])
    await carried_out(session, plan(task(1, call("read_file", path="a.txt")), task(2, edit("a.txt", "teh", "the"))))
    return session


async def plan_filled(world: World) -> Session:
    """A plan whose second task an execution model fills in."""
    session = await world.open(Noting([replace(calls(EDIT), usage=Usage(7, 3))]))
    tasks = (task(1, call("read_file", path="a.txt")), task(2, action="edit_file", target="a.txt", after=(1,)))
    run_ = await confirmed(session, plan(*tasks))
    await run_.run()
    return session


async def plan_failed(world: World) -> Session:
    """A plan of which a task fails, and a person who goes on all the same."""
    session = await world.open([])
    tasks = (task(1, edit("a.txt", "nowhere", "in it")), task(2, call("read_file", path="a.txt")))
    run_ = await confirmed(session, plan(*tasks, on_failure="ask"))
    await run_.run()
    (failed,) = [step_ for step_ in run_.state.steps.values() if step_.status == "failed"]
    await decide(session, run_.state, failed, "go_on")
    await run_.run()
    return session


async def undone(world: World) -> Session:
    """A change that is taken back."""
    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("fixed")])
    await run(session, "fix the typo in a.txt")
    assert (await undo(session)).done
    return session


async def unknown(world: World) -> Session:
    """A change during which the process ended, and the session that went on."""
    session = await world.open([calls(NOTE, text=TALK), says("done")], listeners=[at("tool_started")])
    try:
        await run(session, "note k")
    except Killed:
        await world.kill(session)
    session = await world.open([says("I do not know")], resume=True)
    await run_to_outcome(session)
    return session


async def resolved(world: World) -> Session:
    """A change of which a person says later that it took effect."""
    session = await unknown(world)
    await record_outcome(session, next(iter(session.state.parked)), "done")
    return session


async def looked_again(world: World) -> Session:
    """A look during which the process ended: it is taken again under the same id."""
    session = await world.open([calls(READ, text=TALK), says("done")], listeners=[at("tool_started")])
    try:
        await run(session, "what is in a.txt")
    except Killed:
        await world.kill(session)
    session = await world.open([says("teh cat")], resume=True)
    await run_to_outcome(session)
    return session


async def unfinished(world: World) -> Session:
    """A response that was judged, and nothing after it."""
    session = await world.open([calls(READ, NOTE, text=TALK)], listeners=[at("turn_judged")])
    try:
        await run(session, "note k")
    except Killed:
        await world.kill(session)
    return session


async def cancelled(world: World) -> Session:
    """A turn that a person cancelled while a tool ran."""
    reached = asyncio.Event()
    session = await world.open([calls(NOTE, READ, text=TALK), says("hello")])
    session.tools = hanging(world, "note", reached)
    running = asyncio.create_task(run(session, "note k in a.txt"))
    await reached.wait()
    stop_task(running)
    await running
    await run(session, "hello")
    return session


async def compressed(world: World) -> Session:
    """A chat longer than the model is sent."""
    world.policy = SMALL
    steps = [(calls(READ, text=f"look {number}"), says(f"said {number} {'w' * 300}")) for number in range(8)]
    session = await world.open(Noting([one for both in steps for one in both]))
    for number in range(8):
        await run(session, f"question {number} about a.txt {'q' * 300}")
    return session


async def compressed_within(world: World) -> Session:
    """One task during which the conversation is compressed."""
    world.policy = SMALL
    session = await world.open(Noting([*[calls(READ, text=f"look {n} {'w' * 400}") for n in range(12)], says("seen")]))
    await run(session, "read a.txt until you are sure")
    return session


async def approved(world: World) -> Session:
    """A rule asks, and a person says no with a reason, then yes."""
    world.policy = rules(ASK_EDITS)
    other = ("edit_file", {"path": "a.txt", "old": "teh", "new": "The"})
    model = [calls(READ, text=TALK), calls(EDIT), calls(other, text="with a capital then"), says("ok")]
    session = await world.open(model, [Reply("no", "with a capital"), Reply("yes")])
    await run(session, "fix a.txt")
    await session.close()
    return session


async def broken(world: World) -> Session:
    """Calls that cannot be read, spelled unusually, or are longer than a response may be; and two empty responses."""
    odd = ToolCall.parse("read_file", '{ "path" : "a.txt" }', wire_id="call_1")
    none = ToolCall.parse("read_file", '{"path": "a.txt", "path": "b.txt"}', wire_id="call_1")
    wide = ToolCall.parse("note", '{"key": "\\u00e4\\ud83d\\ude00", "n": 1.50, "m": 123456789012345678901234567890}')
    first = ModelResponse(
        "Ok \u2028 now.", (odd, none, wide), "I think.", Usage(10, 5, 70), "tool_calls", "m-1", ("a note",)
    )
    cut = replace(calls(READ), finish_reason="length")
    session = await world.open([first, cut, says(""), says("")])
    await run(session, "read a.txt")
    return session


async def dry(world: World) -> Session:
    """Everything is judged and no change is made."""
    session = await world.open([calls(READ, text=TALK), calls(EDIT), says("would be fixed")])
    await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    await run(session, "fix the typo in a.txt")
    return session


async def asked_back(world: World) -> Session:
    """A question to the person, and the answer."""
    session = await corpus.uncertainty(world)
    session.model = ScriptedModel([says("then I leave it")])
    await run(session, "only a.txt")
    return session


async def too_many(world: World) -> Session:
    """More calls than a response may have, the last of which are neither judged nor run."""
    world.policy = policy_with({"limits.calls_per_response": 2})
    session = await world.open([calls(READ, READ, SEND, text=TALK), says("ok")])
    await run(session, corpus.REQUEST)
    return session


async def waiting(world: World) -> Session:
    """A task that waits for a yes."""
    session = await world.open([calls(SEND, text=TALK), corpus.PLAN, corpus.YES], [None])
    await run(session, corpus.REQUEST)
    await world.kill(session)
    return session


async def stepped(world: World) -> Session:
    """A session in which the first response was recorded and not judged."""
    session = await world.open([calls(READ)])
    await session.record_message("read a.txt")
    await take_step(session)
    return session


Story = Callable[[World], Awaitable[Session]]
KINDS: tuple[Story, ...] = (
    child,
    grandchild,
    plan_run,
    plan_filled,
    plan_failed,
    undone,
    unknown,
    resolved,
    looked_again,
    unfinished,
    cancelled,
    compressed,
    compressed_within,
    approved,
    broken,
    dry,
    asked_back,
    too_many,
    waiting,
    stepped,
)
STORIES: tuple[Story, ...] = (*corpus.STORIES, *KINDS)


async def told(story: Story) -> tuple[World, Session]:
    """Return a world in which a story was told."""
    world = World()
    return world, await story(world)


def logged(log: MemoryLog, name: str) -> list[Event]:
    """Return the events of a session."""
    return list(log.events(name))
