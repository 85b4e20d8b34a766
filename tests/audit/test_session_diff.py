"""Two sessions side by side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from foregate.agent.models.scripted import calls, says
from foregate.agent.session.session import Session
from foregate.schemas.errors import LogError
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.session_diff import SessionDiff, compare_sessions
from tests.agent.corpus import EDIT, READ, TALK, Story, rules_ask, told
from tests.agent.world import World
from tests.policies import policy_with
from tests.telemetry.queries.made_index import play, put_session

Compare = Callable[[Story, Story], SessionDiff]


@pytest.fixture
def compare(tmp_path: Path) -> Compare:
    """Plays two stories and compares their sessions."""

    def play_both(one: Story, other: Story) -> SessionDiff:
        for name, story in (("a", one), ("b", other)):
            put_session(tmp_path / "events.db", name, asyncio.run(play(story)))
        with closing(SqliteLog(tmp_path / "events.db")) as log:
            return compare_sessions(log, "a", "b")

    return play_both


async def _edit(world: World) -> Session:
    return await told(world, [calls(READ, text=TALK), calls(EDIT), says("ok")], says="fix a.txt")


async def _edit_strictly(world: World) -> Session:
    world.policy = policy_with({"narration.scope": "first_response"})
    return await told(world, [calls(READ), calls(EDIT), says("ok")], says="fix a.txt")


async def _edit_other(world: World) -> Session:
    world.workspace.files["a.txt"] = b"teh cow"
    return await told(world, [calls(READ, text=TALK), calls(("read_file", {"path": "b.txt"})), calls(EDIT), says("ok")])


def test_a_session_does_not_differ_from_itself(compare: Compare) -> None:
    found = compare(rules_ask, rules_ask)
    assert (found.first, found.policy) == (None, {})
    assert all(pair.is_judged_alike and not pair.has_other_result for pair in found.calls)


def test_the_first_call_that_a_gate_judged_differently_is_named_with_the_key(compare: Compare) -> None:
    found = compare(_edit, _edit_strictly)
    assert found.first is not None
    pair = found.calls[found.first]
    one, other = pair.find_gates()
    assert one is None
    assert other is not None
    assert (other.gate, other.standing, other.code) == ("narration", "hold", "narration_required")
    assert "narration.scope" in found.policy
    assert found.policy["narration.scope"][1] == "first_response"


def test_calls_are_matched_by_what_they_are_and_results_that_differ_are_found(compare: Compare) -> None:
    found = compare(_edit, _edit_other)
    shape = [(pair.a is not None, pair.b is not None) for pair in found.calls]
    assert shape == [(True, True), (False, True), (True, True)]
    read = found.calls[0]
    assert read.has_other_result
    assert read.has_same_verdict
    ((one, other),) = found.tasks
    assert one is not None
    assert other is not None
    assert one.asked != other.asked


def test_the_json_form_holds_no_contents_but_their_hashes(compare: Compare) -> None:
    found = compare(_edit, _edit_other).to_json()
    assert "teh cow" not in str(found)
    assert found["first_difference"] is None  # type: ignore[index,call-overload]


def test_a_session_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    put_session(tmp_path / "events.db", "a", asyncio.run(play(_edit)))
    with closing(SqliteLog(tmp_path / "events.db")) as log, pytest.raises(LogError, match="no session `b`"):
        compare_sessions(log, "a", "b")
