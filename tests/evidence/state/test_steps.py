"""Which steps of an accepted plan are done, by which events."""

from __future__ import annotations

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import answers, calls, says
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import ToolFinished
from tests.agent.corpus import BOB, EDIT, READ, TALK
from tests.agent.world import World, plan_json

STEPS = (
    {"tool": "note", "target": "k*", "description": "keep it", "effect": None, "uses": 2},
    {"tool": "read_file", "target": "./a.txt", "description": "look", "effect": "observation", "uses": None},
    {"tool": "read_file", "target": "c.txt", "description": "no such file", "effect": None, "uses": None},
)
SEND = ("send", {"to": BOB, "text": "hello"})
REQUEST = f"send a greeting to {BOB} and note k1 and k2"


async def played(*model: object) -> tuple[World, list[Event]]:
    """Run a message under a plan of four steps and return the world with the events."""
    world = World()
    session = await world.open([calls(SEND, text=TALK), answers(plan_json("send", BOB, *STEPS)), *model], ["yes"])
    await run(session, REQUEST)
    return world, list(await world.log.read("s"))


def finished(events: list[Event]) -> list[int]:
    """Return the events by which calls ended."""
    return [event.seq for event in events if isinstance(event.body, ToolFinished)]


def snapshots(events: list[Event]) -> list[dict[str, object]]:
    """Return the execution state of each turn something ran in."""
    rows = [event.body.judgement.decisions[-1] for event in events if isinstance(event.body, TurnJudged)]
    return [dict(row.detail["execution_state"]) for row in rows if row.gate == "prelude"]  # type: ignore[arg-type]


async def test_a_step_is_done_by_the_event_that_ends_the_last_of_its_calls() -> None:
    notes = [calls(("note", {"key": f"k{n}"})) for n in (1, 2)]
    _, events = await played(*notes, calls(READ), says("all done"))
    sent, _, second, _ = finished(events)
    assert [state["plan"] for state in snapshots(events)] == [1, 1, 1, 1], "also where it was accepted"
    first = {"plan-v1-step-1": sent}
    assert [state.get("steps", {}) for state in snapshots(events)] == [
        {},
        first,
        first,
        first | {"plan-v1-step-2": second},
    ]


async def test_a_call_that_no_step_names_and_one_that_fails_complete_none() -> None:
    _, events = await played(calls(("read_file", {"path": "b.txt"}), ("read_file", {"path": "c.txt"})), says("no"))
    assert snapshots(events)[-1]["steps"] == {"plan-v1-step-1": finished(events)[0]}


async def test_a_plan_without_planned_steps_is_its_first_action() -> None:
    world = World()
    model = [calls(READ, text=TALK), calls(SEND, text=TALK), answers(plan_json("send", BOB))]
    session = await world.open([*model, calls(EDIT), says("done")], ["yes"])
    await run(session, f"fix a.txt and send a greeting to {BOB}")
    events = list(await world.log.read("s"))
    assert snapshots(events)[-1]["steps"] == {"plan-v1-step-1": finished(events)[1]}
