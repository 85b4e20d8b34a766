"""What an export says the model was sent is what it was sent."""

from __future__ import annotations

import pytest

from foregate.evidence.state.session import SessionState
from foregate.telemetry.export.lines import ModelConversation, read_sent_requests
from tests.telemetry.export.stories import (
    STORIES,
    Noting,
    Story,
    child,
    compressed,
    compressed_within,
    logged,
    plan_filled,
    told,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_the_conversation_is_the_session_s_own_after_every_event(story: Story) -> None:
    world, _ = await told(story)
    for name in await world.log.sessions():
        state, heard = SessionState(), ModelConversation()
        for event in logged(world.log, name):
            state.apply(event)
            heard.apply(event)
            assert heard.messages == state.messages


@pytest.mark.parametrize("story", [compressed, compressed_within, plan_filled], ids=lambda story: story.__name__)
async def test_each_state_is_what_the_model_was_asked(story: Story) -> None:
    world, session = await told(story)
    assert isinstance(session.model, Noting)
    states = list(read_sent_requests(logged(world.log, "s"), world.blobs, lambda data: data))
    if story is plan_filled:
        assert [state.apart for state in states] == [False, True]
        states = [state for state in states if state.apart]
    else:
        assert any(event.kind == "context_compressed" for event in logged(world.log, "s"))
    assert [list(state.messages) for state in states] == session.model.sent


async def test_a_child_has_states_of_its_own() -> None:
    world, _ = await told(child)
    (name,) = [name for name in await world.log.sessions() if "." in name]
    first = next(read_sent_requests(logged(world.log, name), world.blobs, lambda data: data))
    assert [message.text for message in first.messages][1:] == [
        "what does a.txt say?",
        "read a.txt and say what it says",
    ]
