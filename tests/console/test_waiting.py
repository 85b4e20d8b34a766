"""Open questions on a page: the terminal's sheet, and answers by the code that the terminal answers with."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import foregate
from foregate.assembly.home import Home
from foregate.assembly.identity import find_identity
from foregate.cli.demo import FOREIGN
from foregate.console.waiting import WIDE
from foregate.schemas.event import NeedAnswered
from foregate.schemas.tool_spec import Declaration, hash_definition
from foregate.testing import calls
from foregate.views.terminal.approval_rows import format_about, format_asked
from tests.console.conftest import EDIT, POLICY, Serve, Served, ask, ask_to_name, play


def read_sheet(page: str) -> list[str]:
    """Return the rows of the sheet on a page."""
    inside = page.partition('<pre class="sheet wide"')[2].partition(">")[2].partition("</pre>")[0]
    return unescape(re.sub("<[^>]*>", "", inside)).splitlines()


def read_problem(page: str) -> str:
    """Return the sentence that says why something is not possible."""
    return unescape(page.partition('<p class="problem"')[2].partition(">")[2].partition("</p>")[0])


async def list_answers(served: Served, name: str) -> list[NeedAnswered]:
    """Return the answers in a session's log."""
    events = await served.console.log.read(name)
    return [event.body for event in events if isinstance(event.body, NeedAnswered)]


async def test_the_sheet_has_the_rows_of_the_terminal(serve: Serve, home: Path) -> None:
    await ask()
    served = await serve()
    (question,) = await served.console.approvals.list()
    page = (await served.browser.get(await served.find_question())).text
    about = await served.console.approvals.describe(question)
    previews = served.console.approvals.read_previews(question)
    rows = [*format_about(about, WIDE), *format_asked(question.need, previews, WIDE)]
    assert read_sheet(page) == [row.plain for row in rows if row.plain]
    assert '<span class="good">' in page


async def test_a_yes_is_recorded_with_who_said_it_and_nothing_has_run_yet(
    serve: Serve, home: Path, folder: Path
) -> None:
    name = await ask()
    served = await serve()
    answer = await served.send(await served.find_question(), answer="yes")
    assert (answer.status_code, f"foregate resume {name}" in answer.text) == (200, True)
    (recorded,) = await list_answers(served, name)
    assert (recorded.answer.choice, recorded.by) == ("yes", find_identity("console"))
    assert (folder / "a.txt").read_text() == "teh cat\n"
    assert "Nothing waits for an answer" in (await served.browser.get("/waiting")).text


async def test_a_no_keeps_its_reason(serve: Serve, home: Path) -> None:
    name = await ask()
    served = await serve()
    assert (await served.send(await served.find_question(), answer="no", text="not on a Friday")).status_code == 200
    (recorded,) = await list_answers(served, name)
    assert (recorded.answer.choice, recorded.answer.words) == ("no", "not on a Friday")


async def test_the_first_answer_counts_and_the_second_is_told_which_it_was(serve: Serve, home: Path) -> None:
    name = await ask()
    served = await serve()
    path = await served.find_question()
    with foregate.Approvals() as approvals:  # somebody at a terminal meanwhile
        await approvals.answer(name, foregate.Reply("no", by="ann"))
    answer = await served.send(path, answer="yes")
    assert (answer.status_code, "was answered already: no, by ann" in answer.text) == (404, True)
    assert [one.answer.choice for one in await list_answers(served, name)] == ["no"]


