"""What a session's page says, of recorded sessions."""

from __future__ import annotations

from functools import cache

import pytest

from foregate.pages.links import ConsoleLinks
from foregate.pages.rendering import render
from foregate.pages.session_page import build_session_page
from foregate.pages.views import CallView, Responding, SessionPage
from tests.corpus.archive import read_sessions
from tests.corpus.log import Log


@cache
def page_of(name: str) -> SessionPage:
    log = Log(read_sessions()[name])
    return build_session_page(log, log.sessions[0], blobs=log.blobs)


def calls_of(page: SessionPage) -> dict[str, CallView]:
    return {call.mark: call for row in page.rows if isinstance(row, Responding) for call in row.calls}


def test_a_held_call_says_by_which_gate_why_and_on_which_number() -> None:
    call = calls_of(page_of("demo"))["c4.1"]
    (judged,) = call.judged
    assert (call.word, judged.gate, judged.code) == ("held", "uncertainty", "uncertainty_clarification")
    assert [(ruling.gate, ruling.passed) for ruling in judged.rulings] == [
        *((gate, True) for gate in ("validity", "rules", "narration", "drift")),
        ("uncertainty", False),
    ]
    (number,) = judged.rulings[-1].numbers
    assert (number.value, number.bound, number.key) == (550, 550, "uncertainty.threshold")


def test_an_edit_shows_the_lines_it_changed_though_only_its_before_image_is_kept() -> None:
    (*_, ended) = calls_of(page_of("demo"))["c32.1"].outcomes
    (file,) = ended.files
    assert [line.sign for line in file.lines] == ["@", "-", "+"]
    assert file.path == "inbox.sh"


def test_what_a_person_was_asked_and_said_stands_with_the_call() -> None:
    call = calls_of(page_of("sandbox-turn.a-person-is-asked-about-a-deletion-they-did-not"))["c10.1"]
    (answer,) = call.answers
    assert (answer.who, answer.choice, answer.by, answer.tone) == ("person", "no", "person", "deny")
    assert answer.seconds >= 0
    assert [judged.stage for judged in call.judged] == ["", "sandbox"]
    assert call.word == "denied"


def test_tasks_say_what_was_asked_and_how_they_ended() -> None:
    page = page_of("demo")
    assert [(task.asked[:8], task.status) for task in page.tasks] == [
        ("Clean th", "completed"),
        ("Fix the ", "completed"),
    ]
    assert page.asked == "Clean this up."


def test_every_verdict_of_the_strip_leads_to_a_call_on_the_page() -> None:
    page = page_of("demo")
    anchors = {call.anchor for call in calls_of(page).values()}
    assert page.whole_strip
    assert {mark.anchor for mark in page.strip} <= anchors
    assert sum(count for _, count, _ in page.counts) == len(page.strip)


@pytest.mark.parametrize("name", sorted(read_sessions()))
def test_every_recorded_session_has_a_page_without_anything_inline(name: str) -> None:
    log = Log(read_sessions()[name])
    for session in log.sessions:
        if log.head_anchor(session)[0]:
            text = render(
                "session.html.j2", page=build_session_page(log, session, blobs=log.blobs), links=ConsoleLinks()
            )
            assert "<style" not in text
            assert " style=" not in text
            assert text.count("<script") == 1
