"""Reviews as requests: queues, labels, what was taken back, sign-offs, and what is refused."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import foregate
from foregate.assembly.identity import find_identity
from foregate.schemas.identity import Identity
from foregate.telemetry.queries.reviews import GivenLabel
from foregate.testing import ScriptedModel, calls, says
from foregate.tuning.sign_offs import label_decision
from tests.console.conftest import Serve, Served, talk
from tests.console.test_lists import be_denied, list_links, open_page
from tests.console.test_waiting import read_problem

NOW = "2026-11-24T10:00:00.000000Z"


@foregate.tool(read_only=True)
def look(page: int) -> str:
    """Return a page."""
    return f"This is page {page}."


async def look_at(*pages: int) -> str:
    """Have a session in which the model looks at pages; return its name."""
    steps = calls(*(("look", {"page": page}) for page in pages), text="I look at the pages."), says("They are pages.")
    async with foregate.Agent(model=ScriptedModel(steps), tools=[look], policy=foregate.default_policy()) as agent:
        await agent.run("Look at the pages.")
        return agent.session


async def list_given(served: Served) -> list[GivenLabel]:
    """Return the labels that stand."""
    reviews = await served.console.kept.read()
    return [label for labels in reviews.list_standing() for label in labels]


def read_fields(page: str) -> dict[str, str]:
    """Return the hidden fields of the form that labels."""
    form = page.partition('class="say"')[2].partition("</form>")[0]
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


async def test_a_queue_is_drawn_by_a_form_and_labelled_one_after_the_other(serve: Serve, home: Path) -> None:
    await look_at(1, 2, 3)
    served = await serve()
    assert "No queue was drawn yet" in await open_page(served, "/review")
    drawn = await served.send("/review", way="random", size="2", name="first", gate="", standing="")
    assert (drawn.status_code, drawn.headers["location"]) == (303, "/review/items?queue=first")
    where = drawn.headers["location"]
    for place, label in ((1, "too strict"), (2, "right")):
        page = await open_page(served, where)
        assert f"<h1>{place} of 2</h1>" in page
        assert "Look at the pages." in page
        sent = await served.send(where, **read_fields(page), label=label, comment="said here")
        where = sent.headers["location"]
    assert "All 2 are labelled" in await open_page(served, where)
    assert {(one.body.label, one.body.comment, one.body.queue) for one in await list_given(served)} == {
        ("too strict", "said here", "first"),
        ("right", "said here", "first"),
    }
    page = await open_page(served, "/review")
    assert list_links(page) == ["/review/items?queue=first"]
    assert "2 of 2" in page


async def test_the_last_label_is_taken_back_once(serve: Serve, home: Path) -> None:
    name = await look_at(1, 2)
    served = await serve()
    where = f"/review/items?session={name}"
    await served.send(where, **read_fields(await open_page(served, where)), label="unclear")
    page = await open_page(served, where)
    (undo,) = re.findall(r'name="undo" value="(\d+)"', page)
    back = await served.send(where, undo=undo)
    assert back.headers["location"] == f"{where}&place=1"
    assert await list_given(served) == []
    again = await served.send(where, undo=undo)
    assert (again.status_code, "nothing was written" in read_problem(again.text)) == (404, True)


async def test_what_is_no_label_of_what_was_shown_writes_nothing(serve: Serve, home: Path) -> None:
    name = await look_at(1, 2)
    served = await serve()
    where = f"/review/items?session={name}"
    fields = read_fields(await open_page(served, where))
    for more, status, sentence in (
        ({"label": ""}, 404, "no label was chosen"),
        ({"label": "wrong"}, 404, "no label was chosen"),
        ({"label": "right", "event": "0" * 64}, 409, "another decision than you were shown"),
        ({"label": "right", "place": "7"}, 404, "`7` is none of them"),
        ({"label": "right", "place": "-1"}, 404, "`-1` is none of them"),
    ):
        answer = await served.send(where, **{**fields, **more})
        assert (answer.status_code, sentence in read_problem(answer.text)) == (status, True), more
    for path, sentence in (
        ("/review/items", "say which queue or session"),
        ("/review/items?queue=none", "there is no queue `none`"),
        (f"{where}&place=9", "`9` is none of them"),
    ):
        assert sentence in read_problem((await served.browser.get(path)).text), path
    forged = await served.browser.post(where, data={**fields, "label": "right", "word": "x"}, headers=served.origin)
    assert forged.status_code == 403
    refused = await served.send("/review", way="random", size="", name="")
    assert "say how many" in read_problem(refused.text)
    assert await list_given(served) == []
    assert not (home / "reviews").exists()


async def test_a_decision_is_labelled_on_its_own_page_by_who_runs_the_console(serve: Serve, home: Path) -> None:
    await be_denied()
    served = await serve()
    (link,) = list_links(await open_page(served, "/decisions?standing=deny"))
    page = await open_page(served, link)
    (action,) = re.findall(r'action="(/label[^"]*)"', page)
    sent = await served.send(action, **read_fields(page), label="right", comment="<b>rightly</b>")
    assert (sent.status_code, sent.headers["location"].partition("#")[0]) == (303, link)
    (given,) = await list_given(served)
    body = given.body
    assert (body.label, body.by, body.ruled.gate) == ("right", find_identity("console"), "approval")
    source = (await served.browser.get(link)).text
    assert "&lt;b&gt;rightly" in source
    figures = await open_page(served, "/statistics")
    assert re.search(r'<th scope="row">approval</th><td class="n" data-label="right">1</td>.*0 of 1, 0 %', figures)
    stale = await served.send(action, label="too lax", event="0" * 64)
    assert (stale.status_code, "not what you were shown" in read_problem(stale.text)) == (409, True)


async def test_who_is_to_label_blind_is_not_shown_what_others_said(serve: Serve, home: Path) -> None:
    name = await look_at(1)
    served = await serve()
    await served.send("/review", way="random", size="1", name="blind", blind="1")
    console = served.console
    ruled = (await console.kept.read()).queues["blind"].items[0]
    ann = Identity("ann", "elsewhere", "terminal")
    await label_decision(console.log, console.kept, ruled.address, "too lax", by=ann, now=NOW, comment="a secret")
    decision = f"/sessions/{name}/decisions/{ruled.seq}.{ruled.gate}?call={ruled.call}"
    pages = "/review/items?queue=blind", f"/review/items?session={name}", decision
    for path in pages:
        assert "a secret" not in await open_page(served, path), path
    page = await open_page(served, pages[0])
    await served.send(pages[0], **read_fields(page), label="right")
    assert "a secret" in await open_page(served, decision)


async def test_a_session_is_signed_off_once_it_verifies_and_void_once_it_has_grown(serve: Serve, home: Path) -> None:
    name = await talk()
    served = await serve()
    signed = await served.send(f"/sign?session={name}", comment="checked")
    assert (signed.status_code, signed.headers["location"]) == (303, f"/sessions/{name}")
    page = await open_page(served, f"/sessions/{name}")
    assert re.search(r'class="done">Signed off by [^<]*: checked\.', page)
    refused = await served.send("/sign?session=nobody")
    assert "there is no session `nobody`" in read_problem(refused.text)


async def test_nothing_that_a_label_says_comes_alive(serve: Serve, home: Path) -> None:
    name = await look_at(1)
    served = await serve()
    where = f"/review/items?session={name}"
    forged = "</q><script src=/x.js></script>\u202e\x1b[2K"
    await served.send(where, **read_fields(await open_page(served, where)), label="right", comment=forged)
    source = (await served.browser.get(f"{where}&place=1")).text
    assert "&lt;script src=/x.js" in source
    assert [source.count(sign) for sign in ("<script src=/x", "\x1b", "\u202e")] == [0, 0, 0]
    assert "\\u{202E}" in unescape(source)
