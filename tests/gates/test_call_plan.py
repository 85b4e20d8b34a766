"""Gate `plan` with `plan.form: call`: when a plan is due, what it must say, and what it covers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.plan import PLAN_REASONS, PlanGate
from foregate.gates.prelude import build_prelude, judge
from foregate.schemas.judgement import Need, Standing, Voided
from foregate.schemas.plan import PlanInForce
from foregate.schemas.turn import Counters, Turn
from tests.gates.turns import (
    CATALOGUE,
    answered,
    call,
    codes,
    facts_of,
    judged,
    need_of,
    placed,
    plan_for,
    row,
    step,
    survey,
    turn,
)
from tests.policies import policy_with

ALONE = {"critique.mode": "off", "approval.mode": "scope", "uncertainty.mode": "off"}
POLICY = policy_with(ALONE)
RUN = call("run_command", "make test")
SEND = call("send", "bob@example.org")


def planned(of: Turn, *values: Any) -> Turn:
    """Return the turn with the planner's answers in order."""
    for value in values:
        of = answered(of, need_of(of, POLICY), value, "" if value else "plan_generation_failed: no JSON")
    return of


def consented(of: Turn) -> Turn:
    """Return the turn with a person's yes."""
    return answered(of, need_of(of, POLICY), {"choice": "yes", "text": "", "by": "person"})


def test_a_risky_call_raises_one_need_for_the_planner_that_covers_all_risky_calls() -> None:
    need = need_of(turn(call("read_file"), call("run_command", "make", 2), call("send", "bob", 3)), POLICY)
    assert (need.who, need.calls) == ("planner", ("c2", "c3"))
    assert need.request["user_words"] == "fix a.txt"


def test_a_tame_change_needs_no_plan_until_the_fourth_resource() -> None:
    edit = call("edit_file")
    assert codes(judged(turn(edit), POLICY))["plan"] == "plan_passed"
    assert need_of(turn(edit, counters=Counters(changed_resources=3)), POLICY).gate == "plan"


def test_the_same_resource_again_is_no_fourth_resource() -> None:
    edit = call("edit_file")
    again = turn(edit, counters=Counters(changed_resources=3), surveys=(survey(edit, changed_before=True),))
    assert codes(judged(again, policy_with({**ALONE, "evidence.mode": "off"})))["plan"] == "plan_passed"


def test_an_accepted_plan_lets_its_call_go_on_and_is_in_force_once_the_call_is_allowed() -> None:
    judgement = judged(consented(planned(turn(RUN), plan_for(RUN))), POLICY)
    assert codes(judgement)["plan"] == "plan_accepted"
    assert judgement.verdicts[0].standing is Standing.ALLOW
    assert judgement.plan is not None
    assert (judgement.plan.revision, judgement.uses) == (1, {"c1": (0,)})


def test_a_plan_is_not_in_force_when_its_call_is_refused() -> None:
    of = planned(turn(RUN), plan_for(RUN))
    no = answered(of, need_of(of, POLICY), {"choice": "no", "text": "not now", "by": "person"})
    assert judged(no, POLICY).plan is None


DEFECTS: dict[str, dict[str, Any]] = {
    "missing_goal": {"goal": "  "},
    "missing_success_criteria": {"success_criteria": []},
    "missing_first_action_tool": {"first_action": {"tool": "", "target": "make test", "description": "x"}},
    "first_action_tool_mismatch": {"first_action": {"tool": "send", "target": "make test", "description": "x"}},
    "missing_first_action_description": {
        "first_action": {"tool": "run_command", "target": "make test", "description": " "}
    },
    "missing_first_action_target": {"first_action": {"tool": "run_command", "target": "", "description": "x"}},
    "first_action_target_mismatch": {
        "first_action": {"tool": "run_command", "target": "make clean", "description": "x"}
    },
    "missing_verification_requirement": {"requires_verification": False},
    "missing_risk_acknowledgment": {"risky_actions": [" "]},
    "missing_plan_version": {"version": 0},
    "planned_steps_first_action_mismatch": {"planned_steps": [step("edit_file", "make test")]},
    "planned_steps_first_action_target_mismatch": {"planned_steps": [step("run_command", "make")]},
    "planned_steps_incomplete_entry": {
        "planned_steps": [step("run_command", "make test"), step("edit_file", "a.txt", description="")]
    },
}


