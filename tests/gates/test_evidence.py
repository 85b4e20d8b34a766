"""Gate `evidence`."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.gates.evidence import EvidenceGate, find_gap, find_shown
from foregate.schemas.judgement import Standing
from foregate.schemas.tool_call import EvidenceKind, Survey, Trust, fingerprint
from foregate.schemas.turn import HoldCount
from tests.gates.turns import CATALOGUE, call, codes, facts_of, judged, row, seen, survey, turn
from tests.policies import policy_with

EDIT = call("edit_file")
DELETE = call("delete_path")


def code(survey_: Survey, of: object = EDIT) -> str:
    """Return what evidence says of a turn."""
    return codes(judged(turn(of, surveys=(survey_,))))["evidence"]  # type: ignore[arg-type]


def test_editing_what_was_read_and_is_unchanged_passes() -> None:
    assert code(survey(EDIT, seen())) == "evidence_passed"


def test_editing_the_unseen_is_held_and_the_remedy_reads_exactly_it() -> None:
    verdict = judged(turn(EDIT, surveys=(survey(EDIT),))).verdicts[0]
    assert verdict.ruling.code == "missing_pre_execution_evidence"
    assert verdict.ruling.remedy is not None
    assert (verdict.ruling.remedy.tool, verdict.ruling.remedy.arguments) == ("read_file", {"path": "a.txt"})


def test_the_row_names_the_kinds_of_evidence_that_are_wanted_and_of_what() -> None:
    delete = call("delete_path", "b.txt", 2)
    looked = (survey(EDIT, seen()), survey(delete))
    found = judged(turn(EDIT, delete, surveys=looked, says="fix a.txt, delete b.txt", done_steps={}))
    assert row(found, "evidence").detail == {
        "kinds": ["file_read", "command_output", "git_state", "verification_result"],
        "target": "b.txt",
        "reason": found.verdicts[1].ruling.message,
    }
    assert row(judged(turn(EDIT, surveys=(survey(EDIT, seen()),), done_steps={})), "evidence").detail == {}


def test_a_turn_of_an_earlier_version_gives_the_row_it_gave() -> None:
    assert row(judged(turn(EDIT, surveys=(survey(EDIT),))), "evidence").detail == {}


def test_editing_what_changed_since_is_stale() -> None:
    assert code(survey(EDIT, seen("old"))) == "stale_evidence"


def test_the_newest_evidence_counts() -> None:
    records = (seen("old", 3), seen("h", 5, EvidenceKind.VERIFICATION_RESULT))
    assert code(survey(EDIT, *records)) == "evidence_passed"
    assert code(survey(EDIT, *records, hash="other")) == "stale_evidence"


def test_having_seen_that_a_file_is_there_is_enough_to_delete_it_and_not_to_edit_it() -> None:
    listed = seen("", kind=EvidenceKind.COMMAND_OUTPUT)
    assert code(survey(DELETE, listed), DELETE) == "evidence_passed"
    assert code(survey(EDIT, listed)) == "missing_pre_execution_evidence"


@pytest.mark.parametrize("at", [2, 9])
def test_a_listing_takes_nothing_from_what_was_read_before_or_after_it(at: int) -> None:
    records = (seen("h", 5), seen("", at, EvidenceKind.COMMAND_OUTPUT))
    assert code(survey(EDIT, *records)) == "evidence_passed"
    assert code(survey(EDIT, *records, hash="other")) == "stale_evidence"


def test_a_new_file_needs_no_evidence_and_overwriting_one_does() -> None:
    write = call("write_file")
    assert code(survey(write, exists=False, hash=""), write) == "evidence_passed"
    assert code(survey(write), write) == "missing_pre_execution_evidence"


def test_a_call_nobody_could_look_at_is_held() -> None:
    verdict = judged(turn(EDIT, surveys=(Survey("c1", problem="the disk is gone"),))).verdicts[0]
    assert verdict.standing is Standing.HOLD
    assert "the disk is gone" in verdict.ruling.message


def test_a_remedy_is_only_named_when_its_tool_is_offered() -> None:
    requirements = policy_with().model_dump(mode="json")["evidence"]["requirements"]
    requirements[0]["remedy"] = "no_such_tool"
    policy = policy_with({"evidence.requirements": requirements})
    verdict = judged(turn(EDIT, surveys=(survey(EDIT),)), policy).verdicts[0]
    assert verdict.ruling.remedy is None
    assert "look at it first" in row(judged(turn(EDIT, surveys=(survey(EDIT),)), policy), "evidence").summary


def test_what_is_not_there_need_not_be_looked_at_before_it_is_deleted() -> None:
    assert code(survey(DELETE, exists=False, hash=""), DELETE) == "evidence_passed"


def test_a_part_is_enough_only_where_the_policy_does_not_want_the_whole() -> None:
    (wanted, *_) = policy_with().evidence.requirements
    for whole, trust, fits in (
        (True, Trust.INFERRED, False),
        (True, Trust.DIRECT, True),
        (False, Trust.INFERRED, True),
        (False, Trust.DIRECT, True),
    ):
        (resource,) = survey(EDIT, replace(seen(), trust=trust)).resources
        assert (find_gap(wanted.model_copy(update={"whole": whole}), resource) is None) is fits


def test_what_a_sandbox_would_take_away_is_to_be_seen_and_what_it_moves_or_keeps_is_not() -> None:
    gate, of = EvidenceGate(policy_with(), CATALOGUE), turn(EDIT)
    for loses in ("", "moved", "git", "replaced", "all"):
        facts = facts_of(EDIT, replace(survey(EDIT, loses=loses), changes="blob"))
        held = gate.rule_on_call(facts, of).standing is Standing.HOLD
        assert held is (loses not in ("", "moved")), loses


def test_what_was_shown_of_a_loss_counts_only_while_it_is_the_same() -> None:
    for code_, of, counts in (
        ("stale_evidence", fingerprint(survey(EDIT, seen())), True),
        ("missing_pre_execution_evidence", fingerprint(survey(EDIT, seen())), True),
        ("stale_evidence", fingerprint(survey(EDIT, seen("old"))), False),
        ("outside_mandate", fingerprint(survey(EDIT, seen())), False),
    ):
        held = HoldCount(EDIT.digest, code_, of, 1)
        assert find_shown(turn(EDIT, holds=(held,))) == ([held] if counts else [])
