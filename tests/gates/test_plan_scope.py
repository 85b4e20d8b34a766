"""What an accepted plan of shown calls covers: pages of one host, and targets whatever blanks stand around them."""

from __future__ import annotations

from foregate.evidence.state.task import REFUSALS
from foregate.gates.call_plan import is_same_target
from foregate.gates.plan_scope import find_covering_items
from foregate.policy.risk.facts import compute_turn_facts
from foregate.schemas.plan import PlanInForce, ScopeItem
from foregate.schemas.tool_call import Survey, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from tests.gates.turns import CATALOGUE, call, turn
from tests.policies import policy_with

HOST = "lake.example"


def covers(plan: PlanInForce, *urls: str) -> bool:
    """Whether a plan covers a call that posts to these addresses and their hosts."""
    post = call("odd")
    hosts = dict.fromkeys(url.split("/")[2] for url in urls)
    named = [(ResourceKind.URL, url) for url in urls] + [(ResourceKind.HOST, host) for host in hosts]
    resources = tuple(SurveyedResource(kind, name, Effect.SEND) for kind, name in named)
    surveyed = Survey(post.id, declared_effect=Effect.SEND, resources=resources)
    facts = compute_turn_facts(turn(post, surveys=(surveyed,)), policy_with(), CATALOGUE)[post.id]
    facts = type(facts)(**{name: getattr(facts, name) for name in facts.__struct_fields__} | {"effect": Effect.SEND})
    return find_covering_items(facts, plan, {}, same_tool=False) is not None


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
