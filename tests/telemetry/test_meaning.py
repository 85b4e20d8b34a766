"""What events must say of each other, where a whole session is hard to bring about."""

from __future__ import annotations

from typing import Any

from foregate.schemas import strict_json
from foregate.schemas.event import Event, Kind
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.meaning import Meaning

READ = {"id": "c1.1", "name": "read_file", "arguments": '{"path":"a"}'}
DIGEST = ToolCall.parse(READ["name"], READ["arguments"]).digest
NO_SURVEYS = strict_json.sha256(b"[]")


def names(*steps: tuple[Kind, dict[str, Any]]) -> list[tuple[int, str]]:
    """Return number and name of what is wrong with a log of these events."""
    meaning = Meaning()
    return [
        (seq, code)
        for seq, (kind, body) in enumerate(steps, start=1)
        for code, _ in meaning.check(Event(1, "", seq, "s", "", kind, "foregate", "", "", body, ""))
    ]


def response(*calls: dict[str, str]) -> tuple[Kind, dict[str, Any]]:
    """Return a response with these calls."""
    return "model_response", {"calls": list(calls)}


def judged(response: int = 1, standing: str = "allow", **decision: str) -> tuple[Kind, dict[str, Any]]:
    """Return a judgement of READ, with a decision by which a gate holds it where one is described."""
    holds = {"gate": "rules", "code": "x", "rulings": [{"call": "c1.1", "standing": "hold", "code": "x"}], **decision}
    verdict = {"call": "c1.1", "digest": DIGEST, "standing": standing}
    return "turn_judged", {
        "turn": {"response": response, "surveys": []},
        "judgement": {"verdicts": [verdict], "decisions": [holds] if decision else []},
        "survey_hash": NO_SURVEYS,
    }


def started(judged_at: int, effect: str = "pure") -> tuple[Kind, dict[str, Any]]:
    """Return the start of READ."""
    permit = {"call": "c1.1", "digest": DIGEST, "judged": judged_at, "survey_hash": NO_SURVEYS}
    return "tool_started", {"call": "c1.1", "tool": "read_file", "permit": permit, "class": effect}


ENDED: tuple[Kind, dict[str, Any]] = ("tool_finished", {"call": "c1.1"})
NOT_RUN: tuple[Kind, dict[str, Any]] = ("call_answered", {"call": "c1.1"})
UNKNOWN: tuple[Kind, dict[str, Any]] = ("outcome_unknown", {"call": "c1.1"})
TASK: tuple[Kind, dict[str, Any]] = ("task_started", {"task": 2})


def test_a_call_judged_started_and_finished_is_sound() -> None:
    assert names(response(READ), judged(), started(2), ENDED, ("task_ended", {}), TASK) == []


EARLY: tuple[Kind, dict[str, Any]] = (
    "turn_judged",
    {
        "turn": {"response": 0, "surveys": [], "actor": "runner", "proposed": [{**READ, "id": "e0.1"}]},
        "judgement": {"verdicts": [{"call": "e0.1", "digest": DIGEST, "standing": "allow"}], "decisions": []},
        "survey_hash": NO_SURVEYS,
        "early": True,
    },
)


def looked(judged_at: int, effect: str = "pure") -> tuple[Kind, dict[str, Any]]:
    """Return the start of the early look at READ."""
    permit = {"call": "e0.1", "digest": DIGEST, "judged": judged_at, "survey_hash": NO_SURVEYS}
    return "tool_started", {"call": "e0.1", "tool": "read_file", "permit": permit, "class": effect, "early": True}


def shown(**more: Any) -> tuple[Kind, dict[str, Any]]:
    """Return the end of the early look at READ."""
    return "tool_finished", {"call": "e0.1", "ok": True, "content": "x", "duration": 7, "early": True, **more}


def from_look(judged_at: int, look: int, tool: str = "read_file") -> tuple[Kind, dict[str, Any]]:
    """Return the start of READ, answered from a look."""
    kind, body = started(judged_at)
    return kind, {**body, "tool": tool, "look": look}


def answered(look: int = 1, **more: Any) -> tuple[Kind, dict[str, Any]]:
    """Return the end of READ, answered from a look."""
    return "tool_finished", {"call": "c1.1", "ok": True, "content": "x", "duration": 0, "look": look, **more}


def without(mark: str, step: tuple[Kind, dict[str, Any]]) -> tuple[Kind, dict[str, Any]]:
    """Return an event that does not say a thing it said."""
    return step[0], {key: value for key, value in step[1].items() if key != mark}


SEEN = [EARLY, looked(1), shown()]


def test_a_call_may_be_answered_from_a_look_taken_before_its_response() -> None:
    assert names(*SEEN, response(READ), judged(4), from_look(5, 1), answered(), ("task_ended", {})) == []


