"""The rows of a judged turn: what passes in silence leaves a bare row, what stops or asks names each call."""

from __future__ import annotations

from foregate.schemas.judgement import Decision
from tests.gates.turns import call, judged, row, turn
from tests.policies import policy_with

POLICY = policy_with({"uncertainty.mode": "off"})


def test_a_gate_that_lets_everything_pass_names_no_call_nor_does_a_critique_nobody_required() -> None:
    judgement = judged(turn(call("edit_file"), call("read_file", number=2)), POLICY)
    assert row(judgement, "rules") == Decision("rules", "rules_passed")
    critique = row(judgement, "critique")
    assert (critique.code, critique.rulings, critique.tool) == ("critique_not_required", (), "")


def test_a_row_names_the_calls_it_stops_and_leaves_out_those_that_pass() -> None:
    judgement = judged(turn(call("nope"), call("read_file", number=2)), POLICY)
    stopped = row(judgement, "validity")
    assert ([ruling.call for ruling in stopped.rulings], stopped.tool) == (["c1"], "nope")
