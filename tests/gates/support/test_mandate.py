"""A value from outside is released by naming it, and by nothing else; what a yes covers are the values it was shown."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.support.mandate import list_unnamed_values, name_outside
from foregate.gates.support.plan_scope import find_covering_items
from foregate.policy.risk.facts import compute_turn_facts
from foregate.schemas import strict_json
from foregate.schemas.judgement import Grant, Judgement, Need, Standing
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.schemas.turn import HoldCount, Refusal, Turn, fingerprint
from foregate.schemas.value import ArgumentValue, Source
from tests.gates.turns import CATALOGUE, answered, call, judged, need_of, plan_for, row, survey, turn
from tests.policies import policy_with

ALONE = {"uncertainty.mode": "off", "critique.level": "plan"}
POLICY = policy_with(ALONE)
X = "x@lake.example"
PAY = call("send", X, text="10")
SHOUT = call("run_shell", "make", 2)


def value(source: Source, text: str, path: str = "path", **more: Any) -> ArgumentValue:
    kind = "address" if "@" in text else "number"
    return ArgumentValue(path, "target", text, f"{kind}:{text}", source, 3, "open_page a", **more)


def with_values(*values: ArgumentValue, of: ToolCall = PAY, says: str = "pay it", **more: Any) -> Turn:
    return turn(of, surveys=(replace(survey(of), values=values),), says=says, **more)


def outside(**more: Any) -> Turn:
    return with_values(value("outside", X), value("said", "10", "amount", left=1), **more)


def reply(of: Turn, choice: str, *named: str) -> Judgement:
    """Return the judgement after a person's answer to what a turn asks."""
    given = {"choice": choice, "text": "", "by": "person", **({"named": {"c1": list(named)}} if named else {})}
    return judged(answered(of, need_of(of, POLICY), given), POLICY)


def ruling(of: Judgement, which: str = "c1") -> tuple[str, str]:
    verdict = of.find_verdict(which)
    return verdict.standing.value, verdict.ruling.code


def test_a_sheet_says_which_values_are_to_be_named_and_offers_no_lasting_leave() -> None:
    need = need_of(outside(), POLICY)
    (shown,) = need.request["calls"]
    assert (need.code, shown["to_name"], need.request["grants"]) == ("outside_mandate", [X], [])
    assert [one["source"] for one in shown["values"]] == ["outside", "said"]
    assert "you did not say `path`" in shown["why"][0]


@pytest.mark.parametrize("choice", ["yes", "grant", "anyway", "y"])
@pytest.mark.parametrize("named", [(), ("10",), ("ben@lake.example",), ("x@lake.exampl\u0435",), ("",)])
def test_no_answer_releases_a_value_that_it_does_not_name(choice: str, named: tuple[str, ...]) -> None:
    assert reply(outside(), choice, *named).find_verdict("c1").standing is not Standing.ALLOW


@pytest.mark.parametrize("named", [X, "X@Lake.example", f" <{X}> ", f"mailto:{X}"])
def test_naming_the_value_releases_it(named: str) -> None:
    assert ruling(reply(outside(), "yes", named))[0] == "allow"
    assert ruling(reply(outside(), "no", named)) == ("deny", "approval_denied")


def test_each_of_several_values_has_to_be_named() -> None:
    of = with_values(value("outside", X), value("unclear", "99", "amount", left=1))
    assert ruling(reply(of, "yes", X)) == ("hold", "outside_mandate")
    assert ruling(reply(of, "yes", X, "99.00"))[0] == "allow"


@pytest.mark.parametrize("named", [{"c2": [X]}, {"c1": X}, {"c1": {X: X}}, [X], {"c1": [[X]]}, None])
def test_names_that_cannot_be_read_name_nothing(named: Any) -> None:
    of = outside()
    given = {"choice": "yes", "text": "", "by": "person", "named": named}
    assert ruling(judged(answered(of, need_of(of, POLICY), given), POLICY)) == ("hold", "outside_mandate")


