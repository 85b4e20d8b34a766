"""Who can write there decides: records a plan refers to, fields of the operator's own, and a yes to a proposal."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.prelude import build_prelude, judge
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.schemas.judgement import Judgement, Need, Standing
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.tool_spec import Capabilities, Effect, ResourceKind, TargetParameter, ToolSpec, build_catalogue
from foregate.schemas.turn import PLANNED_ALONE, SECOND_MANDATE, HoldCount, Said, Turn
from foregate.schemas.value import ArgumentValue, Source
from tests.gates.blind import blind_plan
from tests.gates.turns import answered, turn
from tests.policies import policy_with

POLICY = policy_with({"plan.form": "blind", "critique.mode": "off", "uncertainty.mode": "off"})
EVE, KIM = "eve@fair.example", "kim@fair.example"
SAYS = "Invite all guests of the spring fair."


def build_tool(name: str, *, external: bool = True, grave: bool = False, **more: Any) -> ToolSpec:
    able = Capabilities(
        external_side_effect=external, needs_approval=False, high_impact_write=grave, reversible=not external
    )
    to = (TargetParameter("to", ResourceKind.MESSAGE, Effect.SEND if external else Effect.EDIT),)
    effect = Effect.SEND if external else Effect.EDIT
    return ToolSpec(name, name, {"type": "object", "properties": {"to": {}}}, effect, able, to, texts=("text",), **more)


TOOLS = [
    build_tool("invite"),
    build_tool("charge", grave=True),
    build_tool("note", external=False),
    replace(build_tool("hand_over", destination="own"), targets=()),
    replace(build_tool("tell_all"), targets=()),
    ToolSpec("list_events", "list_events", {"type": "object"}, Effect.OBSERVATION, None),
]
CATALOGUE = build_catalogue(TOOLS)


def value(text: str = EVE, source: Source = "outside", place: int = 0, **more: Any) -> ArgumentValue:
    record = more.pop("record", ("list_events", "guests", "fair", "spring"))
    return ArgumentValue(f"to[{place}]", "target", text, f"address:{text}", source, 3, "x", 1, record, **more)


def calling(tool: str, *values: ArgumentValue, **more: Any) -> Turn:
    call = ToolCall.of(tool, {"to": [one.text for one in values], "text": "hello"}, id="c1")
    return turn(call, surveys=(Survey("c1", values=values),), says=more.pop("says", SAYS), **more)


def decide(of: Turn, policy: Policy = POLICY) -> Judgement | Need:
    return judge(of, build_prelude(policy, CATALOGUE))


def plan_with(of: Turn, **target: Any) -> Judgement | Need:
    """Return what comes of a turn once a planner has answered with a step that refers to a record."""
    need = decide(of)
    assert isinstance(need, Need)
    assert need.who == "planner"
    refers = {"argument": "to", "said": None, "read": "list_events", "record": None, "field": None} | target
    call = of.calls[0].name
    step = {"tool": call, "effect": None, "uses": 1, "targets": [refers], "bounds": [], "description": "as asked"}
    return decide(answered(of, need, blind_plan(step)))


@pytest.mark.parametrize("target", [{}, {"record": "spring fair"}, {"record": "the fair", "field": "guests"}])
def test_what_a_plan_refers_to_in_the_record_that_is_meant_takes_a_plain_yes(target: dict[str, Any]) -> None:
    need = plan_with(calling("invite", value(), value(KIM, place=1)), **target)
    assert isinstance(need, Need)
    (shown,) = need.request["calls"]
    assert (need.who, need.code, "to_name" in shown) == ("person", "approval_required", False)
    assert "as the plan made from your words refers to it" in shown["why"][0]


@pytest.mark.parametrize("target", [{"record": "autumn gala"}, {"field": "owner"}, {"read": "invite"}, {"said": EVE}])
def test_a_reference_to_anything_else_covers_nothing(target: dict[str, Any]) -> None:
    need = plan_with(calling("invite", value()), **({"read": None} | target if "said" in target else target))
    assert isinstance(need, Need)
    assert need.code == "outside_mandate"


def test_no_planner_is_asked_where_no_record_is_meant_or_the_call_has_high_impact() -> None:
    for of in (
        calling("invite", value(record=("list_events", "guests"))),
        calling("invite", value(record=())),
        calling("charge", value()),
        calling("invite", value(source="own", record=("list_events", "guests"))),
    ):
        need = decide(of)
        assert isinstance(need, Need)
        assert need.who == "person"


def test_an_own_value_of_no_certain_record_is_shown_and_takes_a_plain_yes() -> None:
    need = decide(calling("invite", value(source="own", record=("list_events", "guests"))))
    assert isinstance(need, Need)
    (shown,) = need.request["calls"]
    assert (need.code, "to_name" in shown) == ("approval_required", False)


def test_values_of_one_record_are_named_by_what_it_is_called_once() -> None:
    both = [value(one, place=place, record=(), name="Spring fair") for place, one in enumerate((EVE, KIM))]
    need = decide(calling("invite", *both))
    assert isinstance(need, Need)
    (shown,) = need.request["calls"]
    assert (need.code, shown["to_name"]) == ("outside_mandate", ["Spring fair"])
    answer = {"choice": "yes", "text": "", "by": "person"}
    told = decide(answered(calling("invite", *both), need, answer | {"named": {"c1": ["Spring fair"]}}))
    other = decide(answered(calling("invite", *both), need, answer | {"named": {"c1": ["Autumn fair"]}}))
    assert isinstance(told, Judgement)
    assert isinstance(other, Judgement)
    assert [one.find_verdict("c1").standing for one in (told, other)] == [Standing.ALLOW, Standing.HOLD]


def test_a_tool_whose_destination_is_the_operators_own_asks_nobody_while_it_names_nothing() -> None:
    own, other = (
        calling("hand_over", says="Is there somebody I can talk to?"),
        calling("tell_all", says="Who is there?"),
    )
    facts = compute_turn_facts(own, POLICY, CATALOGUE)["c1"]
    assert (facts.external, facts.irreversible, facts.authority) == (False, False, "")
    assert isinstance(decide(own), Judgement)
    assert isinstance(decide(other), Need)


def test_without_a_mandate_a_destination_of_ones_own_changes_nothing() -> None:
    policy = policy_with({"mandate.mode": "off"})
    facts = compute_turn_facts(calling("hand_over"), policy, CATALOGUE)["c1"]
    assert (facts.external, facts.irreversible) == (True, True)


def test_what_a_server_says_of_its_destination_counts_for_nothing_and_what_the_operator_says_does() -> None:
    foreign = replace(CATALOGUE["hand_over"], provenance="mcp:desk")
    of = calling("hand_over", says="Is there somebody I can talk to?")
    for sources, stays in (({}, False), ({"mcp:desk": {"destination": "own"}}, True)):
        policy = policy_with({"plan.form": "blind", "sources": sources})
        facts = compute_turn_facts(of, policy, build_catalogue([foreign]))["c1"]
        assert facts.external is not stays


def test_what_has_high_impact_is_shown_again_only_where_no_proposal_was_agreed_to() -> None:
    of = calling("charge", value(source="said"), says=f"Charge {EVE}.")
    asked = decide(of)
    assert isinstance(asked, Need)
    agreed = replace(of, proposal=Said(1, f"Shall I charge {EVE}?", "model"))
    assert isinstance(decide(agreed), Judgement)
    assert isinstance(decide(replace(agreed, edition=SECOND_MANDATE - 1)), Need)
    for other in ("Shall I remove the mail?", f"Shall I charge {KIM}?", f"I know {EVE}. Shall I look?"):
        assert isinstance(decide(replace(of, proposal=Said(1, other, "model"))), Need)


def test_a_free_bound_covers_no_choice_that_nobody_said_and_one_that_names_it_does() -> None:
    role = ArgumentValue("role", "choice", "owner", "words:owner", "unsaid")
    call = ToolCall.of("tell_all", {"role": "owner"}, id="c1")
    for rule, given, covered in (("free", None, False), ("equals", "owner", True), ("equals", "viewer", False)):
        of = turn(call, surveys=(Survey("c1", values=(role,)),), says="Tell all of it.")
        need = decide(of)
        assert isinstance(need, Need)
        bound = {"argument": "role", "rule": rule, "value": given}
        step = {"tool": "tell_all", "effect": None, "uses": 1, "targets": [], "bounds": [bound], "description": "x"}
        assert isinstance(decide(answered(of, need, blind_plan(step))), Judgement) is covered


def test_a_made_up_code_goes_back_to_the_model_once_before_a_person_is_asked() -> None:
    made_up = value("acct_7334", record=(), is_unread=True)
    first = calling("invite", made_up)
    held = decide(first)
    assert isinstance(held, Judgement)
    ruling = held.find_verdict("c1").ruling
    assert (ruling.standing, ruling.code) == (Standing.HOLD, "unread_value")
    assert "look it up, and send the call with what you find" in ruling.message
    again = decide(replace(first, holds=(HoldCount(first.calls[0].digest, "unread_value", "", 1),)))
    assert isinstance(again, Need)
    assert (again.who, again.code) == ("person", "outside_mandate")


def test_a_call_that_nobody_must_stand_behind_may_name_a_made_up_code() -> None:
    made_up = value("acct_7334", record=(), is_unread=True)
    assert isinstance(decide(calling("note", made_up, says="Add a note.")), Judgement)
    judged = decide(calling("note", made_up, says="Add a note."))
    assert isinstance(judged, Judgement)
    assert judged.find_verdict("c1").ruling.code != "unread_value"


def test_with_nobody_there_what_reaches_others_for_good_takes_the_words_and_a_plan_that_agrees() -> None:
    of = calling("invite", value(source="said"), says=f"Invite {EVE}.")
    alone = replace(of, attended=False)
    need = decide(alone)
    assert isinstance(need, Need)
    assert need.who == "planner"
    named = {"argument": "to", "said": EVE, "read": None, "record": None, "field": None}
    step = {"tool": "invite", "effect": None, "uses": 1, "targets": [named], "bounds": [], "description": "as asked"}
    other = step | {"targets": [named | {"said": KIM}]}
    for steps, standing in (([step], Standing.ALLOW), ([other], Standing.DENY), ([], Standing.DENY)):
        done = decide(answered(alone, need, blind_plan(*steps)))
        assert isinstance(done, Judgement)
        assert done.find_verdict("c1").standing is standing
    for free in (of, replace(alone, edition=PLANNED_ALONE - 1)):
        assert isinstance(decide(free), Judgement)
    noted = calling("note", value(source="said"), says=f"Write {EVE} a note.", attended=False)
    assert isinstance(decide(noted), Judgement)
