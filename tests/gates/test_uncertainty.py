"""Gate `uncertainty`."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.uncertainty import UncertaintyGate, build_question
from foregate.schemas.judgement import Grant, Standing
from foregate.schemas.strict_json import as_texts, get_list
from foregate.schemas.tool_call import Atom, Origin, Score
from foregate.schemas.turn import Turn
from tests.gates.turns import call, codes, facts_of, judged, need_of, row, survey, turn
from tests.policies import policy_with

POLICY = policy_with({"plan.mode": "off", "critique.mode": "off", "evidence.mode": "off"})
VAGUE = "clean it up"
DELETE = call("delete_path", "zebra.txt")


def vague(*calls: Any, **more: Any) -> Turn:
    """Return a turn over calls whose targets nobody named or looked at."""
    wanted = calls or (DELETE,)
    return turn(*wanted, surveys=tuple(survey(one) for one in wanted), **{"says": VAGUE} | more)


def test_a_destructive_call_on_what_nobody_named_is_held_and_one_question_is_asked() -> None:
    judgement = judged(vague(), POLICY)
    assert codes(judgement)["uncertainty"] == "uncertainty_clarification"
    assert judgement.verdicts[0].standing is Standing.HOLD
    assert judgement.consequence is not None
    assert judgement.consequence.kind == "ask_user"
    assert judgement.consequence.slots == ("target", "scope")
    assert "`delete_path` on `zebra.txt`" in judgement.consequence.question


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (call("read_file", "zebra.txt"), VAGUE),
        (DELETE, "delete zebra.txt"),
        (call("edit_file"), "fix a.txt"),
    ],
)
def test_observations_and_what_the_person_named_pass(of: Any, says: str) -> None:
    assert codes(judged(vague(of, says=says), POLICY))["uncertainty"] == "uncertainty_passed"


def test_observations_of_the_response_run_and_its_other_changes_wait_with_the_unsure_one() -> None:
    read, edit = call("read_file", "zebra.txt", 2), call("edit_file", "a.txt", 3)
    known = replace(survey(edit), atoms=(Atom("a.txt", Origin.USER, 3),))
    of = turn(DELETE, read, edit, surveys=(survey(DELETE), survey(read), known), says=VAGUE)
    policy = policy_with({"scores.uncertainty.vague_request": 0, "uncertainty.threshold": 400}, POLICY)
    judgement = judged(of, policy)
    assert {v.call: (v.standing, v.ruling.code) for v in judgement.verdicts} == {
        "c1": (Standing.HOLD, "uncertainty_clarification"),
        "c2": (Standing.ALLOW, "validity_passed"),
        "c3": (Standing.HOLD, "not_asked_now"),
    }


def test_an_answered_slot_is_not_asked_again() -> None:
    answered = vague(slots_asked=("target", "scope"), slots_answered=("target", "scope"))
    assert codes(judged(answered, POLICY))["uncertainty"] == "uncertainty_passed"


def test_a_slot_still_open_after_an_answer_is_asked_alone() -> None:
    policy = policy_with({"uncertainty.threshold": 200}, POLICY)
    judgement = judged(vague(slots_asked=("target",), slots_answered=("target",)), policy)
    assert judgement.consequence is not None
    assert judgement.consequence.slots == ("scope",)


def test_just_below_the_threshold_it_passes_and_the_number_stands_in_the_row() -> None:
    number = row(judged(vague(), POLICY), "uncertainty").numbers[0]
    assert (number.path, number.bound) == ("uncertainty.threshold", 550)
    at = policy_with({"uncertainty.threshold": number.value}, POLICY)
    above = policy_with({"uncertainty.threshold": number.value + 1}, POLICY)
    assert codes(judged(vague(), at))["uncertainty"] == "uncertainty_clarification"
    assert codes(judged(vague(), above))["uncertainty"] == "uncertainty_passed"


def test_a_mere_repeat_after_a_failure_leaves_nothing_to_ask_and_passes() -> None:
    policy = policy_with({"uncertainty.threshold": 100}, POLICY)
    of = turn(call("edit_file"), says="fix a.txt", just_failed=("edit_file",))
    decision = row(judged(of, policy), "uncertainty")
    assert (decision.code, decision.numbers[0].value) == ("uncertainty_passed", 150)


def test_a_value_that_the_person_has_to_name_brings_one_question_not_two() -> None:
    unsure = facts_of(DELETE, uncertainty=Score(1000, (), ("target",)))
    gate = UncertaintyGate(POLICY)
    assert gate.rule_on_call(unsure).standing is Standing.HOLD
    assert gate.rule_on_call(replace(unsure, authority="outside")).standing is Standing.ALLOW


def test_a_person_whose_answer_left_one_of_two_things_open_is_told_so() -> None:
    asked = [facts_of(DELETE)]
    assert build_question(asked, ("target", "scope"), ("target",)).startswith("Your answer does not say it. ")
    assert build_question(asked, ("target", "scope"), ("constraint",)).startswith("Before ")


def test_who_wants_an_unsure_deletion_anyway_is_asked_for_the_name_of_what_goes() -> None:
    wanted = Grant("uncertainty", "uncertainty_clarification", "delete", digest=DELETE.digest)
    asked = need_of(vague(grants=(wanted,), attended=True), POLICY)
    assert (asked.gate, asked.code) == ("approval", "outside_mandate")
    (shown,) = get_list(asked.request, "calls")
    assert as_texts(get_list(shown, "to_name")) == ("zebra.txt",)
    other = call("delete_path", "a.txt", 2)
    both = vague(DELETE, other, says="delete a.txt", grants=(wanted,), attended=True)
    assert need_of(both, POLICY).calls == ("c1",)
    recorded_before = judged(vague(grants=(wanted,), edition=1, attended=True), POLICY)
    assert recorded_before.verdicts[0].standing is Standing.ALLOW
