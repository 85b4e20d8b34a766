"""One decision explained: every code reads well, and what would have changed a ruling really does."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.dialects.dialect_model import build_dialect_model
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel
from foregate.assembly.home import find_address
from foregate.cli.reports import format_explanation
from foregate.gates.replay.counterfactuals import find_nearest
from foregate.schemas.codes import CODES
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged
from foregate.telemetry.queries.decisions import DecisionPoint, read_decisions
from foregate.tuning.explanation import Explanation, explain
from tests.agent.corpus import (
    STORIES,
    TALK,
    Story,
    approval_expired,
    approval_required,
    calls,
    critique_rejected,
    critique_skipped,
    drift,
    evidence,
    narration,
    plan_accepted,
    plan_drift,
    plan_rejected,
    plan_unavailable,
    rules_ask,
    rules_deny,
    says,
    stages,
    told,
    uncertainty,
    unverified,
    validity,
)
from tests.agent.world import World
from tests.policies import policy_with
from tests.tuning.what_if_worlds import judged, played

NEVER_ROWS = {"changed_while_waiting"}
"""Codes that stand in a need, and never in a row."""
BESIDE = "the calls beside it"
"""What is not known of a call that is held with others, one of which nobody can decide."""


def points_of(world: World) -> list[DecisionPoint]:
    """Return the decision points of a world's session."""
    return list(read_decisions(world.log.events("s")))


async def of_code(story: Story, code: str) -> Explanation:
    """Return the explanation of a story's first decision with this code."""
    world = await played(story)
    point = next(point for point in points_of(world) if point.code == code)
    return explain(world.log, "s", point.seq, point.gate)


def text_of(explained: Explanation, label: str) -> str:
    """Return what stands behind a label, as one line."""
    found, on = [], False
    for line in list(format_explanation(explained, 80))[1:]:
        name = line[2:11].strip()
        on = name == label if name else on
        if on:
            found.append(line[12:])
    return " ".join(found)


async def test_decisions_of_every_code_read_in_plain_sentences_of_eighty_columns() -> None:
    codes, tried = set(), Counter[str]()
    for story in STORIES:
        world = await played(story)
        for point in points_of(world):
            tried[point.code] += 1
            if tried[point.code] > 3:  # most points only passed, and read alike
                continue
            explained = explain(world.log, "s", point.seq, point.gate)
            head, *lines = format_explanation(explained, 80)
            assert head == f"s/{point.seq}.{point.gate}"
            assert all(len(line) <= 80 for line in lines)
            labels = [line[2:11].strip() for line in lines]
            assert [label for label in labels if label in ("asked", "ruling", "next")] == ["asked", "ruling", "next"]
            assert ".." not in "".join(lines).replace("../x", "")
            if explained.standing not in ("", "allow"):
                assert text_of(explained, "instead")
            assert explained.to_json()["point"]["code"] == point.code
            codes |= {point.code, *(other.code for other in explained.beside)}
    wanted = {code for names in CODES.values() for code in names} | {"gate_error", "not_asked_now"}
    assert wanted - codes <= NEVER_ROWS


@pytest.mark.parametrize(
    ("story", "code", "key", "relation", "value"),
    [
        (rules_deny, "denied_by_rule", "rules.list.outside-workspace", "without", None),
        (rules_ask, "asked_by_rule", "rules.list.ask-edits", "without", None),
        (narration, "narration_required", "narration.min_chars", "=", 0),
        (uncertainty, "uncertainty_clarification", "uncertainty.threshold", ">=", 301),
        (evidence, "stale_evidence", "evidence.mode", "=", "off"),
        (plan_drift, "plan_drift", "plan.max_amendments", ">=", 1),
        (plan_unavailable, "plan_unavailable", "plan.on_unavailable.dangerous", "=", "proceed"),
        (critique_skipped, "critique_skipped_budget", "safety.model_calls", ">=", 2),
    ],
)
async def test_a_value_of_the_policy_is_named_where_moving_it_alone_changes_the_ruling(
    story: Story, code: str, key: str, relation: str, value: Any
) -> None:
    explained = await of_code(story, code)
    (lever,) = [lever for lever in explained.levers if lever.key == key and lever.value == value]
    assert lever.relation == relation