async def test_each_call_is_answered_by_its_own_choice_and_none_is_left_out(
    serve: Serve, home: Path, folder: Path
) -> None:
    (folder / "b.txt").write_text("teh dog\n")
    name = await ask(EDIT, ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"}))
    served = await serve()
    path = await served.find_question()
    answer = await served.send(path, answer="each", **{"call.1": "yes"})
    assert (answer.status_code, "not every call has an answer" in read_problem(answer.text)) == (409, True)
    assert re.search(r'name="call.1" value="yes" checked', answer.text)
    answer = await served.send(path, answer="each", text="leave b.txt", **{"call.1": "yes", "call.2": "no"})
    assert answer.status_code == 200
    (recorded,) = await list_answers(served, name)
    assert sorted((recorded.answer.value or {})["calls"].values()) == ["no", "yes"]


async def test_a_button_for_all_counts_more_than_what_was_chosen_for_one(
    serve: Serve, home: Path, folder: Path
) -> None:
    (folder / "b.txt").write_text("teh dog\n")
    name = await ask(EDIT, ("edit_file", {"path": "b.txt", "old": "teh", "new": "the"}))
    served = await serve()
    assert (await served.send(await served.find_question(), answer="no", **{"call.1": "yes"})).status_code == 200
    (recorded,) = await list_answers(served, name)
    assert (recorded.answer.choice, "calls" in (recorded.answer.value or {})) == ("no", False)


async def test_what_only_a_letter_named_is_typed_before_a_yes_counts(serve: Serve, home: Path) -> None:
    name = await ask_to_name(home)
    served = await serve()
    path = await served.find_question()
    page = (await served.browser.get(path)).text
    (field,) = re.findall(r'name="(named\.\d+)"', page)
    assert "Type the value of `to` to allow it" in unescape(page)
    refused = await served.send(path, answer="yes")
    assert (refused.status_code, "a yes alone does not release" in read_problem(refused.text)) == (409, True)
    refused = await served.send(path, answer="yes", **{field: "bob@example.org"})
    assert (refused.status_code, "is no value that this question wants named" in refused.text) == (409, True)
    assert 'value="bob@example.org"' in refused.text
    assert (await served.send(path, answer="yes", **{field: FOREIGN})).status_code == 200
    assert len(await list_answers(served, name)) == 1


async def test_a_field_that_others_cannot_write_is_ticked_and_holds_for_later_sessions(
    serve: Serve, home: Path
) -> None:
    @foregate.tool
    def orders() -> str:
        return '[{"id": "o-1701", "item": "blue bike\u202e"}, {"id": "o-1702", "item": "red lamp"}]'

    @foregate.tool(effect="send", external=True, reversible=False, targets={"order_id": "other"})
    def refund(order_id: str) -> str:
        return "refunded"

    policy = home.with_name("only_mandate.yaml")
    policy.write_text(POLICY.replace("rules: {list: [{id: ask, then: ask, tool: '*'}]}\n", ""))
    Home.open().open_declarations().keep(
        {"orders": Declaration("reads", hash_definition(orders.spec))}, {"orders": orders.spec}
    )
    steps = calls(("orders", {})), calls(("refund", {"order_id": "o-1701"}))
    await play("Look at the orders, refund the blue bike.", *steps, tools=[orders, refund], policy=policy)
    served = await serve()
    path = await served.find_question()
    page = (await served.browser.get(path)).text
    boxes = dict(re.findall(r'name="(own\.\d+)" value="yes"> <code>([^<]*)</code> of orders', page))
    assert list(boxes.values()) == ["id", "item"]
    assert "\u202e" not in page
    answer = await served.send(path, answer="no", **{next(iter(boxes)): "yes", "own.9": "yes"})
    assert answer.status_code == 200
    (kept,) = Home.open().open_declarations().list().values()
    assert (kept.nature, kept.own, kept.by) == ("reads", ("id",), find_identity("console").user)


async def test_an_answer_that_none_of_the_buttons_gives_decides_nothing(serve: Serve, home: Path) -> None:
    name = await ask()
    served = await serve()
    path = await served.find_question()
    for word, sentence in (
        ("", "nothing was chosen"),
        ("perhaps", "is no answer here"),
        ("project", "beyond this session"),
        ("<script>", "is no answer here"),
    ):
        answer = await served.send(path, answer=word)
        assert (answer.status_code, sentence in read_problem(answer.text)) == (409, True), word
        assert "<script>" not in answer.text
    assert await list_answers(served, name) == []


async def test_a_question_that_is_not_there_is_one_sentence(serve: Serve, home: Path) -> None:
    name = await ask()
    served = await serve()
    for path, sentence in ((f"/waiting/{name}/1", "asks no person anything"), ("/waiting/nobody/3", "there is no")):
        answer = await served.browser.get(path)
        assert (answer.status_code, sentence in read_problem(answer.text)) == (404, True)


async def test_nothing_an_attacker_writes_comes_alive_or_hides_on_the_sheet(serve: Serve, home: Path) -> None:
    forged = '</pre><script src="/x.js"></script><img src=x onerror=alert(1)>\x1b[2K\u202e'
    await ask(("edit_file", {"path": "a.txt", "old": "teh", "new": forged}), task=forged)
    served = await serve()
    for path in ("/waiting", await served.find_question()):
        page = (await served.browser.get(path)).text
        assert ("\\u{202E}" in page) == (path != "/waiting")
        assert [page.count(sign) for sign in ('<script src="/x', "<img", "\x1b", "\u202e")] == [0, 0, 0, 0]
