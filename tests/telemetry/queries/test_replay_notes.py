"""Replay notes: which codes leave which notes, once each, in one sentence."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.schemas.codes import CODES
from foregate.schemas.judgement import CallRuling, Decision, Standing
from foregate.telemetry.queries.decisions import (
    DecisionPoint,
    ReplayNote,
    build_notes,
    build_session_notes,
    read_decisions,
)
from tests.telemetry.made import ended, sealed
from tests.telemetry.queries.test_decisions import judged

EXPECTED = {
    "plan_accepted": {("plan_revision", False)},
    "critique_accepted": {("plan_revision", False)},
    "plan_rejected": {("plan_revision", True), ("retry_reason", True)},
    "critique_rejected": {("plan_revision", True), ("retry_reason", True)},
    "plan_drift": {("plan_revision", True), ("retry_reason", True)},
    "missing_pre_execution_evidence": {("evidence_gate", True), ("retry_reason", True)},
    "stale_evidence": {("evidence_gate", True), ("retry_reason", True)},
    "unread_value": {("evidence_gate", True), ("retry_reason", True)},
    "text_only_turn_side_effecting_tool_drift": {("retry_reason", True)},
    "narration_required": {("retry_reason", True)},
    "uncertainty_clarification": {("retry_reason", True)},
    "outside_mandate": {("retry_reason", True)},
    "plan_unavailable": {("validation_failure", True)},
    "plan_unavailable_let_go": {("validation_failure", False)},
    "critique_invalid": {("validation_failure", True)},
    "critique_unavailable": {("validation_failure", True)},
    "critique_skipped_budget": {("validation_failure", True)},
    "verification_pending": {("validation_failure", True)},
}


def point(gate: str, code: str, tool: str = "edit_file", target: str = "a.txt", **more: object) -> DecisionPoint:
    """Return the row of one decision."""
    (row,) = read_decisions([judged(Decision(gate, code, tool=tool, target=target, **more))])  # type: ignore[arg-type]
    return row


@pytest.mark.parametrize(("gate", "code"), [(gate, code) for gate, codes in CODES.items() for code in codes])
def test_each_code_leaves_exactly_its_notes(gate: str, code: str) -> None:
    found = build_notes([point(gate, code)])
    assert {(note.category, note.blocking) for note in found} == EXPECTED.get(code, set())
    for note in found:
        assert note.summary.endswith(".")
        assert note.summary.count(". ") == 0
        assert code == "verification_pending" or ("`edit_file`" in note.summary and "`a.txt`" in note.summary)


def test_the_same_note_is_kept_once_and_order_is_that_of_the_decisions() -> None:
    rows = [point("evidence", "stale_evidence"), point("plan", "plan_accepted"), point("evidence", "stale_evidence")]
    assert [(note.category, note.code) for note in build_notes(rows)] == [
        ("evidence_gate", "stale_evidence"),
        ("retry_reason", "stale_evidence"),
        ("plan_revision", "plan_accepted"),
    ]
    other = replace(rows[0], target="b.txt")
    assert len(build_notes([*rows, other])) == 5


def test_a_shadow_decision_leaves_no_note() -> None:
    assert build_notes([point("evidence", "stale_evidence", mode="shadow")]) == ()


def test_the_reason_of_a_rejected_plan_is_in_its_notes() -> None:
    ruling = CallRuling("c3.1", Standing.HOLD, "plan_rejected", reason="missing_goal")
    for note in build_notes([point("plan", "plan_rejected", rulings=(ruling,))]):
        assert "(missing_goal)" in note.summary


def test_the_note_of_an_accepted_plan_names_its_version() -> None:
    (note,) = build_notes([point("plan", "plan_accepted", detail={"revision": 2})])
    assert note.summary == "The plan v2 for `edit_file` on `a.txt` was accepted."


def test_going_on_without_a_plan_is_a_warning() -> None:
    assert point("plan", "plan_unavailable_let_go").severity == "warning"


def test_a_task_that_ran_out_of_its_budget_leaves_a_note() -> None:
    note = "the task has used 60 of 60 (turns, policy limits.turns)"
    events = sealed(ended("budget_exhausted", note), ended())
    assert build_session_notes([judged(Decision("plan", "plan_drift")), *events])[-1] == ReplayNote(
        "validation_failure",
        "execution_budget_exhausted",
        "A task ran out of its budget: the task has used 60 of 60 (turns, policy limits.turns).",
        True,
    )


def test_the_issues_of_a_rejecting_critic_are_in_its_notes_as_parts_of_one_sentence() -> None:
    detail = {"result": "replan", "issues": ["It is the wrong Bob. Ask which one.", "Nobody saw the list."]}
    notes = build_notes([point("critique", "critique_rejected", detail=detail)])
    assert len(notes) == 2
    for note in notes:
        assert note.summary.endswith("(It is the wrong Bob; Ask which one, Nobody saw the list).")
