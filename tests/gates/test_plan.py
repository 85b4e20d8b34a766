"""A plan made without a look at the calls covers what its terms say, binds every value, and is asked for once."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.evidence.state.plan_in_force import Uses
from foregate.gates.plan import PlanGate
from foregate.gates.prelude import build_prelude, judge
from foregate.gates.support.blind_planner import BlindPlanner
from foregate.gates.support.plan_scope import build_call_items
from foregate.gates.support.planned_steps import find_planned_item
from foregate.policy.risk.facts import compute_turn_facts
from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.judgement import Judgement, Need, Standing
from foregate.schemas.plan import BlindPlan, Flow, PlanInForce, use_items
from foregate.schemas.tool_call import Origin, Permit, Survey, ToolCall
from foregate.schemas.tool_spec import Capabilities, Effect, ResourceKind, TargetParameter, ToolSpec, build_catalogue
from foregate.schemas.turn import Counters, Turn, TurnRecord
from foregate.schemas.value import ArgumentValue, Source, format_key, read_value
from tests.gates.blind import blind_plan, blind_step
from tests.gates.turns import CATALOGUE as GIVEN
from tests.gates.turns import answered, codes, row, turn
from tests.policies import policy_with

POLICY = policy_with({"plan.form": "blind", "critique.mode": "off", "uncertainty.mode": "off"})
ANN, BEN = "XX21000000000001", "XX22000000000002"
SAYS = f"Pay 50 to {ANN} and 70 to {BEN}."
TOOLS = [
    ToolSpec(
        name,
        name,
        {
            "type": "object",
            "properties": {"to": {"type": "string"}, "payer": {"type": "string"}, "amount": {}, "text": {}},
        },
        Effect.SEND,
        Capabilities(external_side_effect=True, needs_approval=False, high_impact_write=grave, reversible=not grave),
        tuple(TargetParameter(one, ResourceKind.OTHER, Effect.SEND) for one in targets),
        amounts=("amount",),
        texts=("text",),
    )
    for name, grave, targets in (("pay", False, ("to",)), ("wire", True, ("to",)), ("move", False, ("payer", "to")))
]
CATALOGUE = build_catalogue([*GIVEN.values(), *TOOLS])
TARGETS = ("to", "payer")


def surveyed(call: ToolCall, **sources: Source) -> Any:
    """Return what looking finds for a call: each argument but `text` binds, and comes from the source of its name."""
    found = []
    for name, given_ in (call.arguments or {}).items():
        value = read_value(given_)
        if name != "text" and value is not None:
            role = "target" if name in TARGETS else "amount"
            source = sources.get(name, "mentioned")
            found.append(ArgumentValue(name, role, str(given_), format_key(value), source, 3, "x", 1))  # type: ignore[arg-type]
    return Survey(call.id, values=tuple(found))


def of_calls(*calls: ToolCall, says: str = SAYS, plan: PlanInForce | None = None, **sources: Any) -> Turn:
    surveys = tuple(surveyed(call, **sources) for call in calls)
    return turn(*calls, surveys=surveys, says=says, plan=plan)


def pay(to: str = ANN, amount: Any = 50, number: int = 1, tool: str = "pay", **more: Any) -> ToolCall:
    return ToolCall.of(tool, {"to": to, "amount": amount, **more}, id=f"c{number}")


def judged(of: Turn) -> Judgement | Need:
    return judge(of, build_prelude(POLICY, CATALOGUE))


def planned(of: Turn, *steps: dict[str, Any], **changes: Any) -> Judgement | Need:
    """Return what comes of a turn once its planner has answered."""
    need = judged(of)
    assert isinstance(need, Need), need.decisions
    assert need.who == "planner"
    return judged(answered(of, need, blind_plan(*steps, **changes)))


def in_force(*steps: dict[str, Any], says: str = SAYS, **changes: Any) -> PlanInForce:
    made = BlindPlan.model_validate(blind_plan(*steps, **changes))
    return BlindPlanner(POLICY, CATALOGUE).put_in_force(made, [], turn(says=says))


def covers(call: ToolCall, plan: PlanInForce, says: str = SAYS, **sources: Any) -> bool:
    of = of_calls(call, says=says, **sources)
    facts = compute_turn_facts(of, POLICY, CATALOGUE)[call.id]
    return find_planned_item(facts, plan, of, POLICY) is not None


TO_ANN = blind_step("pay", ("to", ANN), amount=("equals", "50"))
TO_BEN = blind_step("pay", ("to", BEN), amount=("equals", "70"))


def test_a_covered_call_runs_without_a_sheet_and_another_one_is_shown() -> None:
    done = planned(of_calls(pay()), TO_ANN, TO_BEN)
    assert isinstance(done, Judgement)
    assert (codes(done)["plan"], done.verdicts[0].standing, done.uses) == (
        "plan_accepted",
        Standing.ALLOW,
        {"c1": (0,)},
    )
    asked = planned(of_calls(pay(BEN, 50)), TO_ANN, TO_BEN)
    assert isinstance(asked, Need)
    assert (asked.who, asked.code) == ("person", "plan_drift")


def test_the_planner_is_asked_once_and_what_its_plan_leaves_out_is_asked_about() -> None:
    first = planned(of_calls(pay()), TO_ANN)
    assert isinstance(first, Judgement)
    assert first.plan is not None
    later = judged(of_calls(pay(BEN, 70), plan=first.plan))
    assert isinstance(later, Need)
    assert (later.who, later.code) == ("person", "plan_drift")


def test_a_plan_that_cannot_be_had_is_asked_for_no_second_time() -> None:
    need = judged(of_calls(pay()))
    assert isinstance(need, Need)
    of = answered(of_calls(pay()), need, None, "plan_generation_failed: empty")
    asked = judged(of)
    assert isinstance(asked, Need)
    assert (asked.who, asked.code) == ("person", "plan_unavailable")
    no = judged(answered(of, asked, {"choice": "no", "text": "", "by": "person"}))
    assert isinstance(no, Judgement)
    assert no.plan is not None
    again = judged(of_calls(pay(BEN, 70), plan=no.plan))
    assert isinstance(again, Need)
    assert again.code == "plan_unavailable"


@pytest.mark.parametrize(
    ("call", "fits"),
    [
        (pay(), True),
        (pay(BEN, 70), True),
        (pay(BEN, 50), False),
        (pay(ANN, 70), False),
        (pay(ANN, 50, tool="wire"), False),
    ],
)
def test_roles_are_bound_by_the_plan_whoever_makes_the_call(call: ToolCall, fits: bool) -> None:
    for source in ("mentioned", "unclear"):
        assert covers(call, in_force(TO_ANN, TO_BEN), to=source, amount=source) is fits


def test_of_two_targets_each_must_be_named_by_its_argument() -> None:
    there, back = pay(BEN, 50, tool="move", payer=ANN), pay(ANN, 50, tool="move", payer=BEN)
    named = in_force(blind_step("move", ("payer", ANN), ("to", BEN), amount=("equals", "50")))
    assert (covers(there, named), covers(back, named)) == (True, False)
    vague = in_force(blind_step("move", ANN, BEN, amount=("equals", "50")))
    assert (covers(there, vague), covers(back, vague)) == (False, False)


def test_of_high_impact_a_value_in_an_unclear_role_stays_the_persons_to_name() -> None:
    plan = in_force(blind_step("wire", ("to", ANN), amount=("equals", "50")))
    assert covers(pay(tool="wire"), plan)
    assert not covers(pay(tool="wire"), plan, to="unclear")
    need = judged(of_calls(pay(tool="wire"), to="unclear"))
    assert isinstance(need, Need)
    assert (need.who, need.code) == ("person", "outside_mandate")


def test_what_cannot_be_undone_and_has_high_impact_is_shown_though_the_plan_covers_it() -> None:
    need = planned(of_calls(pay(tool="wire")), blind_step("wire", ("to", ANN), amount=("equals", "50")))
    assert isinstance(need, Need)
    (shown,) = need.request["calls"]
    assert (need.code, shown["why"][0].endswith("it rests on the planned step: do it")) == ("approval_required", True)


@pytest.mark.parametrize("claimed", ["EVE77000000000001", "eve@lake.example", "", "XX2100000000000\u0661"])
def test_a_planner_that_names_what_the_person_did_not_say_opens_nothing(claimed: str) -> None:
    plan = in_force(blind_step("pay", ("to", claimed), uses=9, amount=("free", None)))
    for source in ("unsaid", "outside", "unclear", "mentioned"):
        assert not covers(pay(claimed or "x", 50), plan, to=source, amount="said")


def test_a_bound_holds_only_where_the_person_said_its_number() -> None:
    for bound, fits in (("50", True), ("5000", False)):
        plan = in_force(blind_step("pay", ("to", ANN), amount=("at_most", bound)))
        assert covers(pay(ANN, 49), plan, amount="unsaid") is fits
    assert not covers(pay(ANN, -5), in_force(blind_step("pay", ("to", ANN), amount=("at_most", "50"))), amount="unsaid")


def test_nobody_plans_for_a_child_task() -> None:
    asked = judged(replace(of_calls(pay(), to="said", amount="said"), depth=1))
    assert isinstance(asked, Need)
    assert (asked.who, asked.code) == ("person", "plan_drift")


def test_what_was_done_before_the_plan_counts_against_it() -> None:
    made = BlindPlan.model_validate(blind_plan(TO_ANN))
    used = replace(of_calls(), said_used={f"words:{ANN.casefold()}": 1})
    plan = BlindPlanner(POLICY, CATALOGUE).put_in_force(made, [], used)
    assert (plan.items[0].used, covers(pay(), plan)) == (1, False)


def test_what_may_flow_where_is_carried_by_the_plan_in_force() -> None:
    assert in_force(flows=[{"read": "get_bill", "to": ANN}]).flows == (Flow("get_bill", ANN),)


def test_the_request_of_a_call_that_was_shown_is_no_answer_to_one_that_was_not() -> None:
    shown = judge(of_calls(pay()), build_prelude(policy_with(), CATALOGUE))
    assert isinstance(shown, Need)
    of = answered(of_calls(pay()), shown, blind_plan(TO_ANN))
    need = judged(of)
    assert isinstance(need, Need)
    assert "calls" not in need.request


NUMBERS = st.integers(-3, 60) | st.decimals(0, 40, places=2).map(float)
SOURCES = st.sampled_from(["said", "mentioned", "found", "configured", "unsaid", "unclear", "outside"])
STEPS = st.lists(
    st.builds(
        blind_step,
        st.sampled_from(["pay", None]),
        st.sampled_from([("to", ANN), ANN, ("to", BEN), ("to", "EVE77000000000001"), (None, "50")]),
        uses=st.integers(1, 4) | st.none(),
        effect=st.just("send"),
        amount=st.sampled_from(
            [("at_most", "50"), ("at_most", "70"), ("at_most", "99"), ("equals", "50"), ("free", None)]
        ),
    ),
    max_size=3,
)
OUTCOMES = st.sampled_from(["works", "fails", "unknown"])
CALLS = st.lists(
    st.tuples(st.sampled_from([ANN, BEN, "EVE77000000000001"]), NUMBERS, SOURCES, SOURCES, OUTCOMES), max_size=8
)


def follow(uses: Uses, call: ToolCall, at: int, plan: PlanInForce, outcome: str) -> PlanInForce:
    """Return the plan once a call that a step covers has run and worked, failed, or left nothing that tells."""
    uses.permit(Judgement((), (), uses={call.id: (at,)}), {call.id: call})
    one = {"call": call.id, "tool": call.name, "target": ""}
    permit = Permit(call.id, call.digest, 1, "")
    started = ToolStarted(**one, permit=permit, side_effect="at_most_once", effect=Effect.SEND, before=())  # type: ignore[arg-type]
    after = uses.start(started, plan)
    if outcome != "unknown":
        said: Any = {"content": "", "duration": 0, "origin": Origin.WORKSPACE, "evidence": (), "changes": ()}
        after = uses.finish(ToolFinished(**one, **said, ok=outcome == "works"), started, after)
    assert after is not None
    return after


@given(STEPS, CALLS)
@settings(max_examples=150, deadline=None)
def test_no_call_with_a_value_from_outside_is_covered_and_no_use_and_no_sum_is_exceeded_whatever_fails(
    steps: list[dict[str, Any]], made: list[tuple[str, Any, Source, Source, str]]
) -> None:
    plan, uses = in_force(*steps), Uses()
    spent, worked = [Decimal(0) for _ in plan.items], [0 for _ in plan.items]
    for number, (to, amount, source, other, outcome) in enumerate(made, start=1):
        call = pay(to, amount, number)
        of = of_calls(call, to=source, amount=other)
        at = find_planned_item(compute_turn_facts(of, POLICY, CATALOGUE)[call.id], plan, of, POLICY)
        if at is None:
            continue
        assert "outside" not in (source, other)
        assert to != "EVE77000000000001" or source == "configured"
        plan = follow(uses, call, at, plan, outcome)
        if outcome != "fails":
            spent[at] += Decimal(str(amount))
            worked[at] += 1
    for item, total, times in zip(plan.items, spent, worked, strict=True):
        assert item.used == times <= item.uses
        for term in item.terms or ():
            if term.rule == "at_most":
                assert Decimal(term.spent) == total <= Decimal(term.value)
                assert not item.used or term.value != "99"


def test_calls_of_one_response_share_what_is_left() -> None:
    step = blind_step("pay", ("to", ANN), uses=3, amount=("at_most", "50"))
    of = of_calls(pay(ANN, 30), pay(ANN, 15, 2), pay(ANN, 10, 3), amount="unsaid")
    need = planned(of, step)
    assert isinstance(need, Need)
    assert (need.code, need.calls) == ("plan_drift", ("c3",))


def test_a_plan_is_rebuilt_with_what_was_spent_of_it() -> None:
    plan = use_items(in_force(blind_step("pay", ("to", ANN), uses=2, amount=("at_most", "50"))), (0,), {"amount": 20.5})
    use = TurnRecord.of(of_calls(plan=plan)).plan
    assert use is not None
    assert (use.used, use.spent) == ((1,), ("20.5",))


def test_the_decision_records_the_plan_and_its_counts() -> None:
    done = planned(of_calls(pay()), TO_ANN)
    assert isinstance(done, Judgement)
    detail = row(done, "plan").detail
    assert (detail["result"], detail["revision"], detail["criteria"]) == ("accepted", 1, 1)


def test_the_planner_is_asked_as_often_as_the_safety_budget_lets_and_not_once_more() -> None:
    bound = POLICY.safety.model_calls
    for used, asked in ((bound - 1, "planner"), (bound, "person")):
        need = judged(replace(of_calls(pay()), counters=Counters(safety_calls=used)))
        assert isinstance(need, Need)
        assert need.who == asked


def test_a_call_that_the_person_asked_for_in_so_many_words_uses_its_step_up() -> None:
    of = of_calls(pay(), pay(number=2), plan=in_force(TO_ANN))
    facts = compute_turn_facts(of, POLICY, CATALOGUE)
    said, other = replace(facts["c1"], authority="said"), replace(facts["c2"], authority="open")
    gate = PlanGate(POLICY, CATALOGUE)
    assert gate.find_uncovered(of.plan, [other], [said, other], of) == ([other], {"c1": (0,)})
    assert gate.find_uncovered(of.plan, [other], [other], of) == ([], {"c2": (0,)})


def test_a_plan_made_for_a_call_stands_for_no_value_that_only_a_person_can_name() -> None:
    of = of_calls(pay())
    facts = compute_turn_facts(of, POLICY, CATALOGUE)["c1"]
    made = PlanInForce(1, "goal", build_call_items(facts, "plan-v1-step-1"))
    gate = PlanGate(POLICY, CATALOGUE)
    for authority, left in (("open", 0), ("outside", 1)):
        one = replace(facts, authority=authority)
        assert len(gate.find_uncovered(made, [one], [one], of)[0]) == left


def test_in_a_child_task_a_step_of_the_plan_covers_only_what_the_person_said() -> None:
    plan = in_force(blind_step("pay", ("to", ANN), uses=9, amount=("free", "")))
    for source, depth, fits in (("found", 0, True), ("found", 1, False), ("said", 1, True), ("said", 2, True)):
        of = replace(of_calls(pay(), to="said", amount=source), depth=depth)
        facts = compute_turn_facts(of, POLICY, CATALOGUE)["c1"]
        assert (find_planned_item(facts, plan, of, POLICY) is not None) is fits, (source, depth)


def test_an_amount_at_its_bound_is_covered_and_one_above_it_is_not() -> None:
    plan = in_force(blind_step("pay", ("to", ANN), uses=9, amount=("at_most", "50")))
    for amount, fits in ((50, True), (50.01, False)):
        assert covers(pay(amount=amount), plan, to="said", amount="mentioned") is fits
