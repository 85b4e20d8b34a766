"""Gate `drift`."""

from __future__ import annotations

import pytest

from tests.gates.turns import call, codes, judged, turn
from tests.policies import policy_with

DRIFT = "text_only_turn_side_effecting_tool_drift"
WORDS = "just tell me what a.txt is for"


def test_a_change_where_only_words_were_asked_for_is_held_and_tools_stay_away_once() -> None:
    judgement = judged(turn(call("edit_file"), says=WORDS))
    assert codes(judgement)["drift"] == DRIFT
    assert judgement.consequence is not None
    assert (judgement.consequence.kind, judgement.consequence.lasts) == ("words_only_next", "request")


@pytest.mark.parametrize(
    ("tool", "says", "more"),
    [
        ("read_file", WORDS, {}),
        ("remember", WORDS, {}),
        ("edit_file", "fix a.txt", {}),
        ("edit_file", "wische alles weg", {}),
        ("edit_file", WORDS, {"depth": 1}),
        ("edit_file", WORDS, {"fired": {"drift": 1}}),
    ],
)
def test_observations_memory_unknown_requests_children_and_a_second_time_pass(
    tool: str, says: str, more: dict[str, object]
) -> None:
    assert codes(judged(turn(call(tool), says=says, **more)))["drift"] == "drift_passed"


def test_while_tools_stay_away_for_the_task_a_change_sent_all_the_same_is_held_each_time() -> None:
    again = turn(call("edit_file"), says=WORDS, fired={"drift": 4})
    assert codes(judged(again))["drift"] == "drift_passed"
    assert codes(judged(again, policy_with({"drift.lasts": "task"})))["drift"] == DRIFT


def test_the_other_trigger_fires_whenever_no_phrase_asks_for_more() -> None:
    policy = policy_with({"drift.trigger": "no_mutation_no_observation", "drift.lasts": "task"})
    judgement = judged(turn(call("edit_file"), says="hello there"), policy)
    assert codes(judgement)["drift"] == DRIFT
    assert judgement.consequence is not None
    assert judgement.consequence.lasts == "task"


def test_under_the_other_trigger_a_request_for_a_look_is_no_request_for_words() -> None:
    policy = policy_with({"drift.trigger": "no_mutation_no_observation", "drift.wishes": "contract"})
    for says, expected in (("list the files in src", "drift_passed"), ("hello there", DRIFT)):
        assert codes(judged(turn(call("edit_file"), says=says), policy))["drift"] == expected
