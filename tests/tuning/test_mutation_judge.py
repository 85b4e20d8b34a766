"""Only mutations that can reach a turn are judged, and none is noticed that is not among them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.policy.source.load import default_policy
from foregate.schemas.turn import Turn
from foregate.tuning.case import Case, Fate, judge_case
from foregate.tuning.case_cutting import find_noticed, is_noticed
from foregate.tuning.mutations import STEERING, MutationJudge, list_mutations
from tests.gates.turns import CATALOGUE, survey, turn
from tests.tuning.test_cutting import ASKING, EDIT, PLANNED, READ, UNREAD

POLICY = default_policy()
BENCHES = MutationJudge(
    POLICY, [one for place, one in enumerate(list_mutations(POLICY)) if place % 3 == 0 or one.path[0] == "rules"]
)
OUTSIDE = replace(survey(EDIT).resources[0], protected="outside_workspace")
DENIED = turn(EDIT, surveys=(replace(survey(EDIT), resources=(OUTSIDE,)),))


@pytest.mark.parametrize(
    ("of", "about"), [(UNREAD, "c1"), (READ, "c1"), (ASKING, "c2"), (PLANNED, "c3"), (DENIED, "c1")]
)
def test_what_is_noticed_is_what_judging_under_every_mutation_notices(of: Turn, about: str) -> None:
    case = Case("x", of, CATALOGUE, about, Fate("hold", "prelude", "gate_error"))
    usual = judge_case(case, POLICY)
    judged = [
        (one, judge_case(case, one.policy, POLICY if one.path[0] in STEERING else None)) for one in BENCHES.mutations
    ]
    noticed = [one.says for one, fate in judged if is_noticed(fate, usual)]
    assert [one.says for one in find_noticed(case, BENCHES)] == noticed != []


def test_few_mutations_can_reach_a_turn() -> None:
    assert 0 < len(BENCHES.list_reaching(UNREAD, CATALOGUE)) < len(BENCHES.mutations) / 3