def test_nobody_present_and_auto_release_nothing() -> None:
    assert ruling(judged(outside(attended=False), POLICY)) == ("deny", "outside_mandate")
    never = policy_with({**ALONE, "approval.mode": "never"})
    assert ruling(judged(outside(), never)) == ("deny", "outside_mandate")
    assert need_of(outside(auto=True), POLICY).code == "outside_mandate"


def test_no_leave_given_before_releases_a_value_from_outside() -> None:
    grants = tuple(
        Grant("approval", code, "send", kind="message", pattern=X, digest=digest)
        for code in ("outside_mandate", "approval_required")
        for digest in ("", PAY.digest)
    )
    assert need_of(outside(grants=grants), POLICY).code == "outside_mandate"
    plan = PlanInForce(1, "g", (ScopeItem(Effect.SEND, ResourceKind.MESSAGE, X, 9, approved=True),))
    assert need_of(outside(plan=plan), POLICY).code == "outside_mandate"


def test_no_rule_that_allows_releases_a_value_from_outside() -> None:
    listed = policy_with().model_dump(mode="json")["rules"]["list"]
    rule = {"id": "free", "then": "allow", "tool": "send", "message": "free"}
    assert need_of(outside(), policy_with({**ALONE, "rules.list": [*listed, rule]})).code == "outside_mandate"


def test_what_a_rule_denies_is_not_asked_about() -> None:
    listed = policy_with().model_dump(mode="json")["rules"]["list"]
    rule = {"id": "none", "then": "deny", "tool": "send", "message": "none"}
    denied = judged(outside(), policy_with({**ALONE, "rules.list": [*listed, rule]}))
    assert ruling(denied) == ("deny", "denied_by_rule")


def test_anyway_lifts_no_hold_of_a_value_that_nobody_named() -> None:
    said = Grant("approval", "outside_mandate", "send", digest=PAY.digest)
    of = outside(grants=(said,))
    assert ruling(judged(answered(of, need_of(of, POLICY), {"choice": "yes"}), POLICY)) == ("hold", "outside_mandate")


def test_a_refused_call_stays_refused_unasked_until_the_person_says_the_value() -> None:
    of = outside()
    refused = Refusal(PAY.digest, fingerprint(of.surveys[0]), "approval", "outside_mandate", "not said", 9)
    assert ruling(judged(replace(of, refusals=(refused,)), POLICY)) == ("hold", "refused_before")
    named = with_values(value("said", X, left=1), value("said", "10", "amount", left=1), says=f"pay 10 to {X}")
    assert ruling(judged(replace(named, refusals=(refused,)), POLICY))[0] == "allow"


def test_a_dry_run_asks_nobody_and_runs_nothing_that_changes() -> None:
    assert ruling(judged(outside(dry_run=True), POLICY))[0] == "allow"


def test_no_planner_and_no_critic_is_asked_about_what_the_person_said_or_has_to_name() -> None:
    said = with_values(value("said", X, left=1), says=f"pay {X}")
    judgement = judged(said, POLICY)
    assert [row(judgement, gate).code for gate in ("plan", "critique")] == [
        "plan_not_required",
        "critique_not_required",
    ]
    assert "you" not in row(judgement, "approval").summary
    assert need_of(outside(narrated=0), POLICY).gate == "approval"
    assert need_of(with_values(value("mentioned", X)), POLICY).gate == "plan"


def test_no_critic_of_single_calls_is_asked_about_what_the_person_said() -> None:
    policy = policy_with({**ALONE, "critique.level": "call", "plan.mode": "off"})
    judged(with_values(value("said", X, left=1), says=f"pay {X}"), policy)
    assert need_of(with_values(value("mentioned", X)), policy).gate == "critique"


def test_the_sheet_that_has_a_value_named_is_the_question() -> None:
    unsure = policy_with({"uncertainty.threshold": 1})
    for source, asks in (("outside", "approval"), ("unsaid", "uncertainty")):
        of = with_values(value(source, X), says="do that")  # type: ignore[arg-type]
        judgement = judged(replace(of, attended=False), unsure)
        assert judgement.find_verdict("c1").gate == asks


