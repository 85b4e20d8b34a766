"""A plan lets text go only out of what the person speaks of, and only to whom they name."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.prelude import build_prelude, judge
from foregate.gates.support.planned_steps import is_planned_flow
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.said import read_said
from foregate.policy.source.load import default_policy
from foregate.schemas.judgement import Judgement, Need, Standing
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue, Source
from tests.gates.blind import blind_plan, blind_step
from tests.gates.support.test_mandate import PAY, X, value, with_values
from tests.gates.turns import CATALOGUE, answered, survey
from tests.policies import policy_with

SAYS = f"Look at my notes and at the new mail, and tell {X} about dinner. Not the diary!"


def planned(*flows: tuple[str, str], name: str = "notes/tokens.txt", seq: int = 5, **more: Any) -> bool:
    taken = ArgumentValue("text", "carried", "token = 7", "words:token = 7", "outside", seq, "x", name=name)
    to = more.get("to", value("said", X, left=1))
    given = with_values(to, taken, says=more.get("says", SAYS))
    facts = compute_turn_facts(given, default_policy(), CATALOGUE)[PAY.id]
    return is_planned_flow(
        taken, facts, flows, read_said(tuple(given.user_messages), default_policy()), default_policy()
    )


def test_text_goes_where_the_plan_says_if_the_person_speaks_of_both() -> None:
    assert planned(("notes", X))
    assert planned(("diary", X), ("notes", X))
    assert planned(("mail", X), name="read_mail")
    assert planned(("read_mail", X), name="read_mail")


@pytest.mark.parametrize(
    ("read", "to"),
    [
        ("tokens", X),
        ("notes/tokens.txt", X),
        ("dinner", X),
        ("read", X),
        ("", X),
        ("notes", "thief@evil.example"),
        ("notes", ""),
        ("notes", "dinner"),
    ],
)
def test_whatever_a_plan_says_beyond_the_persons_words_opens_nothing(read: str, to: str) -> None:
    assert not planned((read, to))


@pytest.mark.parametrize("says", [f"Write {X} a note: hi.", f"Send {X} the note.", f"Write {X} a note on tea."])
def test_a_word_for_what_is_written_opens_no_read_whatever_the_plan_says(says: str) -> None:
    assert not planned(("note", X), name="get_note", says=says)
    assert planned(("note", X), name="get_note", says=f"Read my note and mail it to {X}.")


def test_what_the_person_forbids_and_what_was_read_nowhere_no_plan_opens() -> None:
    assert not planned(("diary", X), name="diary.txt")
    assert not planned(("notes", X), seq=0)


def test_a_target_that_the_person_did_not_say_gets_nothing() -> None:
    assert not planned(("notes", X), to=value("found", X))
    assert not planned(("notes", X), to=value("said", "5", left=1))


def settle(*flows: tuple[str, str], of: Turn, to: str = X, **bounds: Any) -> Judgement | Need:
    """Return what comes of a turn whose planner plans a message to somebody and these flows."""
    policy = policy_with({"plan.form": "blind", "critique.mode": "off", "uncertainty.mode": "off"})
    gates = build_prelude(policy, CATALOGUE)
    need = judge(of, gates)
    assert isinstance(need, Need)
    if need.who != "planner":
        return need
    plan = blind_plan(blind_step("send", to, **bounds), flows=[{"read": read, "to": place} for read, place in flows])
    return judge(answered(of, need, plan), gates)


def takes(source: Source = "outside", **more: Any) -> Turn:
    taken = ArgumentValue("text", "carried", "token = 7", "words:token = 7", source, 5, "x", name="notes/tokens.txt")
    return with_values(value("said", X, left=1), taken, says=SAYS, **more)


@pytest.mark.parametrize("source", ["outside", "unsaid"])
def test_a_flow_of_the_accepted_plan_lets_text_go_unasked(source: Source) -> None:
    done = settle(("notes", X), of=takes(source))
    assert isinstance(done, Judgement)
    assert done.verdicts[0].standing is Standing.ALLOW


@pytest.mark.parametrize("flows", [[], [("tokens", X)], [("notes", "eve@evil.example")]])
def test_a_step_without_a_flow_that_counts_leaves_text_to_be_named(flows: list[tuple[str, str]]) -> None:
    for more in ({}, {"text": ("free", None)}):
        need = settle(*flows, of=takes(), **more)
        assert isinstance(need, Need)
        assert (need.who, need.code) == ("person", "outside_mandate")
        assert isinstance(settle(*flows, of=takes("unsaid"), **more), Need)


def test_a_flow_opens_no_other_value() -> None:
    other = replace(
        takes(), surveys=(replace(survey(PAY), values=(*takes().surveys[0].values, value("outside", "9"))),)
    )
    need = settle(("notes", X), of=other)
    assert isinstance(need, Need)
    assert need.code == "outside_mandate"
