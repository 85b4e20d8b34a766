"""What events must say of each other, where a whole session is hard to bring about."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.event import Body, Continuation, ModelResponded, RecordedDataflow, RecordedUsage, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    OutcomeResolved,
    OutcomeUnknown,
    SessionEnded,
    SideEffect,
    TaskStarted,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.judgement import CallRuling, Decision, Judgement, Mode, Ruling, Standing, Verdict
from foregate.schemas.model_response import RecordedCall
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, Origin, Permit, ToolCall
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind
from foregate.schemas.turn import TurnActor, TurnRecord
from foregate.telemetry.queries.invariants import InvariantChecker
from tests.telemetry.made import ended, event

READ = RecordedCall(id="c1.1", name="read_file", arguments='{"path":"a"}')
DIGEST = READ.call.digest
NO_SURVEYS = strict_json.sha256(b"[]")
A = Resource(ResourceKind.FILE, "a")


def names(*bodies: Body) -> list[tuple[int, str]]:
    """Return number and name of what is wrong with a log of these events."""
    meaning = InvariantChecker()
    return [
        (seq, code) for seq, body in enumerate(bodies, start=1) for code, _ in meaning.check_event(event(body, seq))
    ]


def response(*calls: RecordedCall, **more: Any) -> ModelResponded:
    """Return a response with these calls."""
    usage = RecordedUsage(input_tokens=0, output_tokens=0, cost=0)
    said = {"text": "", "reasoning": "", "usage": usage, "finish_reason": "stop", "model": "", "notes": ()}
    return ModelResponded(**said, calls=calls, **more)


def verdict(call: str = "c1.1", standing: Standing = Standing.ALLOW, digest: str = DIGEST) -> Verdict:
    """Return a verdict on READ, under this id."""
    return Verdict(call, digest, standing, "rules", Ruling(standing, "x"))


def turn_of(response: int, actor: TurnActor = "model", *proposed: RecordedCall, dry_run: bool = False) -> TurnRecord:
    """Return a turn nobody surveyed anything for."""
    return TurnRecord(
        response=response,
        task=1,
        turn=1,
        now="",
        policy_hash="",
        catalogue_hash="",
        prompts_hash="",
        surveys=(),
        user_messages=(),
        actor=actor,
        proposed=proposed or None,
        dry_run=dry_run,
    )


def turn_judged(turn: TurnRecord, verdict: Verdict, *decisions: Decision, early: bool = False) -> TurnJudged:
    """Return the judgement of a turn with one verdict."""
    judgement = Judgement((verdict,), decisions)
    return TurnJudged(turn=turn, judgement=judgement, survey_hash=NO_SURVEYS, fingerprints={}, early=early)


def judged(response: int = 1, standing: Standing = Standing.ALLOW, *decisions: Decision) -> TurnJudged:
    """Return a judgement of READ with these decisions."""
    return turn_judged(turn_of(response), verdict(standing=standing), *decisions)


def ruled(standing: Standing, gate: str = "rules", code: str = "x", mode: Mode = "enforce") -> Decision:
    """Return a gate's ruling on READ."""
    return Decision(gate, code, mode, rulings=(CallRuling("c1.1", standing, code),))


def started(judged_at: int, effect: SideEffect = "pure", call: str = "c1.1", **more: Any) -> ToolStarted:
    """Return the start of READ, under this id."""
    permit = Permit(call, DIGEST, judged_at, NO_SURVEYS)
    about = {"tool": "read_file", "target": "a", "effect": Effect.OBSERVATION, "before": ()}
    return ToolStarted(**{**about, "call": call, "permit": permit, "side_effect": effect, **more})


def finished(call: str = "c1.1", content: str = "x", **more: Any) -> ToolFinished:
    """Return the end of READ, under this id."""
    about = {"tool": "read_file", "target": "a", "ok": True, "duration": 7, "origin": Origin.WORKSPACE}
    return ToolFinished(**{**about, "evidence": (), "changes": (), "call": call, "content": content, **more})


def not_run(call: str = "c1.1") -> CallAnswered:
    """Return why a call did not run."""
    return CallAnswered(call=call, tool="read_file", target="a", ruling="not_run", code="x", message="no", change=False)


