"""Which keys no case notices, and which recorded turns would help."""

from __future__ import annotations

from foregate.policy.source.load import default_policy
from foregate.tuning.case import Case, Fate
from foregate.tuning.case_testing import KeyNotice, find_notices, find_offers
from foregate.tuning.mutations import list_mutations
from tests.agent.corpus import evidence, outside_the_mandate, plan_accepted
from tests.gates.turns import CATALOGUE, call, survey, turn
from tests.policies import policy_with
from tests.tuning.what_if_worlds import played

EDIT = call("edit_file")
UNREAD = Case(
    "unread",
    turn(EDIT, surveys=(survey(EDIT),)),
    CATALOGUE,
    "c1",
    Fate("hold", "evidence", "missing_pre_execution_evidence"),
)
WRONG = Case("wrong", UNREAD.turn, CATALOGUE, "c1", Fate("allow", "validity", "validity_passed"))


def test_a_key_is_noticed_by_the_case_that_comes_out_otherwise_and_no_failing_case_notices_anything() -> None:
    policy = default_policy()
    notices, left = find_notices([("wrong.yaml", WRONG), ("unread.yaml", UNREAD)], policy)
    by_key = {one.key: one for one in notices}
    assert by_key["evidence.mode"] == KeyNotice("evidence.mode", "unread.yaml")
    assert not by_key["uncertainty.threshold"].case
    assert not by_key["rules.list.own-files"].case
    assert {one.key for one in left} == {key for key, one in by_key.items() if not one.case}


async def test_a_recorded_turn_is_offered_where_it_would_notice() -> None:
    world = await played(evidence)
    wanted = [one for one in list_mutations(world.policy) if one.key in ("evidence.mode", "http.unlisted")]
    found = find_offers(world.log, ["s"], world.policy, wanted, 20)
    assert list(found) == ["evidence.mode"]
    session, _, rest = found["evidence.mode"].partition(":")
    assert (session, rest.partition(".")[2][:9]) == ("s", "evidence:")
    assert find_offers(world.log, ["s"], world.policy, wanted, 0) == {}


async def test_a_turn_that_asked_offers_what_decides_whether_it_asks() -> None:
    world = await played(plan_accepted)
    wanted = [one for one in list_mutations(world.policy) if one.key == "plan.mode"]
    assert "plan.mode" in find_offers(world.log, ["s"], world.policy, wanted, 20)


async def test_no_turn_is_offered_that_came_to_the_same_only_after_asking_somebody_else() -> None:
    world = await played(outside_the_mandate)
    for policy, offers in (
        (world.policy, ["critique.mode"]),
        (policy_with({"critique.mode": "off"}, world.policy), []),
    ):
        wanted = [one for one in list_mutations(policy) if one.key == "critique.mode"]
        assert list(find_offers(world.log, ["s"], policy, wanted, 20)) == offers
