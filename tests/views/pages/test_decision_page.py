"""What the page of one decision says, of recorded sessions."""

from __future__ import annotations

import pytest

from foregate.schemas.errors import UsageError
from foregate.telemetry.queries.decisions import read_decisions
from foregate.views.pages.decision_page import build_decision_page
from foregate.views.pages.rendering import render
from foregate.views.pages.texts import ConsoleLinks
from foregate.views.pages.views import DecisionPage
from tests.corpus.archive import read_sessions
from tests.corpus.log import Log

ASKED = "sandbox-turn.a-person-is-asked-about-a-deletion-they-did-not"


def page_of(name: str, address: str, call: str = "") -> DecisionPage:
    log = Log(read_sessions()[name])
    return build_decision_page(log, log.sessions[0], address, call, blobs=log.blobs)


def test_the_number_whose_bound_alone_would_have_changed_the_ruling_is_lit() -> None:
    page = page_of("demo", "5.uncertainty")
    (measure,) = page.measures
    assert (measure.value, measure.bound, measure.key, measure.lit) == (550, 550, "uncertainty.threshold", True)
    assert any("`uncertainty.threshold` at 551 or more" in lever for lever in page.levers)


def test_a_number_that_decided_nothing_is_not_lit() -> None:
    assert not any(one.lit for one in page_of(ASKED, "16.critique").measures if one.name == "risk")


def test_the_sheet_is_laid_out_from_what_was_asked_and_who_answered_stands_above_it() -> None:
    page = page_of(ASKED, "16.approval")
    (sheet,) = page.sheets
    assert "this ran in a sandbox: may what it changed there be kept?" in sheet.rows
    assert (sheet.answer.choice, sheet.answer.by) == ("no", "person")


def test_a_sheet_whose_request_is_gone_says_so() -> None:
    log = Log(read_sessions()[ASKED])
    (sheet,) = build_decision_page(log, log.sessions[0], "16.approval").sheets
    assert (sheet.rows, sheet.problem) == ("", "the blobs are not at hand here")


def test_another_call_of_the_response_has_its_own_ruling_on_the_page() -> None:
    first, second = page_of("demo", "10.drift"), page_of("demo", "10.drift", "c9.1")
    assert (first.call, first.word) == ("c9.3", "held")
    assert (second.call, second.word) == ("c9.1", "let pass")


def test_the_event_stands_in_the_chain_by_the_hash_of_what_it_says() -> None:
    log = Log(read_sessions()["demo"])
    (session,) = log.sessions
    chain = build_decision_page(log, session, "5.uncertainty").chain
    rows = {seq: hash_ for seq, _, hash_ in log.lines(session)}
    assert chain.fits
    assert (chain.hash, chain.prev, chain.head) == (rows[5], rows[4], rows[100])


@pytest.mark.parametrize(
    "address", ["5.nothing", "4.plan", "x", "5", "99999.plan", "5.uncertainty.c4", ".plan", "0.plan"]
)
def test_what_is_no_decision_is_refused_in_a_sentence(address: str) -> None:
    with pytest.raises(UsageError):
        page_of("demo", address)


def test_a_call_the_turn_does_not_have_is_refused_in_a_sentence() -> None:
    with pytest.raises(UsageError, match="judged no call"):
        page_of("demo", "5.uncertainty", "c9.1")


@pytest.mark.parametrize("name", sorted(read_sessions())[::16])
def test_every_decision_that_did_not_just_pass_has_a_page(name: str) -> None:
    log = Log(read_sessions()[name])
    for session in log.sessions:
        points = read_decisions(log.events(session, kinds=("turn_judged",)))
        for point in [one for one in points if one.severity != "info"][:6]:
            page = build_decision_page(log, session, point.address, blobs=log.blobs)
            assert "Its place in the chain" in render("decision.html.j2", page=page, links=ConsoleLinks())