def test_what_cannot_be_undone_and_has_high_impact_is_shown_with_the_sentence_it_rests_on() -> None:
    sentence = "run make"
    said = replace(value("said", "make", "path", left=1), words=sentence)
    need = need_of(with_values(said, of=replace(SHOUT, id="c1"), says=sentence), POLICY)
    (shown,) = need.request["calls"]
    assert (need.code, shown["why"][0].endswith(f'it rests on "{sentence}"')) == ("approval_required", True)


def test_a_call_with_a_value_from_outside_holds_no_other_back() -> None:
    both = turn(PAY, SHOUT, surveys=(replace(survey(PAY), values=(value("outside", X),)), survey(SHOUT)), says="make")
    policy = policy_with({**ALONE, "plan.mode": "off", "critique.mode": "off"})
    judgement = judged(answered(both, need_of(both, policy), {"choice": "yes", "text": "", "by": "person"}), policy)
    assert ruling(judgement) == ("hold", "outside_mandate")
    assert ruling(judgement, "c2")[0] == "allow"


def grant_of(amount: str) -> Grant:
    of = with_values(value("mentioned", X), value("unsaid", amount, "amount"))
    policy = policy_with({**ALONE, "plan.mode": "off", "critique.mode": "off"})
    judgement = judged(answered(of, need_of(of, policy), {"choice": "grant", "text": "", "by": "p"}), policy)
    (grant,) = judgement.grants
    return grant


def test_a_grant_to_pay_an_amount_covers_no_other_amount() -> None:
    policy = policy_with({**ALONE, "plan.mode": "off", "critique.mode": "off"})
    grant = replace(grant_of("10"), digest="", kind="message", pattern=X)
    again = with_values(value("unclear", X), value("unsaid", "10", "amount"), grants=(grant,))
    assert need_of(again, policy).code == "outside_mandate"
    same = with_values(value("mentioned", X), value("unsaid", "10", "amount"), grants=(grant,))
    assert ruling(judged(same, policy))[0] == "allow"
    more = with_values(value("mentioned", X), value("unsaid", "99999", "amount"), grants=(grant,))
    assert need_of(more, policy).code == "approval_required"


def test_a_plan_for_a_payment_covers_no_other_amount_whoever_planned_it() -> None:
    ten = with_values(value("mentioned", X), value("unsaid", "10", "amount"))
    planned = answered(ten, need_of(ten, POLICY), plan_for(PAY))
    accepted = judge_through(planned)
    assert accepted.plan is not None
    (item,) = accepted.plan.items
    assert item.values
    fewer = replace(accepted.plan, items=(replace(item, uses=9, approved=True),))

    def covers(amount: str) -> bool:
        of = with_values(value("mentioned", X), value("unsaid", amount, "amount"))
        facts = compute_turn_facts(of, POLICY, CATALOGUE)["c1"]
        return find_covering_items(facts, fewer, {}, same_tool=False) is not None

    assert covers("10")
    assert not covers("99999")


def judge_through(of: Turn) -> Judgement:
    """Return the judgement after a critic and a person who say yes."""
    need: Need = need_of(of, POLICY)
    value: Any = {"choice": "yes", "text": "", "by": "person"}
    if need.who == "critic":
        of = answered(of, need, {"verdict": "accept", "summary": "fine", "issues": []})
        need = need_of(of, POLICY)
    return judged(answered(of, need, value), POLICY)


def test_judging_a_recorded_turn_again_gives_the_same_bytes() -> None:
    for of in (outside(attended=False), with_values(value("said", X, left=1), says=f"pay {X}")):
        first, second = judged(of, POLICY), judged(of, POLICY)
        assert strict_json.encode_record(strict_json.dump(first)) == strict_json.encode_record(strict_json.dump(second))


def test_what_a_call_uses_up_is_what_the_person_said_of_it() -> None:
    of = with_values(value("said", X, left=1), value("found", "10", "amount"), says=f"pay {X}")
    assert judged(of, POLICY).said == {"c1": (f"address:{X}",)}
    assert judged(outside(attended=False), POLICY).said == {}


def test_classic_asks_nobody_who_said_a_value() -> None:
    off = policy_with({**ALONE, "mandate.mode": "off", "plan.mode": "off", "critique.mode": "off"})
    need = need_of(outside(), off)
    assert need.code == "approval_required"
    assert "values" not in need.request["calls"][0]


