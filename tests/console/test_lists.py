"""Sessions, decisions, figures and the policy as pages: what is listed, what a filter leaves, what one leads to."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest

import foregate
from foregate.console.lists import build_session
from foregate.telemetry.queries.rows import SessionRow
from foregate.testing import ScriptedModel, calls, says
from foregate.views.terminal.audit_lists import SESSIONS
from tests.console.conftest import POLICY, Serve, Served, ask, talk
from tests.console.test_waiting import read_problem


async def open_page(served: Served, path: str) -> str:
    """Return a page that can be had, as a person reads its source."""
    answer = await served.browser.get(path)
    assert answer.status_code == 200, read_problem(answer.text)
    return unescape(answer.text)


def list_links(page: str) -> list[str]:
    """Return where the rows of a list lead."""
    return re.findall(r'class="what" data-open href="([^"]*)"', page)


@foregate.tool(effect="delete", high_impact=True, targets={"table": "other"})
def drop(table: str) -> str:
    """Drop a table."""
    return f"{table} is gone"


async def be_denied(table: str = "users") -> str:
    """Have a session in which a call is denied, since nobody can be asked; return its name."""
    steps = calls(("drop", {"table": table}), text="I will drop it."), says("All tidy.")
    async with foregate.Agent(model=ScriptedModel(steps), tools=[drop]) as one:
        await one.run(f"Drop the table {table}.")
        return one.session


async def test_sessions_stand_in_the_persons_words_the_newest_first_and_say_what_waits(
    serve: Serve, home: Path
) -> None:
    first, second = await talk("Say hello to Ann."), await ask()
    served = await serve()
    page = await open_page(served, "/sessions")
    assert list_links(page) == [f"/sessions/{second}", f"/sessions/{first}"]
    assert page.index("fix teh in a.txt") < page.index("Say hello to Ann.")
    assert f'href="{await served.find_question()}"' in page


async def test_a_filter_of_sessions_is_a_form_whose_answer_can_be_linked(serve: Serve, home: Path) -> None:
    talked, asked = await talk("Say hello to Ann."), await ask()
    served = await serve()
    for fields, wanted in (
        ("text=hello", [talked]),
        ("waiting=1", [asked]),
        ("state=completed", [talked]),
        ("since=2020-01-01&until=2020-12-31", []),
        ("since=2020-01-01", [asked, talked]),
    ):
        page = await open_page(served, f"/sessions?{fields}")
        assert list_links(page) == [f"/sessions/{name}" for name in wanted], fields
    assert 'value="2020-01-01"' in page


async def test_a_filter_that_means_nothing_is_one_sentence(serve: Serve, home: Path) -> None:
    await talk()
    served = await serve()
    for path, sentence in (
        ("/sessions?state=gone", "there is no state `gone`"),
        ("/sessions?since=yesterday", "`yesterday` is no day; write it as 2026-11-23"),
        (f"/sessions?text={'x' * 300}", "is longer than 200 characters"),
        ("/sessions?from=-3", "is no number here"),
        ("/decisions?gate=nobody", "there is no gate `nobody`"),
        ("/decisions?origin=me", "there is no origin `me`"),
        ("/decisions?risk=high", "`high` is no number"),
        ("/decisions?standing=<script>", "there is no standing `<script>`"),
        ("/decisions?after=99999", "begin at its first page"),
        (f"/sessions?{'a' * 2100}=1", "longer than 2000 characters"),
        ("/sessions/nobody", "there is no session `nobody`"),
        ("/policy?session=nobody", "there is no session `nobody`"),
    ):
        answer = await served.browser.get(path)
        assert (answer.status_code in (404, 414), sentence in read_problem(answer.text)) == (True, True), path
        assert "<script>" not in answer.text


async def test_a_long_list_goes_on_where_its_first_page_ended(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [await talk(f"Say {word}.") for word in ("one", "two", "three")]
    monkeypatch.setattr("foregate.console.lists.PAGE", 2)
    served = await serve()
    page = await open_page(served, "/sessions")
    assert list_links(page) == [f"/sessions/{name}" for name in (names[2], names[1])]
    (later,) = re.findall(r'rel="next" href="([^"]*)"', page)
    assert list_links(await open_page(served, later)) == [f"/sessions/{names[0]}"]


async def test_the_denied_call_of_all_sessions_is_found_and_leads_to_why(serve: Serve, home: Path) -> None:
    await talk()
    name = await be_denied()
    served = await serve()
    page = await open_page(served, "/decisions?standing=deny&tool=drop")
    (link,) = list_links(page)
    assert link.startswith(f"/sessions/{name}/decisions/")
    decision = await open_page(served, link)
    assert "approval" in decision
    assert "drop" in decision
    for more, fits in (
        ("text=nothing%20of%20the%20kind", False),
        ("target=users&origin=user&risk=500", True),
        ("target=nothing", False),
        ("origin=external", False),
        ("risk=1000", False),
        ("key=approval.mode", True),
        ("rule=ask", False),
        ("policy=zz", False),
        ("who=nobody-here", False),
        ("code=approval_required", True),
        ("approver=ann", False),
        (f"session={name}", True),
    ):
        found = list_links(await open_page(served, f"/decisions?standing=deny&{more}"))
        assert found == ([link] if fits else []), more


def test_a_call_is_counted_once_in_a_list_however_often_a_person_was_asked_about_it() -> None:
    row = SessionRow("s", 9, 1, "completed", "", "", "", "", allowed=2, asked_about=1, held=1)
    listed = build_session(row)
    assert listed.says == "2 let pass, 1 held; a person was asked about 1"
    assert [part.kind for part in listed.strip] == ["allow", "hold"]


async def test_a_beginning_of_a_name_leads_to_its_session(serve: Serve, home: Path) -> None:
    name = await talk()
    served = await serve()
    answer = await served.browser.get(f"/sessions/{name[:-2]}")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/sessions/{name}")
    assert "Hello." in await open_page(served, f"/sessions/{name}")
    assert f'data-follow="/events?session={name}&after=' in await open_page(served, f"/sessions/{name}")


async def test_the_figures_are_those_of_the_days_that_are_asked_for(serve: Serve, home: Path) -> None:
    await be_denied()
    await talk()
    served = await serve()
    page = await open_page(served, "/statistics")
    assert "<dt>sessions</dt><dd>2</dd>" in page
    assert "<dt>calls stopped</dt><dd>1</dd>" in page
    assert re.search(r'<th scope="row" class="short">approval</th>', page)
    assert "<dt>sessions</dt><dd>0</dd>" in await open_page(served, "/statistics?until=2020-01-01")


async def test_every_value_of_the_policy_says_where_it_comes_from(serve: Serve, home: Path, folder: Path) -> None:
    (folder / ".foregate.yaml").write_text("version: 1\nlimits: {turns: 7}\n")
    await talk()
    served = await serve(workspace=folder)
    page = await open_page(served, "/policy")
    rows = dict(re.findall(r"<code>([\w.]+)</code></th>(.*?)</tr>", page))
    assert "7</td>" in rows["limits.turns"]
    assert ".foregate.yaml" in rows["limits.turns"]
    assert "policy.yaml" in rows["critique.mode"]
    assert rows["limits.tool_calls"].endswith("<td>default</td>")
    own = await open_page(served, "/policy?own=1")
    assert "limits.tool_calls" not in own
    assert "limits.turns" in own


async def test_the_policy_of_a_session_is_the_one_it_recorded(serve: Serve, home: Path) -> None:
    name = await ask()
    home.with_name("policy.yaml").write_text(POLICY.replace("ask, tool", "deny, tool"))
    served = await serve()
    page = await open_page(served, f"/policy?session={name}&own=1")
    assert '"then": "ask"' in page
    assert "policy.yaml" in page


def test_a_page_says_of_a_row_what_its_columns_have_words_for() -> None:
    row = SessionRow("s", 9, 1, "completed", "", "", "/w", "gpt", by="ann")
    assert SESSIONS.describe_row(row) == ["/w", "gpt", "by ann"]
