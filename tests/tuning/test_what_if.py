"""Recorded sessions under another policy."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.cli.reports import format_changes
from foregate.evidence.state.recorded_turns import read_judged_turns
from foregate.gates.replay.redecide import PolicyComparison, replace_answers
from foregate.schemas.errors import LogError, PolicyError
from foregate.schemas.event import NeedAnswered
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.turn import Turn
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.what_if import WhatIf
from tests.agent.corpus import (
    ASK_EDITS,
    EDIT,
    PLAN,
    READ,
    REVIEWED,
    SEND,
    STORIES,
    TALK,
    YES,
    Story,
    calls,
    changed_while_waiting,
    critique_rejected,
    evidence,
    narration,
    plan_accepted,
    rules,
    rules_ask,
    says,
    told,
    uncertainty,
    unverified,
    validity,
)
from tests.agent.loop.test_nothing_unjudged import ADVICE, RESPONSES, Anything, Moody
from tests.agent.world import World
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, SHADOWED, policy_with
from tests.processes import wait_until_gone
from tests.tuning.what_if_worlds import judged, layer_of, played

POLICIES = [
    {},
    SHADOWED,
    EVERYTHING_OFF,
    {"holds": "whole_response"},
    {"approval.mode": "each"},
    {"plan.due": "first_side_effect", "critique.level": "call"},
    {"uncertainty.threshold": 200, "narration.scope": "first_response", "safety.model_calls": 1},
    {"limits.needs_per_gate": 1, "plan.on_unavailable.dangerous": "hold", "approval.reads": "ask"},
]
DENY_SEND = {"id": "no-mail", "then": "deny", "tool": "send"}
DENY_EDIT = {"id": "no-edit", "then": "deny", "tool": "edit_file"}
ASK_READ = {"id": "ask-read", "then": "ask", "tool": "read_file"}


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_under_its_own_policy_no_story_differs(story: Story) -> None:
    rows, tally = judged(await played(story))
    assert rows == []
    assert tally.turns > 0
    assert set(tally.changes) == {"unchanged"}
    assert (tally.diverged, +tally.spared) == (0, {})
    assert bool(tally.values) == (story is changed_while_waiting)


@settings(max_examples=40)
@given(
    st.sampled_from(POLICIES),
    st.lists(RESPONSES, max_size=6),
    st.lists(ADVICE, max_size=3),
    st.lists(st.sampled_from(["yes", "grant", "no", "anyway", "stop", "more", "later"]), max_size=3),
    st.booleans(),
)
def test_under_its_own_policy_no_generated_session_differs(
    policy: dict[str, Any], responses: list[ModelResponse], advice: list[str], choices: list[str], attended: bool
) -> None:
    async def play() -> World:
        world = World(policy=policy_with(policy))
        session = await world.open(Anything(responses, advice), Moody(choices) if attended else None)
        await run(session, "fix a.txt and b.txt and send it to bob@example.org")
        return world

    world = asyncio.run(play())
    rows, tally = judged(world)
    assert rows == []
    assert set(tally.changes) <= {"unchanged"}
    assert not +tally.spared


@pytest.mark.parametrize(
    ("story", "changes", "change", "code", "keys"),
    [
        (plan_accepted, [DENY_SEND], "newly_held", "denied_by_rule", ["rules.list.no-mail"]),
        (validity, {"approval.reads": "ask"}, "newly_held", "approval_required", ["approval.reads"]),
        (uncertainty, {"uncertainty.threshold": 1000}, "not_decidable", "", ["uncertainty.threshold"]),
        (evidence, {"evidence.mode": "off"}, "newly_let_go", "validity_passed", ["evidence.mode"]),
        (narration, {"narration.mode": "shadow"}, "not_decidable", "", ["narration.mode"]),
        (rules_ask, [ASK_READ], "newly_asked", "asked_by_rule", ["rules.list.ask-read"]),
        (rules_ask, [DENY_EDIT], "other_reason", "denied_by_rule", ["rules.list.no-edit"]),
        (critique_rejected, {"critique.level": "off"}, "newly_asked", "approval_required", ["critique.level"]),
    ],
)
async def test_each_way_a_call_can_differ_is_named_with_the_key_that_decides_it(
    story: Story, changes: dict[str, Any] | list[dict[str, Any]], change: str, code: str, keys: list[str]
) -> None:
    world = await played(story)
    rows, tally = judged(world, changes) if isinstance(changes, dict) else judged(world, {}, *changes)
    first = rows[0]
    assert first.call.change == change
    assert (first.call.after.code if first.call.after else "") == code
    assert first.diverges
    assert list(first.keys) == keys
    assert tally.changes[change] > 0


async def test_keys_are_worked_out_for_the_rows_that_are_shown_alone_and_are_those_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = await played(evidence)
    layer = layer_of(policy_with({"evidence.mode": "off", "narration.mode": "off", "approval.reads": "ask"}))
    every = list(WhatIf(world.log, layer).find_changes(["s"]))
    assert len(every) > 1
    found, find_deciding_keys = [], PolicyComparison.find_deciding_keys

    def note(self: PolicyComparison, turn: Turn, *rest: Any) -> Any:
        found.append(turn.turn)
        return find_deciding_keys(self, turn, *rest)

    monkeypatch.setattr(PolicyComparison, "find_deciding_keys", note)
    judged_again = WhatIf(world.log, layer, names_keys=False)
    rows = list(judged_again.find_changes(["s"]))
    assert (rows, found) == ([replace(row, keys=()) for row in every], [])
    shown = [row for row in rows if not row.apart][:1]
    told = list(format_changes(rows[:1], judged_again.tally, "x", judged_again.name_keys))
    assert len(found) == len(shown) == 1
    assert told == list(format_changes(every[:1], judged_again.tally, "x", lambda row: row))
    assert [judged_again.name_keys(row) for row in rows] == every
    for seq in (1, 10_000):
        with pytest.raises(LogError, match=f"turn {seq} is not where its number says; an event before it is gone"):
            judged_again.name_keys(replace(rows[0], seq=seq))


async def test_a_yes_that_is_not_needed_any_more_is_no_divergence() -> None:
    world = await played(allowed_edit)
    rows, tally = judged(world, {"rules.mode": "shadow"})
    assert [row.call.change for row in rows] == ["no_longer_asked"]
    assert (tally.diverged, tally.spared["person"]) == (0, 1)


async def allowed_edit(world: World) -> Any:
    """A rule asks for an edit and the person says yes."""
    world.policy = rules(ASK_EDITS)
    return await told(world, [calls(READ, text=TALK), calls(EDIT), says("ok")], ["yes"])


async def test_the_number_its_bounds_and_their_key_are_told() -> None:
    world = await played(plan_accepted)
    rows, _ = judged(world, {"uncertainty.threshold": 0, "narration.min_chars": 500})
    (bound,) = rows[0].bounds
    assert (bound.name, bound.key, bound.before, bound.after) == ("narrated", "narration.min_chars", 20, 500)
    assert rows[0].keys == ("narration.min_chars",)


async def test_what_follows_the_first_divergence_is_counted_apart() -> None:
    rows, tally = judged(await played(evidence), {"evidence.mode": "off"})
    assert [(row.diverges, row.apart) for row in rows] == [(True, False), *[(False, True)] * (len(rows) - 1)]
    assert len(rows) > 1
    assert sum(tally.apart.values()) > 0
    assert tally.diverged == 1


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"narration.mode": "off"}, "planner"),
        ({"narration.mode": "off", "plan.mode": "off", "critique.level": "call"}, "critic"),
        ({"tools.send": {"targets": {}}}, "tools.send.targets"),
    ],
)
async def test_what_is_not_decidable_says_what_the_log_does_not_hold(changes: dict[str, Any], needs: str) -> None:
    rows, _ = judged(await played(narration), changes)
    assert (rows[0].call.change, rows[0].call.needs) == ("not_decidable", needs)


async def test_a_call_that_was_judged_early_too_differs_once_and_as_its_response_was_judged() -> None:
    async def differs(early: bool) -> list[tuple[str, str, bool]]:
        world = World()
        session = await world.open([calls(READ, text=TALK), says("ok")], [], prefetch=early)
        await run(session, "read a.txt")
        return [(row.call.tool, row.call.change, row.diverges) for row in judged(world, {"approval.reads": "ask"})[0]]

    assert await differs(True) == await differs(False) == [("read_file", "newly_asked", True)]


async def test_an_answer_about_fewer_calls_is_no_answer_about_more() -> None:
    world = World()
    world.policy = rules(ASK_EDITS)
    await told(world, [calls(READ, text=TALK), calls(READ, EDIT), says("ok")], ["yes"])
    rows, _ = judged(world, {"approval.reads": "ask"})
    asked = [(row.call.tool, row.call.change) for row in rows if row.turn == 2]
    assert asked == [("read_file", "newly_asked"), ("edit_file", "newly_asked")]


async def test_a_path_that_becomes_protected_is_decided_by_its_name() -> None:
    rows, _ = judged(await played(rules_ask), {"files.protected": [".git", "a.txt"]})
    edits = [(row.call.change, row.call.after and row.call.after.code) for row in rows if row.call.tool == "edit_file"]
    assert edits[0] == ("other_reason", "denied_by_rule")
    reads = [row for row in rows if row.call.tool == "read_file"]
    assert reads == []


async def test_a_session_in_pieces_gives_the_rows_and_counts_of_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    for story in (evidence, rules_ask, plan_accepted, unverified):
        world, changes = await played(story), {"evidence.mode": "off", "approval.mode": "never"}
        whole = judged(world, changes)
        monkeypatch.setattr("foregate.tuning.pieces.EVENTS_PER_PIECE", 3)
        assert judged(world, changes) == whole
        monkeypatch.undo()


async def test_what_the_workspaces_own_file_tightened_stays_tight_under_another_file() -> None:
    world = World(policy=rules(DENY_EDIT))
    layers = {
        "from": {"rules.list.no-edit": "workspace .foregate.yaml:1"},
        "workspace": {"rules": {"list": [DENY_EDIT]}},
    }
    await run(await world.open([calls(READ, text=TALK), calls(EDIT), says("ok")], layers=layers), "fix a.txt")
    assert list(WhatIf(world.log, None).find_changes(["s"])) == []


async def test_a_child_task_is_judged_under_what_its_parent_had_left() -> None:
    world = World(policy=policy_with({**REVIEWED, "safety.model_calls": 3}))
    hand = calls(("delegate", {"task": "read b.txt"}))
    await told(world, [calls(SEND, text=TALK), PLAN, YES, hand, calls(READ), says("read"), says("ok")], ["yes"])
    (child,) = [name for name in await world.log.sessions() if "." in name]
    judge = WhatIf(world.log, layer_of(world.policy))
    assert list(judge.find_changes(["s", child])) == []
    assert (judge.tally.sessions, judge.tally.values) == (2, {})


async def test_an_answer_that_took_two_requests_counts_as_two_of_the_budget() -> None:
    world = World(policy=policy_with({**REVIEWED, "safety.model_calls": 1}))
    await told(world, [calls(SEND, text=TALK), says("no plan"), PLAN, says("ok"), says("ok")], ["yes"])
    events = await world.log.read("s")
    assert [answered.answer.requests for answered in bodies(events, NeedAnswered)] == [2, 1]
    turn = next(recorded.turn for recorded in read_judged_turns(events))
    assert turn.counters.safety_calls == 2
    assert replace_answers(turn, (), ()).counters.safety_calls == 0


async def test_leave_given_after_an_answer_is_not_there_before_it() -> None:
    world = World(policy=policy_with({"approval.mode": "each"}))
    note = ("note", {"key": "k"})
    model = [calls(READ, note, text=TALK), calls(note), calls(EDIT, note), says("ok")]
    await told(world, model, ["no", "yes", "anyway", "no"], says="fix a.txt and note k")
    rows, tally = judged(world)
    assert (rows, set(tally.changes)) == ([], {"unchanged"})


async def test_an_unknown_session_is_one_sentence() -> None:
    with pytest.raises(LogError, match="there is no session `nope`"):
        list(WhatIf(World().log, None).find_changes(["nope"]))


async def test_a_workspace_file_that_would_be_refused_beneath_the_file_is_a_policy_error() -> None:
    world = World()
    deny = {"id": "theirs", "then": "deny", "tool": "send"}
    layers = {"workspace": {"rules": {"list": [deny]}}}
    await run(await world.open([calls(READ), says("ok")], layers=layers), "read a.txt")
    with pytest.raises(PolicyError, match="the rule `theirs` exists already"):
        judged(world, {}, deny)


def test_a_process_that_judges_ends_with_the_one_that_asked_it(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from foregate.tuning.pieces import start_worker\n"
        "log = pathlib.Path(sys.argv[1])\n"
        "pool = ProcessPoolExecutor(1, get_context('spawn'), start_worker, (log, id))\n"
        "print(pool.submit(os.getpid).result(), flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    path = tmp_path / "events.db"
    SqliteLog(path).close()
    run = subprocess.run([sys.executable, "-Ic", script, str(path)], stdout=subprocess.PIPE, text=True)
    wait_until_gone(int(run.stdout))