def test_every_plan_reason_has_a_defect_below() -> None:
    assert tuple(DEFECTS) == PLAN_REASONS


@pytest.mark.parametrize("reason", PLAN_REASONS)
def test_a_defect_is_named_once_to_the_planner_and_then_rejects(reason: str) -> None:
    bad = plan_for(RUN, **DEFECTS[reason])
    once = planned(turn(RUN), bad)
    assert need_of(once, POLICY).request["defect"] == reason
    judgement = judged(planned(once, bad), POLICY)
    assert (codes(judgement)["plan"], judgement.verdicts[0].ruling.reason) == ("plan_rejected", reason)


@pytest.mark.parametrize("reason", PLAN_REASONS)
def test_a_second_plan_without_the_defect_is_accepted(reason: str) -> None:
    of = planned(turn(RUN), plan_for(RUN, **DEFECTS[reason]), plan_for(RUN))
    assert codes(judged(consented(of), POLICY))["plan"] == "plan_accepted"


def test_tool_names_are_compared_without_case_and_targets_exactly() -> None:
    first = {"tool": "Run_Command", "target": "make test", "description": "x"}
    of = planned(turn(RUN), plan_for(RUN, first_action=first))
    assert need_of(of, POLICY).gate == "approval"


def test_an_unusable_answer_asks_a_person_for_dangerous_calls_and_lets_others_go() -> None:
    asked = need_of(planned(turn(RUN), None), POLICY)
    assert (asked.gate, asked.code) == ("approval", "plan_unavailable")
    tame = turn(call("edit_file"), counters=Counters(changed_resources=3))
    assert codes(judged(planned(tame, None), POLICY))["plan"] == "plan_unavailable_let_go"


def test_an_exhausted_safety_budget_makes_the_plan_unavailable() -> None:
    of = turn(RUN, counters=Counters(safety_calls=16))
    assert need_of(of, POLICY).code == "plan_unavailable"


def test_past_the_cap_of_questions_the_call_is_held_whatever_the_policy_lets_go() -> None:
    once = policy_with(
        {"limits.needs_per_gate": 1, "plan.on_unavailable": {"dangerous": "proceed", "other": "proceed"}}
    )
    bad = planned(turn(RUN), plan_for(RUN, goal=""))
    verdict = judged(bad, once).verdicts[0]
    assert (verdict.standing, verdict.ruling.code, verdict.ruling.reason) == (
        Standing.HOLD,
        "plan_unavailable",
        "missing_goal",
    )
    unlimited = policy_with({"limits.needs_per_gate": 0})
    assert need_of(bad, unlimited).request["defect"] == "missing_goal"


def test_plans_that_no_longer_count_are_counted_as_asked() -> None:
    voided = tuple(Voided(n, "plan", "what was judged has changed since the answer") for n in range(3))
    assert need_of(turn(RUN, voided=voided[:2]), POLICY).gate == "plan"
    assert judged(turn(RUN, voided=voided), POLICY).verdicts[0].ruling.code == "plan_unavailable"


def in_force(*steps: dict[str, Any]) -> PlanInForce:
    """Return the plan accepted for RUN with these steps."""
    first = step("run_command", "make test")
    plan = judged(
        consented(planned(turn(RUN), plan_for(RUN, planned_steps=[first, *steps] if steps else None))), POLICY
    ).plan
    assert plan is not None
    return replace(plan, seq=9)


def unapproved(plan: PlanInForce) -> PlanInForce:
    """Return the plan as if no person had said yes to it."""
    return replace(plan, items=tuple(replace(item, approved=False) for item in plan.items))


def outcome(plan: PlanInForce, *calls: Any) -> str:
    """Return the plan gate's code for calls under a plan, or `asks` when it asks the planner."""
    return coded(turn(*calls, plan=plan))