ENDED = finished()
NOT_RUN = not_run()
UNKNOWN = OutcomeUnknown(call="c1.1", tool="read_file", target="a", reason="it died")
TASK = TaskStarted(task=2, depth=0)
TASK_ENDED = ended().body
EARLY = turn_judged(turn_of(0, "runner", replace(READ, id="e0.1")), verdict("e0.1"), early=True)


def test_a_call_judged_started_and_finished_is_sound() -> None:
    assert names(response(READ), judged(), started(2), ENDED, TASK_ENDED, TASK) == []


def looked(judged_at: int, effect: SideEffect = "pure", **more: Any) -> ToolStarted:
    """Return the start of the early look at READ."""
    return started(judged_at, effect, "e0.1", **{"early": True, **more})


def shown(**more: Any) -> ToolFinished:
    """Return the end of the early look at READ."""
    return finished(**{"call": "e0.1", "early": True, **more})


def from_look(judged_at: int, look: int, tool: str = "read_file") -> ToolStarted:
    """Return the start of READ, answered from a look."""
    return started(judged_at, tool=tool, look=look)


def answered(look: int | None = 1, **more: Any) -> ToolFinished:
    """Return the end of READ, answered from a look."""
    return finished(**{"duration": 0, "look": look, **more})


SEEN = [EARLY, looked(1), shown()]


def test_a_call_may_be_answered_from_a_look_taken_before_its_response() -> None:
    assert names(*SEEN, response(READ), judged(4), from_look(5, 1), answered(), TASK_ENDED) == []


def test_an_answer_from_another_look_or_with_something_else_than_it_showed_is_found() -> None:
    seen = [*SEEN, response(READ), judged(4)]
    evidence, change = EvidenceRecord(EvidenceKind.FILE_READ, A, "y"), Change(A)
    for other in ({"content": "y"}, {"ok": False}, {"evidence": (evidence,)}, {"changes": (change,)}):
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
    again = [response(READ), replace(EARLY, early=False), looked(5, early=False, look=1), answered(call="e0.1")]
    assert names(*SEEN, *again) == [(6, "no_look")]


def test_an_early_look_that_may_have_had_an_effect_is_found() -> None:
    assert names(EARLY, looked(1, "at_most_once"), shown()) == [(2, "early_change")]


def test_a_call_of_the_model_said_to_be_an_early_look_so_that_it_counts_for_nothing_is_found() -> None:
    assert names(response(READ), replace(judged(), early=True)) == [(2, "no_look")]
    mine = turn_judged(turn_of(0, "runner", READ), verdict(), early=True)
    assert names(response(READ), mine, started(2, early=True), shown(call="c1.1")) == [(3, "no_look")]
    assert names(response(READ), judged(), started(2, early=True), shown(call="c1.1")) == [(3, "no_look")]
    assert names(response(READ), judged(), started(2, "at_most_once"), shown(call="c1.1")) == [(4, "no_look")]


def test_an_early_look_that_passes_for_one_the_model_was_told_of_is_found() -> None:
    assert names(replace(EARLY, early=False), looked(1), shown()) == [(2, "no_look")]
    assert names(EARLY, looked(1, early=False), shown(early=False)) == [(2, "no_look")]
    assert names(EARLY, looked(1), shown(early=False)) == [(3, "no_look")]
    seen = [*SEEN, response(READ), judged(4)]
    assert names(*seen, from_look(5, 1), answered(None)) == [(7, "no_look")]
    assert names(*seen, started(5), answered()) == [(7, "no_look")]


def test_a_call_a_process_died_in_is_no_longer_answered_from_the_look_it_began_with() -> None:
    again = [from_look(5, 1), judged(4), started(7), answered(None, content="y")]
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
    assert names(response(READ), judged(1, Standing.ALLOW, ruled(Standing.HOLD, mode="shadow"))) == []
    assert names(response(READ), judged(1, Standing.ALLOW, ruled(Standing.HOLD))) == [(2, "allowed_against_ruling")]


ASKED = ruled(Standing.ASK, code="asked_by_rule")
LEAVE = ruled(Standing.ALLOW, "approval", "approval_granted")


