"""Gate `narration`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.gates.narration import NarrationGate
from foregate.schemas.judgement import Grant
from foregate.schemas.protocols import SoFar
from foregate.schemas.tool_call import Command
from tests.gates.turns import call, codes, facts_of, judged, turn
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


def test_anyway_covers_the_scripts_that_were_shown_and_no_others() -> None:
    silent = call("run_command", "sh x.sh")
    bare = turn(silent, narrated=0, attended=False)
    (survey,) = bare.surveys
    command = Command(argv=("sh", "x.sh"), scripts="one")
    for shown, expected in (("one", True), ("two", False), ("", True)):
        grant = Grant("narration", "narration_required", "", digest=silent.digest, scripts=shown)
        held = replace(bare, grants=(grant,), surveys=(replace(survey, command=command),))
        policy = policy_with({**OPEN, "narration.scope": "first_side_effect"})
        assert (codes(judged(held, policy))["narration"] == "overridden") is expected


def test_no_words_are_wanted_of_a_call_whose_values_the_person_said_or_has_to_name() -> None:
    gate = NarrationGate(policy_with({"narration.scope": "first_response"}))
    for authority, due in (("said", False), ("outside", False), ("open", True), ("", True)):
        assert gate.is_due(SoFar({RISKY.id: facts_of(RISKY, authority=authority)}), RISKY) is due