async def test_of_a_call_with_a_result_in_it_both_is_told_what_was_judged_and_what_was_sent() -> None:
    world = await played(stages)
    found = [explain(world.log, "s", point.seq, "rules") for point in points_of(world) if point.gate == "rules"]
    judged = {(explained.asked.arguments, explained.asked.sent) for explained in found}
    assert ('{"path":"a.txt"}', '{"path":"$result_of_step_1"}') in judged
    assert ('{"path":"which.txt"}', "") in judged
    told = [text_of(explained, "asked") for explained in found if explained.asked.sent]
    assert all("before results of earlier steps were put in: {" in text for text in told)


async def test_of_a_call_under_another_agents_name_both_names_are_told() -> None:
    world = World()
    model = ScriptedModel([calls(("Read", {"file_path": "a.txt"})), says("It says teh.")])
    await run(await world.open(build_dialect_model(model, "native")), "what does a.txt say?")
    found = next(explain(world.log, "s", point.seq, "rules") for point in points_of(world) if point.gate == "rules")
    assert (found.asked.tool, found.asked.sent) == ("read_file", 'Read {"file_path":"a.txt"}')
    assert 'The model sent: Read {"file_path":"a.txt"}' in text_of(found, "asked")


async def test_a_budget_that_is_used_up_is_told_by_its_own_number() -> None:
    (number,) = (await of_code(critique_skipped, "critique_skipped_budget")).numbers
    assert (number.name, number.value, number.bound, number.key) == ("safety_calls", 1, 1, "safety.model_calls")


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
async def test_what_is_said_of_a_value_is_what_judging_the_session_again_finds(story: Story) -> None:
    world = await played(story)
    again: dict[str, Any] = {}
    for point in points_of(world):
        explained = explain(world.log, "s", point.seq, point.gate)
        for lever in explained.levers:
            if not lever.key or lever.relation == "without" or explained.standing in ("", "allow"):
                continue
            change = {lever.key: lever.value}
            if repr(change) not in again:
                again[repr(change)], _ = judged(world, change)
            rows = again[repr(change)]
            mine = [row.call for row in rows if row.seq == point.seq and row.call.target == explained.asked.target]
            if lever.then == "runs":
                assert all(call.after is None or call.after.standing == "allow" for call in mine), lever
            if lever.then == "asks":
                assert {call.needs or call.change for call in mine} <= {lever.by, "newly_asked", BESIDE}, lever


@pytest.mark.parametrize(
    ("story", "code", "says", "then"),
    [
        (narration, "narration_required", "had the task first said at least 20 characters", "asks"),
        (uncertainty, "uncertainty_clarification", "had the person said target before", "asks"),
        (evidence, "missing_pre_execution_evidence", "had `a.txt` been looked at first, as it stood", "runs"),
        (plan_rejected, "plan_rejected", "with a plan that fits this call", "runs"),
        (plan_rejected, "plan_rejected", "with a person's `anyway`", "asks"),
        (critique_rejected, "critique_rejected", "with a critique that accepts it", "runs"),
        (rules_ask, "approval_denied", "with a person's yes in time", "runs"),
        (rules_ask, "approval_denied", "with leave given before for exactly this call", "runs"),
        (rules_ask, "refused_before", "with a person's `anyway`", "runs"),
        (approval_required, "approval_required", "had there been a person to ask", "asks"),
        (approval_expired, "approval_expired", "with a person's yes in time", "runs"),
        (unverified, "verification_pending", "had everything promised been seen after the last change", "answered"),
    ],
)
async def test_what_was_not_said_seen_granted_or_answered_is_named_where_it_changes_the_ruling(
    story: Story, code: str, says: str, then: str
) -> None:
    explained = await of_code(story, code)
    assert (says, then) in {(lever.says, lever.then) for lever in explained.levers}


@pytest.mark.parametrize(("story", "code"), [(validity, "unknown_tool"), (validity, "invalid_arguments")])
async def test_a_call_nothing_lets_through_is_said_to_need_changing_itself(story: Story, code: str) -> None:
    world = await played(story)
    for point in points_of(world):
        for number, ruling in enumerate(point.rulings):
            if ruling.code == code and number == 0 and point.code == code:
                explained = explain(world.log, "s", point.seq, point.gate)
                assert explained.levers == ()
                assert "the call itself would have to be another" in text_of(explained, "instead")


