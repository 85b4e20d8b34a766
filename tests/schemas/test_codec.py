"""Nouns and their recorded form: equal nouns give equal bytes, and reading gives the noun back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.judgement import CallRuling, Decision, Number, Standing
from foregate.schemas.plan import Criterion, PlanInForce, ScopeItem
from foregate.schemas.tool_spec import Effect, ResourceKind

TEXTS = st.text(max_size=8)
DECISIONS = st.builds(
    Decision,
    gate=TEXTS,
    code=TEXTS,
    mode=st.sampled_from(["enforce", "shadow", "off"]),
    summary=TEXTS,
    rulings=st.lists(st.builds(CallRuling, TEXTS, st.sampled_from(Standing), TEXTS, TEXTS), max_size=3).map(tuple),
    numbers=st.lists(st.builds(Number, TEXTS, st.integers(), st.integers(), TEXTS), max_size=2).map(tuple),
    detail=st.dictionaries(TEXTS, st.lists(st.integers()), max_size=2),
)


@given(DECISIONS)
def test_reading_what_was_written_gives_the_noun_back(decision: Decision) -> None:
    assert strict_json.load(Decision, strict_json.dump(decision)) == decision


def test_a_default_is_left_out_whoever_made_the_equal_value() -> None:
    built = "".join(["en", "force"])
    assert strict_json.dump(Decision("plan", "plan_passed", mode=built)) == {"gate": "plan", "code": "plan_passed"}  # type: ignore[arg-type]


def test_what_a_planner_wrote_is_read_back_with_the_plan_it_belongs_to() -> None:
    criterion = Criterion(text="it is there", check="file_exists", target="a.txt", expected=None)
    item = ScopeItem(Effect.EDIT, ResourceKind.FILE, "a.txt")
    plan = PlanInForce(1, "the goal", (item,), criteria=(criterion,))
    assert strict_json.load(PlanInForce, strict_json.dump(plan)) == plan


def test_a_field_of_a_wrong_type_is_one_sentence_with_its_place() -> None:
    with pytest.raises(InvalidJson, match=r"not a Decision: .*rulings\[0\]\.call") as caught:
        strict_json.load(
            Decision, {"gate": "g", "code": "c", "rulings": [{"call": 3, "standing": "hold", "code": "x"}]}
        )
    assert "\n" not in str(caught.value)