def test_an_answer_from_another_look_or_with_something_else_than_it_showed_is_found() -> None:
    seen = [*SEEN, response(READ), judged(4)]
    for other in ({"content": "y"}, {"ok": False}, {"evidence": [{"hash": "y"}]}, {"changes": [{}]}):
        assert names(*seen, from_look(5, 1), answered(**other)) == [(7, "no_look")]
    assert names(*seen, from_look(5, 2), answered(2)) == [(6, "no_look")]
    assert names(*seen, from_look(5, 1, "http_get"), answered()) == [(6, "no_look")]
    assert names(response(READ), judged(), from_look(2, 1), answered()) == [(3, "no_look")]


def test_a_look_that_serves_two_calls_is_found() -> None:
    seen = [*SEEN, response(READ), judged(4), from_look(5, 1), answered()]
    assert names(*seen, response(READ), judged(8), from_look(9, 1), answered()) == [(10, "no_look")]


def test_a_look_that_serves_another_response_than_the_one_it_was_taken_for_is_found() -> None:
    seen = [*SEEN, response(), response(READ), judged(5)]
    assert names(*seen, from_look(6, 1), answered()) == [(7, "no_look")]


def test_a_look_that_answers_no_call_of_the_model_is_found() -> None:
    kind, body = without("early", EARLY)
    start, about = without("early", looked(5))
    again = [response(READ), (kind, body), (start, {**about, "look": 1}), answered(call="e0.1")]
    assert names(*SEEN, *again) == [(6, "no_look")]


def test_an_early_look_that_may_have_had_an_effect_is_found() -> None:
    assert names(EARLY, looked(1, "at_most_once"), shown()) == [(2, "early_change")]


def test_a_call_of_the_model_said_to_be_an_early_look_so_that_it_counts_for_nothing_is_found() -> None:
    kind, body = judged()
    assert names(response(READ), (kind, {**body, "early": True})) == [(2, "no_look")]
    kind, body = EARLY
    judgement = {"verdicts": [{"call": "c1.1", "digest": DIGEST, "standing": "allow"}], "decisions": []}
    mine = (kind, {**body, "turn": {**body["turn"], "proposed": [READ]}, "judgement": judgement})
    start, about = started(2)
    assert names(response(READ), mine, (start, {**about, "early": True}), shown(call="c1.1")) == [(3, "no_look")]
    kind, body = started(2)
    assert names(response(READ), judged(), (kind, {**body, "early": True}), shown(call="c1.1")) == [(3, "no_look")]
    assert names(response(READ), judged(), started(2, "at_most_once"), shown(call="c1.1")) == [(4, "no_look")]


def test_an_early_look_that_passes_for_one_the_model_was_told_of_is_found() -> None:
    assert names(without("early", EARLY), looked(1), shown()) == [(2, "no_look")]
    assert names(EARLY, without("early", looked(1)), without("early", shown())) == [(2, "no_look")]
    assert names(EARLY, looked(1), without("early", shown())) == [(3, "no_look")]
    seen = [*SEEN, response(READ), judged(4)]
    assert names(*seen, from_look(5, 1), without("look", answered())) == [(7, "no_look")]
    assert names(*seen, started(5), answered()) == [(7, "no_look")]


def test_a_call_a_process_died_in_is_no_longer_answered_from_the_look_it_began_with() -> None:
    again = [from_look(5, 1), judged(4), started(7), without("look", answered(content="y"))]
    assert names(*SEEN, response(READ), judged(4), *again) == []


def test_a_start_after_the_answer_is_found() -> None:
    assert names(response(READ), judged(), NOT_RUN, started(2)) == [(4, "ran_after_answer")]


def test_a_change_started_again_is_found_and_a_look_may_be_repeated_on_new_leave() -> None:
    again = (response(READ), judged(), started(2, "at_most_once"), judged(), started(4, "at_most_once"))
    assert names(*again) == [(5, "ran_twice")]
    assert names(response(READ), judged(), started(2), judged(), started(4), ENDED) == []


def test_a_change_of_unknown_outcome_is_answered_by_that() -> None:
    assert names(response(READ), judged(), started(2, "at_most_once"), UNKNOWN, response()) == []


def test_a_judgement_of_another_response_than_the_one_in_hand_is_found() -> None:
    assert names(response(READ), judged(response=7)) == [(2, "other_response")]


def test_two_calls_of_one_id_are_found() -> None:
    assert names(response(READ, READ)) == [(1, "call_twice")]


def test_leave_ends_with_the_task_it_was_given_in() -> None:
    assert names(response(READ), judged(), TASK, started(2)) == [(4, "no_permit")]


def test_a_shadow_gates_hold_does_not_bind() -> None:
    assert names(response(READ), judged(mode="shadow")) == []
    assert names(response(READ), judged(mode="enforce")) == [(2, "allowed_against_ruling")]


ASKED = {"gate": "rules", "code": "asked_by_rule", "rulings": [{"call": "c1.1", "standing": "ask", "code": "x"}]}
GRANTED = {"call": "c1.1", "standing": "allow", "code": "approval_granted"}