def coded(of: Turn) -> str:
    """Return the plan gate's code for a turn, or `asks` when it asks the planner."""
    result = judge(of, build_prelude(POLICY, CATALOGUE))
    if isinstance(result, Need):
        assert result.gate == "plan"
        return "asks"
    return codes(result)["plan"]


@pytest.mark.parametrize(
    ("steps", "later", "expected"),
    [
        ([step("run_command", "make lint")], call("run_command", "make lint"), "plan_passed"),
        ([step("run_command", "ruff check")], call("run_command", "ruff check src -q"), "plan_passed"),
        ([step("run_command", "make lint")], call("run_command", "make"), "asks"),
        ([step("run_command", "make lint")], call("run_command", "makefile lint"), "asks"),
        ([step("send", "bob")], call("send", "bob"), "plan_passed"),
        ([step("send", "bob")], call("send", "bob2"), "asks"),
        ([step("send", "*")], call("send", "bob"), "plan_passed"),
        ([step("delete_path", "a.txt")], call("send", "a.txt"), "asks"),
        ([step("run_shell", "rm x")], call("run_shell", "rm x"), "asks"),
        ([step("odd", "a.txt")], call("odd", "a.txt"), "asks"),
    ],
)
def test_a_later_call_is_covered_by_effect_kind_and_pattern_and_a_shell_line_never(
    steps: list[dict[str, Any]], later: Any, expected: str
) -> None:
    assert outcome(in_force(*steps), later) == expected


@pytest.mark.parametrize(
    ("item", "later", "expected"),
    [
        ("python3", "python3 -c pass", "asks"),
        ("python3", "python3", "plan_passed"),
        ("python3 -c pass", "python3 -c pass", "plan_passed"),
        ("python3 -c 'pass'", "python3 -c pass", "plan_passed"),
        ("python3 -c pass", "python3 -c pass more", "asks"),
        ("python3 -m", "python3 -m pytest", "asks"),
        ("python3 -m pytest", "python3 -m pytest -q tests", "plan_passed"),
        ("python3 tools/x.py", "python3 tools/x.py --all", "plan_passed"),
        ("./env", "env sh -c ls", "asks"),
        ("env", "env sh -c ls", "asks"),
        ("sudo pytest", "sudo pytest -q", "asks"),
        ("sh build.sh", "sh build.sh --fast", "plan_passed"),
        ("npm test", "npm test -- -u", "plan_passed"),
        ("npx", "npx anything", "asks"),
        ("make lint", "make lint SHELL=x", "asks"),
        ("git", "git -c alias.x=!ls x", "asks"),
        ("git", "git status", "asks"),
        ("git -c alias.x=!ls", "git -c alias.x=!ls x", "asks"),
        ("git status", "git status --short", "plan_passed"),
    ],
)
def test_further_words_are_covered_only_where_an_item_says_what_runs(item: str, later: str, expected: str) -> None:
    assert outcome(in_force(step("run_command", item, uses=50)), call("run_command", later)) == expected


def test_an_amendment_cannot_leave_open_what_runs_either() -> None:
    steps = [step("send", SEND.arguments["path"]), step("run_command", "python3", uses=50)]
    plan = judged(consented(planned(turn(SEND, plan=in_force()), plan_for(SEND, planned_steps=steps))), POLICY).plan
    assert plan is not None
    assert outcome(plan, call("run_command", "python3")) == "plan_passed"
    assert outcome(plan, call("run_command", "python3 -c pass")) == "asks"


def test_a_plan_is_judged_again_as_it_was_under_a_policy_that_knew_no_open_ended_commands() -> None:
    before = policy_with({**ALONE, "commands.open_ended": []})
    steps = [step("run_command", words) for words in ("make test", "python3", "env")]
    asked = planned(turn(RUN), plan_for(RUN, planned_steps=steps))
    plan = judged(consented(asked), before).plan
    assert plan is not None
    assert [(item.pattern, item.exact) for item in plan.items[1:]] == [("python3", False), ("env", False)]
    assert outcome(plan, call("run_command", "python3 -m pytest")) == "plan_passed"