def test_a_value_that_is_only_unclear_is_not_put_down_to_outside() -> None:
    assert "text from outside" not in name_outside([value("unclear", "10", "amount")])
    of = with_values(value("unclear", "10", "amount", left=1))
    facts = compute_turn_facts(of, POLICY, CATALOGUE)["c1"]
    assert [one.text for one in list_unnamed_values(facts, 0, ("11",))] == ["10"]


def test_a_hold_for_a_value_is_told_apart_by_its_source() -> None:
    one, other = with_values(value("outside", X)), with_values(value("said", X, left=1))
    assert fingerprint(one.surveys[0]) != fingerprint(other.surveys[0])
    held = HoldCount(PAY.digest, "outside_mandate", fingerprint(one.surveys[0]), 1)
    assert row(judged(replace(other, holds=(held,)), POLICY), "approval").repetition == ""


def carries(source: Source = "outside") -> Turn:
    text = "token = tk-brook-7d1e0c44aa93f2b8"
    taken = ArgumentValue("text", "carried", text, f"words:{text}", source, 5, "settings.ini", name="settings.ini")
    return with_values(value("said", X, left=1), taken)


def test_text_out_of_something_nobody_named_is_released_by_the_name_of_that_or_by_itself() -> None:
    need = need_of(carries(), POLICY)
    (shown,) = need.request["calls"]
    assert (need.code, shown["to_name"]) == ("outside_mandate", ["settings.ini"])
    assert shown["why"][0].startswith("you did not say `text` for this (it takes along `token")
    assert shown["why"][0].endswith("out of settings.ini); it takes more than a yes")
    for typed in ("settings.ini", "./settings.ini", "token = tk-brook-7d1e0c44aa93f2b8"):
        assert ruling(reply(carries(), "yes", typed))[0] == "allow"
    for typed in ("", "yes", X, "tk-brook", "other.ini"):
        assert ruling(reply(carries(), "yes", typed))[1] != "approval_granted"


def test_a_held_call_says_what_it_takes_along_and_out_of_what() -> None:
    message = reply(carries(), "yes").find_verdict("c1").ruling.message
    assert "`text` takes along `token = tk-brook-7d1e0c44aa93f2b8` out of settings.ini" in message


def test_before_anything_from_outside_was_read_a_yes_is_enough() -> None:
    assert need_of(carries("unsaid"), POLICY).code != "outside_mandate"


def test_with_nobody_present_text_nobody_named_does_not_leave() -> None:
    assert ruling(judged(replace(carries(), attended=False), POLICY)) == ("deny", "outside_mandate")


def commits(*secrets: str, **more: Any) -> Turn:
    """Return the turn of a call that a rule asks about, for what it would take along."""
    found = replace(survey(PAY), values=(value("said", X, left=1),), secrets=secrets)
    return turn(PAY, surveys=(found,), says=f"pay {X}", **more)


def test_a_secret_that_nobody_spoke_of_goes_along_only_by_the_name_of_its_file() -> None:
    of = commits("what is staged in `keys.ini` matches sensitive.patterns[0]")
    need = need_of(of, POLICY)
    (shown,) = need.request["calls"]
    assert (need.code, shown["to_name"], need.request["grants"]) == ("outside_mandate", ["keys.ini"], [])
    assert "you did not ask for the secret in `keys.ini` to go along" in shown["why"][0]
    assert [(one["path"], one["role"]) for one in shown["values"]][-1] == ("secret", "secret")
    assert ruling(reply(of, "yes", "./keys.ini"))[0] == "allow"
    for typed in ("", "yes", X, "other.py"):
        assert ruling(reply(of, "yes", typed)) == ("hold", "outside_mandate")
    nobody = judged(commits("`.env` is staged", attended=False), POLICY)
    assert ruling(nobody) == ("deny", "outside_mandate")


def test_a_secret_of_which_no_file_is_known_takes_a_plain_yes() -> None:
    of = commits("the call matches sensitive.patterns[2]")
    assert need_of(of, POLICY).code == "asked_by_rule"
    assert ruling(reply(of, "yes"))[0] == "allow"
