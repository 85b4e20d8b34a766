"""Who follows a session: told of every event from the subscription on, in order, and of none after its end."""

from __future__ import annotations

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import says
from foregate.schemas.event import Event
from tests.agent.world import World


async def test_a_subscriber_is_told_what_is_recorded_from_then_on_in_order() -> None:
    world, early, late = World(), list[Event](), list[Event]()
    session = await world.open([says("hello"), says("again")], listeners=[early.append])
    began = session.state.seq
    session.subscribe(late.append)
    await run(session, "hello")
    events = list(await world.log.read("s"))
    assert early == events
    assert late == [event for event in events if event.seq > began]


async def test_an_ended_subscription_hears_nothing_and_ending_it_again_is_harmless() -> None:
    world, heard, kept = World(), list[Event](), list[Event]()
    session = await world.open([says("hello"), says("again")])
    session.subscribe(kept.append)
    subscription = session.subscribe(heard.append)
    await run(session, "hello")
    before = len(heard)
    subscription.end()
    subscription.end()
    await run(session, "again")
    assert 0 < len(heard) == before < len(kept)


async def test_a_subscription_as_a_context_ends_with_it_even_by_an_error() -> None:
    world, heard = World(), list[Event]()
    session = await world.open([says("hello")])

    async def fail() -> None:
        with session.subscribe(heard.append):
            await session.record_message("hello")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    inside = len(heard)
    await run(session, "hello")
    assert 0 < inside == len(heard) < len(await world.log.read("s"))


async def test_a_listener_that_is_told_has_the_event_in_the_state_already() -> None:
    world, numbers = World(), list[tuple[int, int]]()
    session = await world.open([says("hello")])
    with session.subscribe(lambda event: numbers.append((event.seq, session.state.seq))):
        await run(session, "hello")
    assert numbers
    assert all(seq == state for seq, state in numbers)


async def test_one_listener_subscribed_twice_is_told_twice_until_each_subscription_ends() -> None:
    world, heard = World(), list[Event]()
    session = await world.open([says("hello")])
    first, second = session.subscribe(heard.append), session.subscribe(heard.append)
    await session.record_message("hello")
    assert [event.seq for event in heard] == [seq for seq in sorted({event.seq for event in heard}) for _ in range(2)]
    first.end()
    first.end()
    before = len(heard)
    await run(session, "hello")
    assert len(heard) > before
    second.end()


async def test_a_subscription_may_end_while_its_listener_is_told_and_the_others_miss_nothing() -> None:
    world, once, all_of_them = World(), list[Event](), list[Event]()
    session = await world.open([says("hello")])

    def hear(event: Event) -> None:
        once.append(event)
        subscription.end()

    subscription = session.subscribe(hear)
    session.subscribe(all_of_them.append)
    began = session.state.seq
    await run(session, "hello")
    assert len(once) == 1
    assert [event.seq for event in all_of_them] == list(range(began + 1, session.state.seq + 1))