def test_a_call_a_gate_asked_about_needs_leave_recorded_by_approval() -> None:
    def found(*decisions: dict[str, Any], dry_run: bool = False) -> list[tuple[int, str]]:
        kind, body = judged()
        body["turn"]["dry_run"], body["judgement"]["decisions"] = dry_run, list(decisions)
        return names(response(READ), (kind, body))

    leave = {"gate": "approval", "code": "approval_granted", "rulings": [GRANTED]}
    assert found(ASKED) == found(ASKED, {**leave, "gate": "plan"}) == found(leave, ASKED)
    assert found(ASKED) == [(2, "allowed_without_leave")]
    assert found(ASKED, leave) == found(ASKED, dry_run=True) == found({**ASKED, "mode": "shadow"}) == []


def test_leave_for_a_held_call_is_none() -> None:
    assert names(response(READ), judged(standing="hold"), started(2)) == [(3, "no_permit")]


def test_a_wrong_count_at_the_end_is_found() -> None:
    assert names(("session_ended", {"events": 1})) == []
    assert names(("session_ended", {"events": 4})) == [(1, "other_count")]


def test_an_answer_to_a_call_nobody_made_is_found() -> None:
    assert names(NOT_RUN) == [(1, "answer_without_call")]


def test_only_an_unknown_outcome_is_resolved_and_only_once() -> None:
    resolved: tuple[Kind, dict[str, Any]] = ("outcome_resolved", {"call": "c1.1"})
    assert names(response(READ), judged(), started(2), UNKNOWN, resolved) == []
    assert names(response(READ), judged(), started(2), ENDED, resolved) == [(5, "resolved_without_question")]
    assert names(response(READ), judged(), started(2), UNKNOWN, *[resolved] * 2) == [(6, "resolved_without_question")]


LATER = {"id": "c1.2", "name": "read_file", "arguments": '{"path":"$result_of_step_1"}'}
FIRST: tuple[Kind, dict[str, Any]] = ("model_response", {"calls": [READ], "program": {"calls": [READ, LATER]}})
LATER_ANSWERED: tuple[Kind, dict[str, Any]] = ("call_answered", {"call": "c1.2"})


def goes_on(*calls: dict[str, str], response: int = 1) -> tuple[Kind, dict[str, Any]]:
    """Return a further stage with these calls."""
    return "model_response", {"calls": list(calls), "continues": {"response": response}}


def test_a_response_whose_stages_hold_each_of_its_calls_once_is_sound() -> None:
    filled = {**LATER, "arguments": '{"path":"b"}'}
    assert names(FIRST, NOT_RUN, goes_on(filled), LATER_ANSWERED, ("task_ended", {})) == []
    assert names(FIRST, NOT_RUN, LATER_ANSWERED, ("task_ended", {})) == []


def test_a_stage_that_comes_too_early_or_holds_what_nobody_asked_for_is_found() -> None:
    strange = {**LATER, "id": "c9.9"}
    assert names(FIRST, goes_on(LATER)) == [(2, "no_answer")]
    assert names(FIRST, NOT_RUN, goes_on(strange)) == [(3, "other_call")]
    assert names(FIRST, NOT_RUN, goes_on(LATER), LATER_ANSWERED, goes_on(LATER)) == [(5, "other_call")]
    assert names(FIRST, NOT_RUN, LATER_ANSWERED, goes_on(LATER)) == [(4, "other_call")]
    assert names(FIRST, NOT_RUN, goes_on(LATER, response=7)) == [(3, "other_response")]
    assert names(response(READ), NOT_RUN, goes_on(LATER)) == [(3, "other_call")]
    kind, body = FIRST
    assert names((kind, {**body, "calls": [strange]})) == [(1, "other_call")]


def test_a_call_that_waits_for_a_stage_must_be_answered_and_only_once() -> None:
    assert names(FIRST, NOT_RUN, response(), ("task_ended", {})) == [(3, "no_answer")]
    assert names(FIRST, NOT_RUN, ("task_ended", {})) == [(3, "no_answer")]
    assert names(FIRST, NOT_RUN, LATER_ANSWERED, LATER_ANSWERED) == [(4, "answered_twice")]


def test_a_judgement_of_a_call_that_still_waits_is_found() -> None:
    kind, body = judged()
    body["judgement"]["verdicts"][0].update(call="c1.2", digest=ToolCall.parse("read_file", LATER["arguments"]).digest)
    assert names(FIRST, (kind, body)) == [(2, "other_call")]


def test_a_call_that_cannot_be_read_has_the_digest_the_session_gave_it() -> None:
    broken = {**READ, "defect": "it is cut off"}
    kind, body = judged(standing="hold")
    body["judgement"]["verdicts"][0]["digest"] = ToolCall.broken("read_file", READ["arguments"], "it is cut off").digest
    assert names(response(broken), (kind, body)) == []