def test_a_sheet_shows_further_words_only_of_commands_that_say_what_runs_and_the_plan_says_what_to_write() -> None:
    steps = [step("run_command", words) for words in ("make test", "python3", "env", "sh -c 'a b'", "git", "pytest")]
    plan = plan_for(RUN, planned_steps=steps)
    alone, beside = planned(turn(RUN), plan), planned(turn(RUN, call("run_command", "python3 -c pass", 2)), plan)
    items = need_of(alone, POLICY).request["plan"]["items"]
    assert [item["pattern"] for item in items if "further" in item] == ["pytest"]
    accepted = row(judged(consented(alone), POLICY), "plan")
    assert accepted.detail["exactly"] == ["python3", "env", "sh -c 'a b'", "git"]
    held = judged(consented(beside), POLICY).verdicts[1].ruling
    assert (held.code, held.reason) == ("plan_drift", "not_in_plan")
    for sentence in (accepted.summary, held.message):
        assert "of `python3`, `env`, `sh -c 'a b'` and 1 more it covers exactly these words" in sentence
        assert "name the script, module or subcommand" in sentence


@pytest.mark.parametrize("words", ["make test", "pytest", "pytest -k x"])
@pytest.mark.parametrize("home", [".", "a"])
def test_a_plan_for_a_command_covers_it_in_the_folder_of_its_first_call_only(words: str, home: str) -> None:
    steps = [step("run_command", "make test", uses=2), step("run_command", "pytest")]
    of = planned(turn(RUN, surveys=(placed(RUN, home),)), plan_for(RUN, planned_steps=steps))
    plan = judged(consented(of), POLICY).plan
    later = call("run_command", words, text="again")
    for folder in (".", "a", "a/b", "b"):
        expected = "plan_passed" if folder == home else "asks"
        assert coded(turn(later, surveys=(placed(later, folder),), plan=plan)) == expected
    assert outcome(plan, later) == ("plan_passed" if home == "." else "asks")


def test_the_sheet_names_the_folder_of_each_call_and_of_each_command_of_the_plan() -> None:
    steps = [step("run_command", "make test"), step("run_command", "make lint"), step("send", "bob")]
    of = planned(turn(RUN, surveys=(placed(RUN, "a"),)), plan_for(RUN, planned_steps=steps))
    request = need_of(of, POLICY).request
    assert [asked["folder"] for asked in request["calls"]] == ["a"]
    assert [item.get("folder") for item in request["plan"]["items"]] == ["a", "a", None]


def test_the_sheet_names_the_item_that_covers_each_call_and_says_where_none_does() -> None:
    def items(of: Turn, policy: Any) -> list[Any]:
        return [asked["plan_items"] for asked in need_of(of, policy).request["calls"]]

    steps = [step("run_command", "make test"), step("run_command", "make lint")]
    lint, edit = call("run_command", "make lint", 2), call("edit_file", "a.txt", 3)
    both = planned(turn(RUN, lint), plan_for(RUN, planned_steps=steps))
    assert items(both, POLICY) == [[1], [2]]
    plan, each = in_force(*steps[1:]), policy_with({"critique.mode": "off", "approval.mode": "each"})
    assert items(turn(edit, plan=plan), each) == [[]]
    assert items(turn(lint, edit, plan=unapproved(plan)), each) == [[2], []]
    deletes = unapproved(in_force(step("delete_path", "a.txt")))
    steps_bind = policy_with({"critique.mode": "off", "approval.mode": "each", "plan.binding": "steps"})
    assert (items(turn(edit, plan=deletes), each), items(turn(edit, plan=deletes), steps_bind)) == ([[2]], [[]])
    assert items(turn(RUN), policy_with({"critique.mode": "off", "plan.mode": "off"})) == [None]


def test_leave_is_used_up() -> None:
    plan = in_force(step("send", "bob", uses=2))
    spent = replace(plan, items=tuple(replace(item, used=item.uses) for item in plan.items))
    assert outcome(plan, call("send", "bob")) == "plan_passed"
    assert outcome(plan, call("send", "bob"), call("send", "bob", 2, text="b")) == "plan_passed"
    assert outcome(plan, *(call("send", "bob", n, text=str(n)) for n in (1, 2, 3))) == "asks"
    assert outcome(spent, call("send", "bob")) == "asks"


