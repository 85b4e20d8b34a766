"""Which key of the policy a decision rests on."""

from __future__ import annotations

import pytest

from foregate.schemas.judgement import CallRuling, Decision, Judgement, Standing
from foregate.telemetry.queries.index_rows import is_asked_for_itself


@pytest.mark.parametrize(
    ("gate", "standing", "mode", "by", "own"),
    [
        ("rules", Standing.ALLOW, "enforce", "person", True),
        ("rules", Standing.ASK, "enforce", "person", False),
        ("rules", Standing.ASK, "shadow", "person", True),
        ("rules", Standing.ALLOW, "enforce", "", False),
    ],
)
def test_a_yes_rests_on_the_approval_mode_only_where_no_other_gate_asked(
    gate: str, standing: Standing, mode: str, by: str, own: bool
) -> None:
    other = Decision(gate, "rules_passed", mode, rulings=(CallRuling("c1", standing, "rules_passed"),))  # type: ignore[arg-type]
    yes = Decision(
        "approval",
        "approval_granted",
        rulings=(CallRuling("c1", Standing.ALLOW, "approval_granted"),),
        detail={"by": by} if by else {},
    )
    assert is_asked_for_itself(yes, Judgement((), (other, yes))) is own
    assert not is_asked_for_itself(other, Judgement((), (other, yes)))
