"""What an accepted plan of shown calls covers: pages of one host, and targets whatever blanks stand around them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from foregate.evidence.state.task import REFUSALS
from foregate.gates.support.call_planner import is_same_target
from foregate.gates.support.plan_scope import approve_item, build_call_items, find_covering_items, put_in_force
from foregate.schemas.plan import Plan, PlanInForce, ScopeItem
from foregate.schemas.tool_call import CallFacts, Command, Survey, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from tests.gates.turns import CATALOGUE, call, facts_of, plan_for, step, survey
from tests.policies import policy_with

HOST = "lake.example"


def covers(plan: PlanInForce, *urls: str) -> bool:
    """Whether a plan covers a call that posts to these addresses and their hosts."""
    post = call("odd")
    hosts = dict.fromkeys(url.split("/")[2] for url in urls)
    named = [(ResourceKind.URL, url) for url in urls] + [(ResourceKind.HOST, host) for host in hosts]
    resources = tuple(SurveyedResource(kind, name, Effect.SEND) for kind, name in named)
    surveyed = Survey(post.id, declared_effect=Effect.SEND, resources=resources)
    return find_covering_items(facts_of(post, surveyed, effect=Effect.SEND), plan, {}, same_tool=False) is not None


def test_a_planned_page_is_covered_though_its_host_has_no_use_left() -> None:
    spent = ScopeItem(Effect.SEND, ResourceKind.HOST, HOST, 1, 1)
    plan = PlanInForce(1, "post", (spent, ScopeItem(Effect.SEND, ResourceKind.URL, f"https://{HOST}/posts/2")))
    assert covers(plan, f"https://{HOST}/posts/2")
    assert not covers(plan, f"https://{HOST}/posts/3")
    assert not covers(plan, f"https://{HOST}/posts/2", "https://elsewhere.example/x")


def test_blanks_around_a_target_make_it_no_other_one() -> None:
    assert is_same_target("general", ResourceKind.MESSAGE, "general ")


def test_a_plan_that_is_none_refuses_no_call() -> None:
    assert "plan_rejected" not in REFUSALS


def is_covered(of: CallFacts, *items: ScopeItem, **more: Any) -> bool:
    """Whether a plan of these items covers a call."""
    return find_covering_items(of, PlanInForce(1, "goal", items), {}, **{"same_tool": False, **more}) is not None


def test_the_first_step_of_a_plan_covers_its_call_as_often_as_it_says() -> None:
    send = call("send", "bob")
    for uses, expected in ((None, 1), (1, 1), (3, 3)):
        plan = Plan.model_validate(plan_for(send, planned_steps=[step("send", "bob", uses=uses)]))
        (item,) = put_in_force(plan, facts_of(send), CATALOGUE, None, policy_with()).items
        assert item.uses == expected


def test_a_step_of_the_plan_that_runs_covers_only_its_own_task_its_own_tool_and_nothing_risky() -> None:
    edit, write, delete = call("edit_file"), call("write_file"), call("delete_path")
    item = ScopeItem(Effect.DELETE, ResourceKind.FILE, "a.txt", tool="edit_file", during="2")
    assert is_covered(facts_of(edit), item, during="2")
    assert not is_covered(facts_of(edit), item, during="3")
    assert not is_covered(facts_of(write), item, during="2")
    risky = facts_of(delete, risky=True)
    assert not is_covered(risky, replace(item, tool="delete_path"), during="2")
    assert is_covered(risky, replace(item, tool="delete_path", during=""))


def test_a_yes_to_a_script_or_to_values_covers_no_other_script_and_no_other_values() -> None:
    run = call("run_command", "sh build.sh")
    command = replace(survey(run), command=Command(("sh", "build.sh"), scripts="one"))
    item = replace(build_call_items(facts_of(run, command), "1")[0], scripts="one")
    assert is_covered(facts_of(run, command), item)
    other = replace(command, command=Command(("sh", "build.sh"), scripts="two"))
    assert not is_covered(facts_of(run, other), item)
    assert not is_covered(facts_of(run, command), replace(item, values="of other values"))


def test_a_host_without_a_page_is_covered_only_by_name() -> None:
    post = call("odd")
    host = Survey(post.id, resources=(SurveyedResource(ResourceKind.HOST, HOST, Effect.SEND),))
    facts = facts_of(post, host, effect=Effect.SEND)
    assert is_covered(facts, ScopeItem(Effect.SEND, ResourceKind.HOST, HOST))
    assert not is_covered(facts, ScopeItem(Effect.SEND, ResourceKind.HOST, "other.example"))
    assert not is_covered(facts)


def test_a_call_covered_by_its_digest_is_not_with_another_effect() -> None:
    odd = facts_of(call("odd"))
    (item,) = build_call_items(odd, "1")
    assert is_covered(odd, item)
    assert not is_covered(replace(odd, effect=Effect.EXECUTE), item)


def test_a_no_to_one_of_the_calls_that_an_item_covers_approves_it_for_none() -> None:
    first, second = facts_of(call("edit_file", text="1")), facts_of(call("edit_file", text="2"))
    item = ScopeItem(Effect.EDIT, ResourceKind.FILE, "a.txt")
    assert approve_item(item, [first]).approved
    assert not approve_item(item, [first], [second]).approved
    assert approve_item(item, [first], [facts_of(call("edit_file", "b.txt"))]).approved