def test_a_plan_for_one_target_does_not_cover_another() -> None:
    assert outcome(in_force(), call("run_command", "rm -r build")) == "asks"


def test_past_the_amendments_an_uncovered_call_is_plan_drift() -> None:
    widened = replace(in_force(), amendments=3)
    assert outcome(widened, SEND) == "plan_drift"
    for edition, words in ((0, "say why it must be widened"), (1, "`plan.max_amendments` allows; keep to it")):
        (verdict,) = judged(turn(SEND, plan=widened, edition=edition), POLICY).verdicts
        assert verdict.ruling.message.endswith(words)


def test_an_amendment_that_fails_twice_is_drift_of_its_call_only() -> None:
    of = planned(turn(SEND, plan=in_force()), plan_for(SEND, goal=""), plan_for(SEND, goal=""))
    verdict = judged(of, POLICY).verdicts[0]
    assert (verdict.ruling.code, verdict.ruling.reason) == ("plan_drift", "missing_goal")


def test_an_amendment_adds_to_the_scope_under_the_next_revision() -> None:
    judgement = judged(consented(planned(turn(SEND, plan=in_force()), plan_for(SEND))), POLICY)
    assert judgement.plan is not None
    assert (judgement.plan.revision, judgement.plan.amendments, len(judgement.plan.items)) == (2, 1, 2)


def test_binding_by_first_action_asks_no_more_once_a_plan_is_in_force() -> None:
    policy = policy_with({**ALONE, "plan.binding": "first_action", "approval.mode": "never"})
    assert codes(judged(turn(SEND, plan=in_force()), policy))["plan"] == "plan_passed"


def test_binding_by_first_action_plans_the_first_due_call_of_a_response_and_no_other() -> None:
    policy = policy_with({**ALONE, "plan.binding": "first_action"})
    of = turn(RUN, call("send", "bob@example.org", 2))
    need = need_of(of, policy)
    assert need.calls == ("c1",)
    of = answered(of, need, plan_for(RUN))
    assert need_of(of, policy).calls == ("c1", "c2")
    judgement = judged(answered(of, need_of(of, policy), {"choice": "yes", "text": "", "by": "person"}), policy)
    assert [verdict.standing for verdict in judgement.verdicts] == [Standing.ALLOW, Standing.ALLOW]


def test_binding_by_steps_ties_leave_to_the_tool_of_its_step() -> None:
    policy = policy_with({**ALONE, "plan.binding": "steps", "plan.due": "first_side_effect", "approval.mode": "never"})
    plan = in_force(step("delete_path", "a.txt"))
    same = judge(turn(call("delete_path"), plan=plan), build_prelude(policy, CATALOGUE))
    other = judge(turn(call("edit_file"), plan=plan), build_prelude(policy, CATALOGUE))
    assert not isinstance(same, Need)
    assert isinstance(other, Need)


def test_a_plan_at_depth_is_due_unless_the_policy_says_top_level() -> None:
    policy = policy_with({**ALONE, "plan.depth": "top_level", "approval.mode": "never"})
    assert need_of(turn(RUN, depth=1), POLICY).gate == "plan"
    assert codes(judged(turn(RUN, depth=1), policy))["plan"] == "plan_passed"


def test_the_decision_records_the_plan_and_its_counts() -> None:
    detail = row(judged(consented(planned(turn(RUN), plan_for(RUN))), POLICY), "plan").detail
    assert (detail["result"], detail["criteria"], detail["risks"]) == ("accepted", 1, 1)


def test_what_works_in_a_sandbox_needs_no_plan_beforehand() -> None:
    gate = PlanGate(POLICY, CATALOGUE)
    for contained, due in ((True, 0), (False, 1)):
        assert len(gate.select_calls([facts_of(RUN, contained=contained)], turn(RUN))) == due
