"""The judge: joining, raising gates, shadow, consequences, and what adding a gate can never do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate import gates
from foregate.gates.prelude import Prelude, build_prelude, conclude_judgement, find_repetition, judge
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.source.load import default_policy
from foregate.schemas.codes import GATES
from foregate.schemas.judgement import Consequence, Grant, Judgement, Mode, Need, Opinion, Ruling, Standing, build_pass
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import Counters, HoldCount, Turn
from tests.gates.turns import CATALOGUE, call, judged, survey, turn
from tests.policies import SHADOWED, policy_with

READ, EDIT, SEND = call("read_file"), call("edit_file", number=2), call("send", "bob", 3)


@dataclass(frozen=True)
class Says:
    """A gate that says the same of every call, or of the calls it is told about."""

    standing: Standing
    name: str = "says"
    mode: Mode = "enforce"
    only: tuple[str, ...] = ()
    consequence: Consequence | None = None
    asks: str = ""
    fails: bool = False
    forgets: bool = False
    uses: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def __call__(self, turn: Turn, live: Sequence[ToolCall], so_far: SoFar) -> Opinion | Need:
        if self.fails:
            raise ZeroDivisionError("broken")
        if self.asks:
            return Need(self.name, "planner", "k", tuple(c.id for c in live), tuple(c.digest for c in live))
        told = [c for c in live if not self.only or c.id in self.only]
        ruling = Ruling(self.standing, f"{self.name}_{self.standing.value}")
        clear = build_pass(self.name)
        rulings = {c.id: ruling if c in told else clear for c in live}
        return Opinion({} if self.forgets else rulings, self.consequence, uses=self.uses)


def bench(*gates: Any, holds_all: bool = False) -> Prelude:
    """Return a prelude over these gates and the usual facts."""
    return Prelude(
        gates, lambda t: compute_turn_facts(t, default_policy(), CATALOGUE), "whole_response" if holds_all else "call"
    )


def standings(result: Judgement | Need) -> dict[str, Standing]:
    """Return how each call stands."""
    assert isinstance(result, Judgement)
    return {verdict.call: verdict.standing for verdict in result.verdicts}


ALLOW, ASK, HOLD, DENY = Standing
OF = turn(READ, EDIT, SEND)


def test_the_gates_are_asked_in_the_published_order() -> None:
    assert tuple(gate.name for gate in build_prelude(default_policy(), CATALOGUE).gates) == GATES


def test_a_gate_that_is_off_is_not_there_and_validity_and_approval_always_are() -> None:
    off = policy_with(dict.fromkeys(SHADOWED, "off"))
    assert [gate.name for gate in build_prelude(off, CATALOGUE).gates] == ["validity", "approval"]


def test_a_raising_gate_holds_every_live_call_and_the_row_is_an_error() -> None:
    result = judge(OF, bench(Says(ALLOW, fails=True)))
    assert set(standings(result).values()) == {HOLD}
    assert isinstance(result, Judgement)
    assert (result.decisions[0].code, result.decisions[0].severity) == ("gate_error", "error")


def test_a_gate_that_leaves_a_call_out_holds_it() -> None:
    assert set(standings(judge(OF, bench(Says(ALLOW, forgets=True)))).values()) == {HOLD}


def test_without_any_gate_nothing_runs() -> None:
    assert set(standings(judge(OF, bench())).values()) == {HOLD}


def test_an_ask_nobody_settled_is_denied() -> None:
    assert standings(judge(OF, bench(Says(ASK))))["c1"] is DENY


def test_a_later_gate_is_asked_only_about_calls_that_still_stand() -> None:
    result = judge(OF, bench(Says(HOLD, only=("c2",)), Says(DENY, name="later", only=("c2",))))
    assert standings(result)["c2"] is HOLD


def test_a_consequence_holds_every_change_it_was_asked_about_and_observations_run() -> None:
    gate = Says(HOLD, only=("c2",), consequence=Consequence("ask_user", "which?"))
    result = judge(OF, bench(gate))
    assert standings(result) == {"c1": ALLOW, "c2": HOLD, "c3": HOLD}
    assert isinstance(result, Judgement)
    assert (result.consequence_gate, result.find_verdict("c3").ruling.code) == ("says", "not_asked_now")


def test_the_first_consequence_counts_and_after_it_no_need_is_raised() -> None:
    first = Says(ALLOW, consequence=Consequence("ask_user", "which?"))
    second = Says(ALLOW, name="second", consequence=Consequence("words_only_next"))
    result = judge(OF, bench(first, second, Says(ALLOW, name="third", asks="x")))
    assert isinstance(result, Judgement)
    assert result.consequence_gate == "says"
    assert standings(result)["c1"] is HOLD


def test_a_need_is_returned_as_it_is() -> None:
    assert isinstance(judge(OF, bench(Says(ALLOW, asks="x"))), Need)


@pytest.mark.parametrize("actor", ["runner", "postlude"])
def test_runner_and_postlude_raise_no_need(actor: str) -> None:
    result = judge(replace(OF, actor=actor), bench(Says(ALLOW, asks="x")))
    assert set(standings(result).values()) == {HOLD}


@pytest.mark.parametrize("extra", [{"fails": True}, {"forgets": True}, {"consequence": Consequence("ask_user")}])
def test_a_shadow_gate_is_recorded_and_never_applied(extra: dict[str, Any]) -> None:
    result = judge(OF, bench(Says(ALLOW), Says(DENY, name="shade", mode="shadow", **extra)))
    assert set(standings(result).values()) == {ALLOW}
    assert isinstance(result, Judgement)
    assert (result.consequence, result.decisions[1].mode) == (None, "shadow")


def test_a_shadow_gate_raises_no_need() -> None:
    assert isinstance(judge(OF, bench(Says(ALLOW), Says(ALLOW, name="shade", mode="shadow", asks="x"))), Judgement)


def test_anyway_frees_exactly_the_call_gate_and_code_it_was_said_of() -> None:
    gate = Says(HOLD, name="narration")
    leave = Grant("narration", "narration_hold", "", digest=EDIT.digest, until="task")
    assert standings(judge(replace(OF, grants=(leave,)), bench(gate)))["c2"] is ALLOW
    for other in (replace(leave, digest=SEND.digest), replace(leave, gate="plan"), replace(leave, code="x")):
        assert standings(judge(replace(OF, grants=(other,)), bench(gate)))["c2"] is HOLD


@pytest.mark.parametrize("name", ["validity", "evidence"])
def test_anyway_never_frees_what_cannot_be_read_or_was_not_looked_at(name: str) -> None:
    leave = Grant(name, f"{name}_hold", "", digest=EDIT.digest, until="task")
    assert standings(judge(replace(OF, grants=(leave,)), bench(Says(HOLD, name=name))))["c2"] is HOLD


def test_holding_the_whole_response_takes_the_innocent_calls_too() -> None:
    result = judge(OF, bench(Says(HOLD, only=("c2",)), holds_all=True))
    assert set(standings(result).values()) == {HOLD}


def test_a_response_held_as_a_whole_spends_no_advice_and_no_person() -> None:
    asking = Says(ALLOW, asks="planner")
    result = judge(OF, bench(Says(HOLD, only=("c2",)), asking, holds_all=True))
    assert set(standings(result).values()) == {HOLD}
    assert isinstance(judge(OF, bench(Says(HOLD, only=("c2",)), asking)), Need)


def test_one_decision_is_recorded_per_gate_asked_and_a_snapshot_when_something_may_run() -> None:
    result = judged(turn(READ))
    assert [decision.gate for decision in result.decisions] == [*GATES, "prelude"]
    assert result.decisions[-1].code == "prelude_ready_for_execution"
    held = judged(turn(EDIT, surveys=(survey(EDIT),)))
    assert [decision.gate for decision in held.decisions][-1] == "evidence"


def test_the_snapshot_holds_what_was_used_of_which_budget_and_what_was_to_be_sent_again() -> None:
    fired = {"narration": 1, "evidence": 2, "drift": 1, "critique": 1}
    (last,) = judged(turn(READ, fired=fired, done_steps={"s1": 5}, counters=Counters(tool_calls=3))).decisions[-1:]
    state = last.detail["execution_state"]
    assert (state["retries"], state["replans"], state["plan"], state["steps"]) == (3, 2, 0, {"s1": 5})
    assert (state["used"], state["budget"]["tool_calls"]) == ({"tool_calls": 3}, default_policy().limits.tool_calls)
    assert "tokens" not in state["budget"], "what is unlimited has no bound"


def test_the_snapshot_says_nothing_of_what_is_none_which_it_did_up_to_edition_2() -> None:
    (last,) = judged(turn(READ, done_steps={})).decisions[-1:]
    assert list(last.detail["execution_state"]) == ["task", "turn", "tool_calls", "changes", "plan"]
    (last,) = judged(turn(READ, done_steps={}, edition=2)).decisions[-1:]
    state = last.detail["execution_state"]
    assert (state["steps"], state["retries"], state["replans"], state["used"]["tool_calls"]) == ({}, 0, 0, 0)
    assert state["budget"]["tool_calls"] == default_policy().limits.tool_calls


def test_the_snapshot_of_a_turn_of_an_earlier_version_is_as_it_was() -> None:
    state = judged(turn(READ)).decisions[-1].detail["execution_state"]
    assert list(state) == ["task", "turn", "tool_calls", "changes", "plan"]


GATE = st.builds(
    Says,
    st.sampled_from([ALLOW, ASK, HOLD, DENY]),
    name=st.sampled_from(["g1", "g2", "g3"]),
    only=st.sampled_from([(), ("c1",), ("c2",), ("c1", "c3")]),
    fails=st.booleans(),
)


@given(st.lists(GATE, max_size=4), GATE, st.integers(0, 4))
def test_adding_a_gate_never_lets_more_through(gates: list[Says], extra: Says, at: int) -> None:
    before = standings(judge(OF, bench(Says(ALLOW), *gates)))
    after = standings(judge(OF, bench(Says(ALLOW), *gates[:at], extra, *gates[at:])))
    assert all(after[call_id] is not ALLOW for call_id, standing in before.items() if standing is not ALLOW)


@given(st.lists(GATE, min_size=1, max_size=4))
def test_the_order_of_gates_that_need_no_advice_never_changes_what_runs(gates: list[Says]) -> None:
    results = [
        {c for c, s in standings(judge(OF, bench(Says(ALLOW), *order))).items() if s is ALLOW}
        for order in permutations(gates)
    ]
    assert all(result == results[0] for result in results)


def test_no_gate_but_approval_lets_go_what_another_asks_about() -> None:
    later = standings(judge(OF, bench(Says(ASK), Says(ALLOW, "later"))))
    assert set(later.values()) == {DENY}
    assert set(standings(judge(OF, bench(Says(ASK), Says(ALLOW, "approval", only=("nobody",))))).values()) == {ALLOW}


def test_what_a_gate_that_lets_everything_pass_uses_of_a_plan_is_used() -> None:
    plan = PlanInForce(1, "goal", (ScopeItem(Effect.EDIT, ResourceKind.FILE, "a.txt"),))
    result = judge(
        turn(EDIT, plan=plan), bench(Says(ALLOW), Says(ALLOW, "plan", only=("nobody",), uses={EDIT.id: (0,)}))
    )
    assert isinstance(result, Judgement)
    assert result.uses == {EDIT.id: (0,)}


def test_a_call_uses_up_no_step_of_a_plan_that_was_made_for_a_call_that_is_held() -> None:
    bench, items = build_prelude(policy_with(), CATALOGUE), (ScopeItem(Effect.EDIT, ResourceKind.FILE, "a.txt"),) * 2
    before = PlanInForce(1, "goal", items[:1])
    of = turn(EDIT, SEND, plan=before)
    so_far = SoFar(bench.facts(of), plan=replace(before, items=items), uses={EDIT.id: (0, 1)})
    so_far.rulings |= {EDIT.id: ("says", Ruling(Standing.ALLOW, "x")), SEND.id: ("says", Ruling(Standing.HOLD, "x"))}
    for first, used in ((SEND.id, (0,)), (EDIT.id, (0, 1)), ("", (0, 1))):
        so_far.plan_first = first
        assert conclude_judgement(of, so_far, bench).uses == {EDIT.id: used}


def test_a_hold_is_a_repetition_only_of_one_of_the_same_call_code_and_evidence() -> None:
    held, of = Ruling(Standing.HOLD, "stale_evidence"), turn(EDIT)
    known = of.fingerprints[EDIT.id]
    for digest, code, print_, expected in (
        (EDIT.digest, "stale_evidence", known, "stale_evidence"),
        (SEND.digest, "stale_evidence", known, ""),
        (EDIT.digest, "plan_drift", known, ""),
        (EDIT.digest, "stale_evidence", "other", ""),
    ):
        again = replace(of, holds=(HoldCount(digest, code, print_, 1),))
        assert find_repetition(EDIT, held, again) == expected


def test_the_folder_of_gates_holds_a_file_for_each_gate_and_what_asks_them_and_nothing_else() -> None:
    files = {path.stem for path in Path(gates.__file__).parent.glob("*.py")}
    assert files == {*GATES, "prelude", "postlude", "__init__"}
    assert len(GATES) == 9