def test_a_call_a_gate_asked_about_needs_leave_recorded_by_approval() -> None:
    def found(*decisions: Decision, dry_run: bool = False) -> list[tuple[int, str]]:
        return names(response(READ), turn_judged(turn_of(1, dry_run=dry_run), verdict(), *decisions))

    assert found(ASKED) == found(ASKED, replace(LEAVE, gate="plan")) == found(LEAVE, ASKED)
    assert found(ASKED) == [(2, "allowed_without_leave")]
    assert found(ASKED, LEAVE) == found(ASKED, dry_run=True) == found(replace(ASKED, mode="shadow")) == []


def test_leave_for_a_held_call_is_none() -> None:
    assert names(response(READ), judged(standing=Standing.HOLD), started(2)) == [(3, "no_permit")]


def test_a_wrong_count_at_the_end_is_found() -> None:
    assert names(SessionEnded(events=1)) == []
    assert names(SessionEnded(events=4)) == [(1, "other_count")]


def test_an_answer_to_a_call_nobody_made_is_found() -> None:
    assert names(NOT_RUN) == [(1, "answer_without_call")]


def test_only_an_unknown_outcome_is_resolved_and_only_once() -> None:
    resolved = OutcomeResolved(call="c1.1", tool="read_file", target="a", outcome="done")
    assert names(response(READ), judged(), started(2), UNKNOWN, resolved) == []
    assert names(response(READ), judged(), started(2), ENDED, resolved) == [(5, "resolved_without_question")]
    assert names(response(READ), judged(), started(2), UNKNOWN, *[resolved] * 2) == [(6, "resolved_without_question")]


LATER = RecordedCall(id="c1.2", name="read_file", arguments='{"path":"$result_of_step_1"}')
FIRST = response(READ, program=RecordedDataflow(calls=(READ, LATER), deferred=(1,), places=(0,)))
LATER_ANSWERED = not_run("c1.2")


def goes_on(*calls: RecordedCall, first: int = 1) -> ModelResponded:
    """Return a further stage with these calls."""
    return response(*calls, continues=Continuation(response=first, places=()))


def test_a_response_whose_stages_hold_each_of_its_calls_once_is_sound() -> None:
    filled = replace(LATER, arguments='{"path":"b"}')
    assert names(FIRST, NOT_RUN, goes_on(filled), LATER_ANSWERED, TASK_ENDED) == []
    assert names(FIRST, NOT_RUN, LATER_ANSWERED, TASK_ENDED) == []


def test_a_stage_that_comes_too_early_or_holds_what_nobody_asked_for_is_found() -> None:
    strange = replace(LATER, id="c9.9")
    assert names(FIRST, goes_on(LATER)) == [(2, "no_answer")]
    assert names(FIRST, NOT_RUN, goes_on(strange)) == [(3, "other_call")]
    assert names(FIRST, NOT_RUN, goes_on(LATER), LATER_ANSWERED, goes_on(LATER)) == [(5, "other_call")]
    assert names(FIRST, NOT_RUN, LATER_ANSWERED, goes_on(LATER)) == [(4, "other_call")]
    assert names(FIRST, NOT_RUN, goes_on(LATER, first=7)) == [(3, "other_response")]
    assert names(response(READ), NOT_RUN, goes_on(LATER)) == [(3, "other_call")]
    assert names(replace(FIRST, calls=(strange,))) == [(1, "other_call")]


def test_a_call_that_waits_for_a_stage_must_be_answered_and_only_once() -> None:
    assert names(FIRST, NOT_RUN, response(), TASK_ENDED) == [(3, "no_answer")]
    assert names(FIRST, NOT_RUN, TASK_ENDED) == [(3, "no_answer")]
    assert names(FIRST, NOT_RUN, LATER_ANSWERED, LATER_ANSWERED) == [(4, "answered_twice")]


def test_a_judgement_of_a_call_that_still_waits_is_found() -> None:
    waiting = verdict("c1.2", digest=LATER.call.digest)
    assert names(FIRST, turn_judged(turn_of(1), waiting)) == [(2, "other_call")]


def test_a_call_that_cannot_be_read_has_the_digest_the_session_gave_it() -> None:
    broken = replace(READ, defect="it is cut off")
    digest = ToolCall.from_defect("read_file", READ.arguments, "it is cut off").digest
    assert digest != DIGEST
    held = turn_judged(turn_of(1), verdict(standing=Standing.HOLD, digest=digest))
    assert names(response(broken), held) == []
