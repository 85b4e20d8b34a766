"""Each call that did not run stands in exactly one decision, and every reader says what the verdict says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from foregate.schemas.codes import CODES, GATES
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.judgement import Standing, Verdict
from foregate.telemetry.queries.decisions import read_decisions
from foregate.telemetry.queries.rulings import list_rulings
from foregate.tuning.explanation import explain
from foregate.tuning.sentences import describe_ruling
from foregate.views.pages.decision_page import build_decision_page
from foregate.views.pages.judged import build_judged
from tests.agent.corpus import STORIES, events_of
from tests.agent.loop.test_overrides import CASES, EDIT_B, OTHER, READ, play
from tests.corpus.archive import read_sessions
from tests.corpus.log import Log
from tests.policies import policy_with
from tests.telemetry.queries.counted import KINDS, FoldedStatistics

LETS_GO = ("_passed", "_accepted", "_granted", "_not_required", "_let_go")
ASKING = {"asked_by_rule", "plan_not_asked", "critique_not_asked", "critique_skipped_budget", "changed_while_waiting"}
"""Codes by which a call waits for a yes: what stops it then is the answer."""


def list_stopped(events: Iterable[Event]) -> Iterator[tuple[Event, TurnJudged, int, Verdict]]:
    """Yield each verdict by which a call does not run, with its event and its place."""
    for event in events:
        if isinstance(event.body, TurnJudged):
            for number, verdict in enumerate(event.body.judgement.verdicts):
                if verdict.standing is not Standing.ALLOW:
                    yield event, event.body, number, verdict


def check_event(event: Event, body: TurnJudged, number: int, verdict: Verdict) -> None:
    """Check that rows, timeline, labels and page say of a stopped call what its verdict says."""
    ruled = verdict.standing, verdict.ruling.code
    points = [point for point in read_decisions([event]) if point.mode != "shadow"]
    stopping = [(p.gate, r.standing, r.code) for p in points for r in p.rulings if r.call == verdict.call]
    assert [found for found in stopping if found[1].stops] == [(verdict.gate, *ruled)]
    (label,) = [one for one in list_rulings(body.judgement) if one.is_verdict and one.call == verdict.call]
    assert (label.standing, label.code) == (ruled[0].value, ruled[1])
    shown = build_judged(event, body, number, None)
    assert (shown.rulings[-1].gate, shown.rulings[-1].code) == (verdict.gate, ruled[1])


def check_statistics(log: Any, session: str, stopped: int) -> None:
    """Check that the statistics count each stopped call once."""
    found = FoldedStatistics()
    found.add_session(session, log.events(session, kinds=KINDS))
    assert found.held == stopped


def check_words(log: Any, session: str, seq: int, verdict: Verdict) -> None:
    """Check that the explanation and the page of the decision say that the call was stopped."""
    explained = explain(log, session, seq, verdict.gate, verdict.call)
    assert (explained.standing, explained.point.code) == (verdict.standing.value, verdict.ruling.code)
    said = next(describe_ruling(explained))
    assert said.startswith(f"The gate `{verdict.gate}` {'held' if verdict.standing is Standing.HOLD else 'denied'} it")
    page = build_decision_page(log, session, f"{seq}.{verdict.gate}", verdict.call)
    assert page.code == verdict.ruling.code


@pytest.mark.parametrize("name", sorted(read_sessions()))
def test_in_every_recorded_log_a_stopped_call_stands_in_one_decision(name: str) -> None:
    log = Log(read_sessions()[name])
    for session in log.sessions:
        stopped = list(list_stopped(log.events(session)))
        for event, body, number, verdict in stopped:
            check_event(event, body, number, verdict)
        check_statistics(log, session, sum(not body.early for _, body, _, _ in stopped))


def test_what_no_earlier_row_named_is_said_of_every_recorded_call() -> None:
    named = 0
    for name in sorted(read_sessions()):
        log = Log(read_sessions()[name])
        for session in log.sessions:
            for event, body, _, verdict in list_stopped(log.events(session)):
                rulings = [one for row in body.judgement.decisions if row.mode != "shadow" for one in row.rulings]
                if not any(one.call == verdict.call and one.standing.stops for one in rulings):
                    named += 1
                    if named <= 6:  # each takes a search for what would have changed it
                        check_words(log, session, event.seq, verdict)
    assert named > 0


async def test_whatever_code_stops_a_call_it_stands_in_one_decision_that_the_log_holds() -> None:
    codes = set[str]()
    told = [await events_of(story) for story in STORIES]
    played = [(await play(case, (case.call,))).log.events("s") for case in CASES.values()]
    for events in [*told, *played]:
        for event, body, number, verdict in list_stopped(events):
            codes.add(verdict.ruling.code)
            assert body.judgement.rows == body.judgement.decisions
            check_event(event, body, number, verdict)
    assert {code for gate in GATES for code in CODES[gate] if not code.endswith(LETS_GO)} - ASKING <= codes
    assert {"gate_error", "not_asked_now"} <= codes


@pytest.mark.parametrize("holds", ["call", "whole_response"])
@pytest.mark.parametrize("name", CASES)
async def test_beside_what_is_held_the_calls_held_along_with_it_stand_in_a_decision_too(name: str, holds: str) -> None:
    case = CASES[name]
    case = case._replace(policy=lambda: policy_with({"holds": holds}, CASES[name].policy()))
    for sent in ((case.call, OTHER, READ, EDIT_B), (OTHER, EDIT_B, READ, case.call)):
        world = await play(case, sent)
        events = list(world.log.events("s"))
        stopped = list(list_stopped(events))
        assert stopped
        for event, body, number, verdict in stopped:
            assert body.judgement.rows == body.judgement.decisions
            check_event(event, body, number, verdict)
        if along := [one for one in stopped if one[3].ruling.code == "not_asked_now"]:
            check_words(world.log, "s", along[0][0].seq, along[0][3])
        check_statistics(world.log, "s", len(stopped))
