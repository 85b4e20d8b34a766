"""Families of sessions that are played twice: child tasks, sessions that go on with an ended one, and undos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import undo
from foregate.agent.session.linked import draft_switches, find_lineage, fold_lineage
from foregate.agent.session.session import Session
from foregate.evidence.state.lineage import begin_further
from foregate.gates.replay.assumption import Assumption
from foregate.policy.policy import Policy
from foregate.schemas.event import Event
from foregate.schemas.protocols import Model, Person
from foregate.tuning.family_replay import PolicyReplacer
from foregate.tuning.rehearse import Rehearsal, SessionCounts, count_events, rehearse
from tests.agent.world import World
from tests.tuning.rehearsing.models import Agreeing, Heedless, Wanted

Steps = Sequence[tuple[str, Sequence[Wanted]]]
DONE: tuple[str, Sequence[Wanted]] = ("That is done.", ())
"""A response in words, which ends the task in hand: a child task, or that of a person."""


def delegate(text: str = "do a part of it") -> Wanted:
    """Return a call that begins a child task."""
    return ("delegate", {"task": text})


@dataclass(frozen=True)
class Message:
    """What a person sends, what the model does then, and whether they undo the newest change and end the session."""

    steps: Steps
    text: str = "fix a.txt and b.txt and send a greeting to bob@example.org"
    undoes: bool = False
    ends: bool = False


async def open_further(world: World, model: Model, person: Person | None) -> Session:
    """Return the session that goes on with the ended session `s` and those that went on with it."""
    lineage = await find_lineage(world.log, "s")
    assert lineage.follows is not None
    state = await fold_lineage(world.log, lineage)
    begin_further(state)
    lease = await world.log.claim(lineage.name, create=True)
    session = await world.open_claimed(model, lease, person, state)
    began = await session.draft_start(follows=lineage.follows)
    session.log.follow(lineage.before, began, *draft_switches(state))
    return session


async def play_messages(
    messages: Sequence[Message], policy: Policy, kind: type[Heedless] = Heedless, person: Person | None = None
) -> World:
    """Return the world in which these messages were really sent under a policy."""
    world = World(policy=policy)
    model = kind([step for message in messages for step in (*message.steps, DONE)])
    asked = person or Agreeing()
    session, is_open = await world.open(model, asked), True
    for message in messages:
        if not is_open:
            session, is_open = await open_further(world, model, asked), True
        await run(session, message.text)
        if message.undoes:
            await undo(session)
        if message.ends and session.state.task is None:
            await session.close()
            is_open = False
    return world


async def list_events(world: World) -> dict[str, Sequence[Event]]:
    """Return the events of all sessions, each before those that go on with it and before its child tasks."""
    return {name: await world.log.read(name) for name in sorted(await world.log.sessions())}


async def rehearse_family(
    events: dict[str, Sequence[Event]], policy: Policy | None, **assumed: str
) -> dict[str, Rehearsal]:
    """Return what came of each session under a policy, None for its own."""
    again = PolicyReplacer((lambda layers: policy) if policy is not None else None)
    played = await rehearse(lambda name: events.get(name, ()), list(events), again, Assumption(**assumed))
    return {one.session: one for one in played}


async def count_sessions(world: World) -> list[SessionCounts]:
    """Return the counts of all sessions in which anything happened, the names of child tasks left aside."""
    return sort_counts(count_events(events) for events in (await list_events(world)).values())


def sort_counts(counts: object) -> list[SessionCounts]:
    """Return counts that are not all zero, in an order of their own."""
    found = [one for one in counts if one != SessionCounts()]  # type: ignore[attr-defined]
    return sorted(found, key=lambda one: [getattr(one, name) for name in one.__struct_fields__])
