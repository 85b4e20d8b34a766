"""Who stands behind a call: the person's words, nobody yet, or only text from outside."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.mandate import hash_values, is_consequential, wants_plan
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import CallFacts
from foregate.schemas.turn import Said
from foregate.schemas.value import ArgumentValue, Source
from tests.gates.turns import CATALOGUE, call, survey, turn
from tests.policies import policy_with

SEND, EDIT, ODD, FETCH = call("send", "ben"), call("edit_file"), call("odd", "x"), call("fetch", "https://a.example/")
ASKED = "send Ben the minutes"
BAD = ("outside", "unclear")


def value(source: Source, text: str = "ben", left: int = 1, path: str = "path") -> ArgumentValue:
    return ArgumentValue(path, "target", text, f"words:{text}", source, 3, "words", left)


def facts(*values: ArgumentValue, of: Any = SEND, says: str = ASKED, policy: Policy | None = None, **more: Any) -> Any:
    """Return the facts of a call with these values."""
    leaves = "https://a.example/" if of is FETCH else ""
    surveyed = (replace(survey(of), values=values, leaves=leaves),)
    given = turn(of, surveys=surveyed, **more)
    given = replace(given, user_messages=(Said(3, says),))
    return compute_turn_facts(given, policy or default_policy(), CATALOGUE)[of.id]


def authority(*values: ArgumentValue, **more: Any) -> str:
    found: CallFacts = facts(*values, **more)
    return found.authority


def test_the_persons_words_stand_behind_what_they_asked_for_with_values_they_said() -> None:
    assert authority(value("said"), value("found", "x"), value("configured", "y")) == "said"
    assert authority(value("said"), says="what does Ben think") == "open"
    assert authority(value("said"), value("mentioned", "x")) == "open"
    assert authority(value("said"), value("unsaid", "true")) == "open"


def test_without_any_value_nobody_stands_behind_a_call() -> None:
    assert authority() == "open"


@pytest.mark.parametrize("source", BAD)
def test_one_value_that_outside_may_have_chosen_is_enough(source: Source) -> None:
    assert authority(value("said"), value("found", "x"), value(source, "y")) == "outside"


def test_what_nobody_has_to_stand_behind_has_no_authority() -> None:
    assert authority(value("outside"), of=EDIT) == ""
    assert authority(value("outside"), of=FETCH) == "outside"
    assert authority(value("said"), of=FETCH, says="look") == "said"
    assert authority(value("outside"), policy=policy_with({"mandate.mode": "off"})) == ""


def test_a_call_nobody_looked_at_has_no_authority() -> None:
    assert compute_turn_facts(turn(SEND), default_policy(), CATALOGUE)[SEND.id].authority == ""


def test_a_child_task_has_no_mandate_of_its_own() -> None:
    assert authority(value("said"), depth=1) == "open"
    assert authority(value("unsaid"), depth=1) == "outside"
    assert authority(value("unsaid")) == "open"


def test_two_calls_of_one_response_share_no_mention() -> None:
    twice = (call("send", "ben"), call("send", "ben", 2))
    surveys = tuple(replace(survey(one), values=(value("said"),)) for one in twice)
    found = compute_turn_facts(turn(*twice, surveys=surveys, says=ASKED), default_policy(), CATALOGUE)
    assert [found[one.id].authority for one in twice] == ["said", "open"]
    enough = tuple(replace(one, values=(value("said", left=2),)) for one in surveys)
    found = compute_turn_facts(turn(*twice, surveys=enough, says=ASKED), default_policy(), CATALOGUE)
    assert [found[one.id].authority for one in twice] == ["said", "said"]


def test_the_values_of_a_call_have_one_hash_whatever_their_order_and_another_for_each_other_value() -> None:
    one, other = value("said"), value("found", "x", path="y")
    assert hash_values(facts(one, other)) == hash_values(facts(other, one)) != ""
    assert hash_values(facts(one)) != hash_values(facts(value("said", "bob")))
    assert hash_values(facts(one)) != hash_values(facts(replace(one, path="cc")))
    assert hash_values(facts()) == ""


RANK = {"said": 2, "open": 1, "outside": 0}
SOURCES = st.lists(st.sampled_from(get_args(Source)), max_size=5)


@given(SOURCES, st.sampled_from(get_args(Source)), st.sampled_from([ASKED, "hello", "what is that?"]))
def test_one_more_value_never_raises_who_stands_behind_a_call(given: list[Source], more: Source, says: str) -> None:
    values = [value(source, f"v{number}") for number, source in enumerate(given)]
    before, after = authority(*values, says=says), authority(*values, value(more, "new"), says=says)
    assert RANK[after] <= RANK[before] or not values


@given(SOURCES, st.integers(0, 2))
def test_without_the_persons_message_nobody_stands_behind_more(given: list[Source], depth: int) -> None:
    values = [value(source, f"v{number}") for number, source in enumerate(given)]
    said, unsaid = authority(*values, depth=depth), authority(*values, says="", depth=depth)
    assert RANK[unsaid] <= RANK[said]
    assert unsaid != "said"


@pytest.mark.parametrize("flag", ["external", "irreversible", "high_impact"])
def test_somebody_stands_behind_what_leaves_cannot_be_undone_or_has_high_impact(flag: str) -> None:
    tame = facts(of=EDIT)
    assert not is_consequential(tame, turn(EDIT), default_policy())
    assert is_consequential(replace(tame, **{flag: True}), turn(EDIT), default_policy())
    assert not is_consequential(replace(tame, **{flag: True}, contained=True), turn(EDIT), default_policy())


def test_a_plan_may_stand_for_an_unclear_value_but_not_where_the_impact_is_high() -> None:
    for source, high_impact, wanted in (("unclear", False, True), ("unclear", True, False), ("outside", False, False)):
        one = replace(facts(value(source)), high_impact=high_impact)  # type: ignore[arg-type]
        assert wants_plan(one, turn(SEND), default_policy()) is wanted