async def test_anyway_is_no_way_past_what_it_cannot_override() -> None:
    for story, code in ((evidence, "stale_evidence"), (rules_deny, "denied_by_rule"), (drift, "drift_passed")):
        explained = await of_code(story, code)
        assert not [lever for lever in explained.levers if "anyway" in lever.says]


async def test_a_number_that_let_a_call_pass_tells_where_it_would_not_have() -> None:
    low = await played(uncertain_but_below)
    point = next(p for p in points_of(low) if p.gate == "uncertainty")
    explained = explain(low.log, "s", point.seq, "uncertainty")
    assert explained.numbers[0].value == 300
    (lever,) = explained.levers
    assert (lever.key, lever.relation, lever.value) == ("uncertainty.threshold", "<=", 300)


async def uncertain_but_below(world: World) -> Any:
    """A message to somebody nobody named, which the default lets pass this gate."""
    model = [calls(("send", {"to": "eve@example.org"}), text=TALK), says("no plan"), says("ok")]
    return await told(world, model, says="go on with k")


async def test_who_named_the_target_first_and_what_came_of_the_call_are_told() -> None:
    explained = await of_code(evidence, "missing_pre_execution_evidence")
    assert "Its target was named by the user first (event 3)." in text_of(explained, "asked")
    told = text_of(explained, "next")
    assert "Event 10: the same call was sent again." in told
    assert "Foregate took the look itself" in told
    assert told.endswith("the task ended as completed.")
    explained = await of_code(plan_accepted, "approval_granted")
    assert [happened.what for happened in explained.next] == ["asked", "answered", "ran", "ended"]


async def test_a_log_without_layers_says_that_it_does_not_tell_where_a_value_comes_from() -> None:
    world = World(policy=policy_with({"uncertainty.threshold": 300}))
    session = await world.open([calls(("send", {"to": "eve@example.org"}), ("note", {"key": "k"}), text=TALK)])
    await session.record(Draft(PolicyChanged(policy=session.policy.model_dump(mode="json")), "foregate"))
    await run(session, "do it for k")
    point = next(p for p in points_of(world) if p.code == "uncertainty_clarification")
    explained = explain(world.log, "s", point.seq, point.gate)
    assert explained.numbers[0].origin == "the log does not say where it comes from"
    assert explained.mode_from == "the default policy"


async def test_what_is_no_decision_is_refused_with_what_to_do() -> None:
    world = await played(validity)
    for wanted in ("", "s/", "5", "5.", "s/x.rules", "s/5.rules.x", "s/5.RULES", "s/" + "9" * 40 + ".rules"):
        with pytest.raises(UsageError, match="is no decision"):
            await find_address(world.log, wanted)
    assert await find_address(world.log, "5.rules") == ("s", 5, "rules", "")
    with pytest.raises(UsageError, match="there is no session"):
        await find_address(world.log, "t/5.rules")
    with pytest.raises(UsageError, match="no judged turn"):
        explain(world.log, "s", 4, "rules")
    with pytest.raises(UsageError, match="no judged turn"):
        explain(world.log, "s", 400, "rules")
    with pytest.raises(UsageError, match="`postlude` was not asked about event 5; asked were validity, "):
        explain(world.log, "s", 5, "postlude")


async def test_a_turn_that_cannot_be_put_together_is_one_clear_error() -> None:
    world = await played(validity)
    lines = world.log._lines["s"]
    lines[3] = (replace(lines[3][0], body={}), lines[3][1])
    with pytest.raises(LogError, match="audit verify"):
        explain(world.log, "s", 5, "rules")


def test_the_nearest_number_is_the_first_that_turns_something() -> None:
    assert find_nearest(lambda value: value >= 301, 300, 1000) == 301
    assert find_nearest(lambda value: value <= 7, 300, 0) == 7
    assert find_nearest(lambda value: value > 1000, 300, 1000) is None
    assert find_nearest(lambda value: True, 5, 5) is None
