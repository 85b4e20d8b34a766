"""What labels show, in words: about exactly the calls a change flips, or about sessions, and never about more."""

from __future__ import annotations

import re
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from foregate.schemas.identity import Identity
from foregate.schemas.review import ChangeProposed, ProposedStep, RuledCall
from foregate.telemetry.queries.samples import count_allowed, prove
from foregate.tuning.assessing import AssessedStep, describe_path, describe_step
from foregate.tuning.proposals import Unit, build_frame


def describe(unit: Unit, units: int, calls: int, outcomes: list[bool], allowed: int = 20, confidence: int = 900) -> str:
    """Return what is said of a setting that lets go so many calls in each of some units, some of them labelled."""
    rulings = [RuledCall(f"s{number}", seq, "evidence") for number, seq in product(range(units), range(calls))]
    frame = build_frame(rulings, unit, 7)
    body = ChangeProposed(
        name="c",
        base="",
        steps=(ProposedStep({"evidence.mode": "shadow"}, len(frame.units), frame.hash),),
        unit=unit,
        allowed=allowed,
        confidence=confidence,
        seed=7,
        sessions=units,
        by=Identity("ann"),
    )
    proof = prove(len(frame.units), outcomes, count_allowed(len(frame.units), allowed), confidence)
    return describe_step(body, AssessedStep(1, {}, frame, len(outcomes), proof))


def test_the_sentence_of_the_guide_comes_out_word_for_word_with_the_numbers_of_an_outside_library() -> None:
    assert describe("calls", 312, 1, [True] * 20) == (
        "This change lets go 312 recorded calls. 20 drawn at random are labelled, none was wrong: "
        "at most 32 of the 312 are, with 90 % confidence. You asked for 2 %: "
        "67 more labels would show it if all are right."
    )
    assert hypergeom.cdf(0, 312, 32, 20) > 0.1 >= hypergeom.cdf(0, 312, 33, 20)
    assert hypergeom.cdf(0, 312, 7, 20 + 66) > 0.1 >= hypergeom.cdf(0, 312, 7, 20 + 67), "7 are more than 2 % of 312"


@settings(max_examples=30)
@given(st.integers(1, 9), st.integers(1, 4), st.data())
def test_where_sessions_are_labelled_the_bound_is_about_sessions(units: int, calls: int, data: st.DataObject) -> None:
    outcomes = data.draw(st.lists(st.booleans(), max_size=units))
    said = describe("sessions", units, calls, outcomes)
    assert said.startswith(
        f"This change lets go calls in {units} recorded sessions of the half that it was not chosen by, "
    )
    counted = re.findall(r"at most (\d+) of the (\d+) (\w+)", said)
    assert [(whole, verb) for _, whole, verb in counted] == [
        (str(units), "does" if n == "1" else "do") for n, _, _ in counted
    ]
    assert len(counted) == bool(outcomes)


def test_what_nobody_labelled_or_nothing_lets_go_claims_no_bound() -> None:
    for said in (describe("calls", 5, 1, []), describe("sessions", 5, 2, []), describe("calls", 0, 1, [])):
        assert "at most" not in said
        assert "confidence" not in said


def test_a_path_of_one_key_names_it_once_and_one_of_several_names_each() -> None:
    def path(unit: Unit, *values: dict[str, object]) -> str:
        steps = tuple(ProposedStep(one, 1, "") for one in values)  # type: ignore[arg-type]
        about = {"name": "c", "base": "", "allowed": 1, "confidence": 900, "seed": 1, "sessions": 1}
        return describe_path(ChangeProposed(steps=steps, unit=unit, by=Identity("ann"), **about))  # type: ignore[arg-type]

    assert path("calls", {"a.b": 10}, {"a.b": True}) == "a.b: 10 → true"
    assert path("sessions", {"a.b": 10, "c": "x"}, {"a.b": 5, "c": "x"}) == "a.b: 10, c: x → a.b: 5, c: x"
