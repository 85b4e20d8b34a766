"""What is left out of events leaves events: whole, of their kind, and readable."""

from __future__ import annotations

import json

import pytest

from foregate.schemas.event import Event
from foregate.schemas.event_body import SessionStarted, ToolFinished
from foregate.telemetry.export.fold import fold_trajectory
from foregate.telemetry.export.hiding import OTHER, TextRemover, mask_event
from foregate.telemetry.log.chain import build_header, read_event
from tests.agent import corpus
from tests.telemetry.export.stories import STORIES, Story, child, logged, told


def read_again(event: Event) -> Event:
    """Return the event that the recorded form of one is read as."""
    return read_event(json.loads(json.dumps(build_header(event))), event.hash)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_an_event_without_words_is_an_event_of_its_kind(story: Story) -> None:
    world, _ = await told(story)
    for name in await world.log.sessions():
        bare = TextRemover()
        for event in logged(world.log, name):
            left = bare(event)
            assert (left.kind, left.seq, left.hash) == (event.kind, event.seq, event.hash)
            assert read_again(left) == left


async def test_without_words_a_tool_has_its_name_only_where_the_catalogue_has_it() -> None:
    world, _ = await told(corpus.validity)
    first, *rest = logged(world.log, "s")
    finished = next(event for event in rest if isinstance(event.body, ToolFinished))
    bare, strange = TextRemover(), TextRemover()
    bare(first)
    names = [left.body.tool for left in (bare(finished), strange(finished)) if isinstance(left.body, ToolFinished)]
    assert names == ["read_file", OTHER]


@pytest.mark.parametrize("pattern", [".+", "[a-z_]+", "completed|observation|tool_calls|file_exists|workspace"])
async def test_a_pattern_masks_texts_and_no_word_of_a_closed_list(pattern: str) -> None:
    known: set[str] = set()
    for story in STORIES:
        world, _ = await told(story)
        for event in logged(world.log, "s"):
            # Most sessions begin with the same policy, which is what takes long.
            if (said := repr(event.body)) in known:
                continue
            known.add(said)
            left = mask_event(event, (pattern,))
            assert left.kind == event.kind
            assert read_again(left) == left


async def test_a_task_that_ended_has_ended_where_a_pattern_matches_how() -> None:
    world, _ = await told(child)
    events = [mask_event(event, ("completed|what does",)) for event in logged(world.log, "s")]
    trajectory = fold_trajectory(events)
    assert [task.status for task in trajectory.tasks] == ["completed", "completed"]
    assert next(step.message for step in trajectory.steps if step.source == "user").startswith("[masked ")


async def test_the_patterns_of_a_policy_stay_where_they_match_themselves() -> None:
    world, _ = await told(corpus.validity)
    first = logged(world.log, "s")[0]
    left = mask_event(first, (".+",))
    assert isinstance(first.body, SessionStarted)
    assert isinstance(left.body, SessionStarted)
    assert left.body.system.startswith("[masked ")
    assert left.body.policy != first.body.policy
    assert left.body.policy["sensitive"] == first.body.policy["sensitive"]
