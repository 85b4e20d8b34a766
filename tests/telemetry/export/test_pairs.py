"""Preference pairs: the call that was held, and the one that would have been better."""

from __future__ import annotations

from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.schemas.protocols import Reply
from foregate.telemetry.export.fold import fold_trajectory
from foregate.telemetry.export.trajectory import find_pairs
from tests.agent import corpus
from tests.agent.corpus import ASK_EDITS, EDIT, READ, TALK, rules
from tests.agent.world import World
from tests.telemetry.export.stories import Story, approved, asked_back, cancelled, dry, logged, told

Found = list[tuple[str, str, str, str]]


def found(world: World, name: str = "s") -> Found:
    """Return kind, code and both calls of the pairs of a session."""
    pairs = find_pairs(fold_trajectory(logged(world.log, name)))
    return [(pair.kind, pair.held.code, pair.held.name, pair.better.name) for pair in pairs]


@pytest.mark.parametrize(
    ("story", "expected"),
    [
        (corpus.narration, [("replacement", "narration_required", "send", "send")]),
        (
            corpus.evidence,
            [
                ("remedy", "missing_pre_execution_evidence", "edit_file", "read_file"),
                ("remedy", "stale_evidence", "edit_file", "read_file"),
            ],
        ),
        (approved, [("replacement", "approval_denied", "edit_file", "edit_file")]),
        (corpus.rules_ask, []),
        (corpus.drift, []),
        (asked_back, []),
        (cancelled, []),
        (dry, []),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_held_call_is_paired_with_its_cure_or_with_what_replaced_it(story: Story, expected: Found) -> None:
    world, _ = await told(story)
    assert found(world) == expected


async def test_a_look_of_the_same_response_is_the_cure_too_and_the_same_edit_after_it_is_no_better_one() -> None:
    world = World()
    session = await world.open([calls(EDIT, READ, text=TALK), calls(EDIT, text="Now."), says("ok")])
    await run(session, "fix the typo in a.txt")
    assert found(world) == [("remedy", "missing_pre_execution_evidence", "edit_file", "read_file")]


async def test_a_call_of_another_tool_on_another_target_replaces_nothing() -> None:
    world = World(policy=rules(ASK_EDITS))
    session = await world.open(
        [calls(READ, text=TALK), calls(EDIT), calls(("read_file", {"path": "b.txt"})), says("ok")], [Reply("no")]
    )
    await run(session, "fix the typo in a.txt")
    assert found(world) == []


async def test_what_a_person_said_in_between_could_not_be_known_so_nothing_is_preferred() -> None:
    world = World()
    vague = ("note", {"key": "a"})
    session = await world.open([calls(vague), calls(("note", {"key": "b"}), text=TALK), says("noted")])
    assert (await run(session, "clean this up")).status == "needs_input"
    await run(session, "note b")
    rulings = [action.standing for step in fold_trajectory(logged(world.log, "s")).steps for action in step.actions]
    assert rulings == ["hold", "allow"]
    assert found(world) == []


async def test_a_call_that_was_held_again_replaces_nothing() -> None:
    world = World(policy=rules(ASK_EDITS))
    other: Any = ("edit_file", {"path": "a.txt", "old": "cat", "new": "Cat"})
    session = await world.open(
        [calls(READ, text=TALK), calls(EDIT), calls(other), says("ok")], [Reply("no"), Reply("no")]
    )
    await run(session, "fix the typo in a.txt")
    assert found(world) == []


async def test_the_pairs_of_a_document_name_both_calls_where_they_stand() -> None:
    world, _ = await told(approved)
    trajectory = fold_trajectory(logged(world.log, "s"))
    (pair,) = [pair.to_json() for pair in find_pairs(trajectory)]
    for side in ("preferred", "non_preferred"):
        step = trajectory.steps[pair[side]["step_id"] - 1]
        assert [action.id for action in step.actions] == [pair[side]["tool_call_id"]]
    assert (pair["gate"], pair["code"], pair["standing"]) == ("approval", "approval_denied", "deny")
