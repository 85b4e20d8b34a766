"""Whom a deed is for is read from the words right before a value, and from nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.gates.support.blind_planner import BlindPlanner
from foregate.gates.support.planned_steps import find_planned_item
from foregate.policy.policy import Policy
from foregate.policy.risk.addressed import is_for_another, wants_only_words
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.said import read_said
from foregate.schemas.plan import BlindPlan, PlanInForce
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.tool_spec import Capabilities, Effect, ResourceKind, TargetParameter, ToolSpec, build_catalogue
from foregate.schemas.turn import Said
from foregate.schemas.value import ArgumentValue, Source, format_key, read_forms, read_value
from tests.gates.blind import blind_plan, blind_step
from tests.gates.turns import turn
from tests.policies import policy_with

POLICY = policy_with({"plan.form": "blind"})
WITHOUT = policy_with({"mandate.addressing": []}, POLICY)
BEN, CARLA = "ben@lake.example", "carla@lake.example"


def is_said_of(target: str, says: str, *targets: str, policy: Policy = POLICY) -> bool:
    said = read_said((Said(1, says),), policy)
    forms = [form for text in (target, *targets) for form in read_forms(text)]
    return is_for_another(list(read_forms(target)), forms, Effect.SEND, "send_mail", said, policy)


@pytest.mark.parametrize(
    "says",
    [
        f"Tell {BEN} that we part from {CARLA} in May.",
        f"Read the mail, then send {BEN} the review of {CARLA}.",
        f"Send the review of {CARLA} to {BEN}.",
        f"Schicke die Beurteilung von {CARLA} an {BEN}.",
        f"Envoie le bilan de {CARLA} à {BEN}.",
        f"{CARLA} leaves in May; please inform {BEN}.",
    ],
)
def test_who_is_only_spoken_of_is_told_nothing(says: str) -> None:
    assert is_said_of(CARLA, says)
    assert not is_said_of(BEN, says)
    assert not is_said_of(CARLA, says, policy=WITHOUT)
    assert not is_said_of(CARLA, says, BEN)


@pytest.mark.parametrize(
    "says",
    [
        f"Tell {BEN} that the boat leaves at 9, and {CARLA} that she is to bring the oars.",
        f"Tell {BEN}, {CARLA} and dan@lake.example that the boat leaves at 9.",
        f"Tell {BEN} that we leave. Then send the list to {CARLA}.",
        f"Send the minutes to {BEN} with a copy to {CARLA}.",
        f"Forward the mail {BEN} sent me about {CARLA}.",
        f"The guests are {BEN} and {CARLA}. Invite the first to E-101.",
        f"Tell {BEN} about it. {CARLA} is on leave.",
        f"Do not tell {BEN} that {CARLA} leaves.",
        f"> Tell {BEN} that\n{CARLA} leaves.",
    ],
)
def test_without_a_plain_word_on_who_is_meant_a_plan_may_bind_as_before(says: str) -> None:
    assert not is_said_of(CARLA, says)


def test_accounts_and_codes_are_read_like_addresses() -> None:
    says = "Pay the rest of R-102 to R-101."
    assert is_said_of("R-102", says)
    assert not is_said_of("R-101", says)


MAIL = ToolSpec(
    "send_mail",
    "Send a mail.",
    {"type": "object", "properties": {"to": {"type": "string"}, "text": {"type": "string"}}},
    Effect.SEND,
    Capabilities(external_side_effect=True, needs_approval=False),
    (TargetParameter("to", ResourceKind.MESSAGE, Effect.SEND),),
    texts=("text",),
)
CATALOGUE = build_catalogue([MAIL])


def in_force(target: str, policy: Policy) -> PlanInForce:
    made = BlindPlan.model_validate(blind_plan(blind_step("send_mail", ("to", target), uses=2)))
    return BlindPlanner(policy, CATALOGUE).put_in_force(made, [], turn())


def covers(target: str, says: str, source: Source, policy: Policy) -> bool:
    call = ToolCall.of("send_mail", {"to": target, "text": "May."}, id="c1")
    value = read_value(target)
    assert value is not None
    to = ArgumentValue("to", "target", target, format_key(value), source, 3, says, 1)
    of = replace(turn(call, says=says), surveys=(Survey(call.id, values=(to,)),))
    facts = compute_turn_facts(of, policy, CATALOGUE)[call.id]
    return find_planned_item(facts, in_force(target, policy), of, policy) is not None


def test_a_plan_binds_no_target_whose_role_is_unclear_and_that_was_only_spoken_of() -> None:
    says = f"Tell {BEN} that we part from {CARLA} in May."
    for source, bound in (("unclear", False), ("mentioned", True)):
        assert covers(CARLA, says, source, POLICY) is bound  # type: ignore[arg-type]
        assert covers(BEN, says, source, POLICY)  # type: ignore[arg-type]
    assert covers(CARLA, says, "unclear", WITHOUT)
    asks = f"On Monday I mailed {CARLA} the code. What does Ben say?"
    assert not covers(CARLA, asks, "unclear", POLICY)
    assert covers(CARLA, f"Mail {CARLA} the code. What does Ben say?", "unclear", POLICY)


WORDS = st.sampled_from(
    ["tell", "Send", "to", "an", "the", "mail", "and", "of", "from", BEN, CARLA, "that", "May.", "not", "\n"]
)
SOURCES = st.sampled_from(["said", "mentioned", "unclear", "outside", "unsaid", "configured", "found"])


@given(st.lists(WORDS, max_size=12).map(" ".join), st.sampled_from([BEN, CARLA, "eve@lake.example"]), SOURCES)
@settings(max_examples=50, deadline=None)
def test_nothing_is_covered_that_would_not_be_without_the_words(says: str, target: str, source: Source) -> None:
    assert covers(target, says, source, WITHOUT) or not covers(target, says, source, POLICY)


@pytest.mark.parametrize(
    ("says", "only"),
    [
        (f"On Monday I mailed {CARLA} the code. What does Ben say?", True),
        (f"I pay {CARLA} every month. Read the mail and tell me what it says.", True),
        (f"Our address is {CARLA}.", False),
        (f"What does Ben say? Then change the entry for {CARLA}.", False),
        (f"Manda a {CARLA} il documento.", False),
        (f"Could you mail {CARLA} the code?", False),
    ],
)
def test_a_question_or_a_look_and_no_change_wants_only_words(says: str, only: bool) -> None:
    assert wants_only_words((Said(1, says, "user"),), POLICY) is only
