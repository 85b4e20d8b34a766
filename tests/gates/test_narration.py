"""Gate `narration`."""

from __future__ import annotations

import pytest

from tests.gates.turns import call, codes, judged, turn
from tests.policies import policy_with

RISKY = call("run_command", "make clean")
OPEN = {"plan.mode": "off", "critique.mode": "off", "approval.mode": "scope"}


def code(calls: object, scope: str = "risky", **more: object) -> str:
    """Return what narration says of a turn."""
    policy = policy_with({**OPEN, "narration.scope": scope})
    return codes(judged(turn(calls, **{"narrated": 0, "attended": False, **more}), policy))["narration"]  # type: ignore[arg-type]


def test_a_silent_risky_call_is_held() -> None:
    assert code(RISKY) == "narration_required"


@pytest.mark.parametrize("more", [{"narrated": 20}, {"depth": 1}, {"fired": {"narration": 1}}])
def test_it_passes_once_said_in_a_child_task_and_after_one_hold(more: dict[str, object]) -> None:
    assert code(RISKY, **more) == "narration_passed"


def test_holds_of_a_shadow_gate_do_not_count_for_the_enforced_one() -> None:
    assert code(RISKY, shadow_fired={"narration": 1}) == "narration_required"


@pytest.mark.parametrize(
    ("scope", "tool", "expected"),
    [
        ("risky", "edit_file", "narration_passed"),
        ("first_side_effect", "edit_file", "narration_required"),
        ("first_side_effect", "read_file", "narration_passed"),
        ("first_response", "read_file", "narration_required"),
    ],
)
def test_the_scope_says_which_calls_are_due(scope: str, tool: str, expected: str) -> None:
    assert code(call(tool), scope) == expected
