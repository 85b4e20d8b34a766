"""What a session's page says, of recorded sessions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import pytest
from msgspec import Struct

from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event
from foregate.views.pages import session_page
from foregate.views.pages.rendering import render
from foregate.views.pages.session_page import build_session_page
from foregate.views.pages.texts import ConsoleLinks
from foregate.views.pages.views import CallView, Noting, Responding, SessionPage
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


def list_happenings(page: SessionPage) -> list[int]:
    """Return the events that rows, judgings and ends of calls on a page are of; a question is one of the call's where
    that is on the same page."""
    kept = [row for row in page.rows if not isinstance(row, Noting) or row.word != "question"]
    found = [row.seq for row in kept if not isinstance(row, Responding) or not row.continued]
    for call in (call for row in page.rows if isinstance(row, Responding) for call in row.calls):
        found += [judged.seq for judged in call.judged] + [end.seq for end in call.outcomes]
    return found


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 33, 99, 100, 101])
def test_the_pages_of_a_session_show_together_what_one_page_shows(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = Log(read_sessions()["demo"])
    (session,) = log.sessions
    whole = list_happenings(build_session_page(log, session))
    monkeypatch.setattr(session_page, "EVENTS", size)
    pages = [build_session_page(log, session, page=number + 1) for number in range(-(-100 // size))]
    assert sorted(seq for page in pages for seq in list_happenings(page)) == sorted(whole)
    assert {mark.page for mark in pages[0].strip} <= set(range(1, len(pages) + 1))


@pytest.mark.parametrize("page", [0, 2, -1, 10**9])
def test_a_page_there_is_none_of_is_refused_in_a_sentence(page: int) -> None:
    log = Log(read_sessions()["demo"])
    with pytest.raises(UsageError, match="has 1 pages"):
        build_session_page(log, log.sessions[0], page=page)


class Erasure(Struct):
    at: str
    by: str
    why: str


def test_an_erased_session_says_so_and_by_whom() -> None:
    class Erased(Log):
        def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[str] = ()) -> Iterator[Event]:
            yield from (one for one in super().events(session, after=after, until=until, kinds=kinds) if one.seq == 100)

        def list_erased(self, session: str) -> dict[int, Erasure]:
            return dict.fromkeys(range(1, 100), Erasure("2026-11-23T10:00:00Z", "ann", "asked for"))

    log = Erased(read_sessions()["demo"])
    page = build_session_page(log, log.sessions[0])
    assert (
        page.erased
        == "99 of its events were erased at 2026-11-23T10:00:00 UTC by ann: asked for; their hashes are kept"
    )
    assert "what was asked is erased" in render("session.html.j2", page=page, links=ConsoleLinks())


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


def test_a_session_that_asks_a_person_says_what_waits_since_when_and_at_which_call() -> None:
    page = page_of("a-pasted-answer-of-severa")
    assert page.waiting is not None
    assert (page.waiting.question, page.state, page.tone) == (9, "awaiting approval", "ask")
    call = calls_of(page)["c4.1"]
    assert call.word == "waits for a person"
    assert [(answer.who, answer.answered) for answer in call.answers] == [("planner", 6), ("critic", 8), ("person", 0)]
