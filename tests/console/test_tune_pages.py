"""The pages of tuning: which keys have a dial, what it says, the labels beside it, and the change as a file."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import foregate
from foregate.assembly.home import Home
from foregate.cli.app import main
from foregate.console import console, tune_pages
from foregate.console.console import TuningWorker
from foregate.console.form import FormRefused
from foregate.policy.source.edit import read_suggestion
from foregate.policy.source.load import load_policy
from foregate.testing import ScriptedModel, calls, says
from tests.console.conftest import EDIT, POLICY, Serve, Served
from tests.console.test_lists import open_page
from tests.console.test_waiting import read_problem
from tests.forever import FOREVER

KEY = "narration.min_chars"
DIAL = f"/policy/tune?key={KEY}"


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is there once what it shows is, however long that takes."""
    monkeypatch.setattr(console, "PATIENCE", FOREVER)


async def be_silent(home: Path, *wanted: tuple[str, dict[str, Any]]) -> str:
    """Have a session whose model acts without a word, so that its call is held; return its name."""
    steps = [calls(*(wanted or (EDIT,)), text=""), says("I stop here.")]
    policy = home.with_name("only_narration.yaml")
    rules = "rules: {list: [{id: ask, then: ask, tool: '*'}]}\n"
    policy.write_text(POLICY.replace(rules, "narration: {scope: first_side_effect}\n"))
    async with foregate.Agent(model=ScriptedModel(steps), person=foregate.AbsentPerson(), policy=policy) as agent:
        await agent.run("fix teh in a.txt")
        return agent.session


def read_points(page: str) -> Any:
    return json.loads(page.partition('id="points">')[2].partition("</script>")[0])


def read_figures(page: str) -> dict[str, list[str]]:
    """Return the rows of the table: what is counted, and the three figures."""
    body = page.partition('id="figures">')[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr[^>]*>(.*?)</tr>", body, re.DOTALL)
    cells = ([unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows)
    return {name: figures for name, *figures in cells}


def read_form_beside(page: str) -> tuple[str, dict[str, str]]:
    """Return where the label of the first call on a page is sent to, and what with it."""
    form = page.partition('class="say"')[2].partition("</form>")[0]
    action = form.partition('action="')[2].partition('"')[0]
    return unescape(action), dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


async def test_every_key_that_can_be_swept_leads_to_its_dial(serve: Serve, home: Path) -> None:
    await be_silent(home)
    served = await serve()
    assert '<a href="/policy/tune">tune it</a>' in await open_page(served, "/policy")
    page = await open_page(served, "/policy/tune")
    assert f'href="{DIAL}"' in page
    assert "Characters that count as having said something." in page
    assert "plan.mode" not in page


async def test_a_dial_says_what_a_value_turns_and_takes_labels_beside_it(serve: Serve, home: Path) -> None:
    session = await be_silent(home)
    served = await serve()
    page = await open_page(served, f"{DIAL}&value=0")
    figures = read_figures(page)
    assert figures["calls held or denied"] == ["1", "0", "−1"]  # noqa: RUF001
    assert figures["narration: held or denied"] == figures["calls held or denied"]
    assert "labels that are met" not in "".join(figures)
    points = read_points(page)
    assert (points["now"], [one[0] for one in points["points"]]) == (20, [0, 1])
    assert "1 call turns between 20 and 0" in page
    assert "<b>would not be held" in page
    assert f"/sessions/{session}/decisions/" in page
    action, fields = read_form_beside(page)
    sent = await served.send(action, **fields, label="too strict")
    assert (sent.status_code, sent.headers["location"]) == (303, f"{DIAL}&value=0#turned")
    assert read_figures(await open_page(served, f"{DIAL}&value=0"))["labels that are met, of 1"] == ["0", "1", "+1"]
    strange = await served.browser.post(action, data={**fields, "word": "x", "label": "right"}, headers=served.origin)
    assert strange.status_code == 403


async def test_all_calls_that_turn_are_named_and_paged_through_and_the_value_stays(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await be_silent(home, *[("write_file", {"content": "", "path": f"the{n}"}) for n in range(5)])
    served = await serve()
    monkeypatch.setattr(tune_pages, "PAGE", 2)
    address, shown, links = f"{DIAL}&value=0", list[str](), dict[str, str]()
    for part in ("1 to 2", "3 to 4", "5 to 5"):
        page = await open_page(served, address)
        assert f"5 calls turn between 20 and 0; here stand {part}, newest first" in page
        turned, _, pager = page.partition('id="turned"')[2].partition('class="pager"')
        shown += re.findall(r">write_file (the\d)</a>", turned)
        action, fields = read_form_beside(turned)
        sent = await served.send(action, **fields, label="right")
        assert sent.headers["location"] == f"{address.removesuffix('#turned')}#turned"
        links = {rel: unescape(link) for rel, link in re.findall(r'rel="(\w+)" href="([^"]*)"', pager)}
        address = links.get("next", address)
    assert sorted(shown) == [f"the{n}" for n in range(5)]
    assert links == {"prev": f"{DIAL}&value=0&from=2#turned"}
    assert "1 to 2" in await open_page(served, f"{DIAL}&value=0&from=999")


async def test_the_change_is_a_file_that_a_policy_is_made_of(serve: Serve, home: Path, tmp_path: Path) -> None:
    await be_silent(home)
    served = await serve()
    sent = await served.browser.get("/policy/tune/change.yaml", params={"key": KEY, "value": "0"})
    assert sent.headers["content-disposition"] == f'attachment; filename="{KEY}-0.yaml"'
    file = tmp_path / "change.yaml"
    file.write_bytes(sent.content)
    assert load_policy(file).narration.min_chars == 0
    found = read_suggestion(file)
    assert [(one.path, one.value) for one in found.changes] == [(("narration", "min_chars"), 0)]
    mine = tmp_path / "mine.yaml"
    mine.write_text("# mine\nnarration: {scope: risky}\n")
    apply = ["policy", "apply", str(file), "--policy", str(mine), "--yes"]
    assert await asyncio.to_thread(main, apply) == 0
    applied = load_policy(mine).narration
    assert (applied.min_chars, applied.scope) == (0, "risky")
    (words,) = found.words
    assert "from 20 to 0. Over 1 recorded turns" in words
    assert "1 -> 0 calls held or denied" in words


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("/policy/tune?key=plan.mode", "is no number"),
        ("/policy/tune?key=nothing", "is unknown"),
        (f"{DIAL}&value=many", "is no number here"),
        (f"/policy/tune/change.yaml?key={KEY}", "say which value"),
        ("/policy/tune/change.yaml?key=uncertainty.threshold&value=1001", "from 0 to 1000"),
    ],
)
async def test_what_has_no_dial_is_told_in_a_sentence(serve: Serve, home: Path, address: str, sentence: str) -> None:
    await be_silent(home)
    served = await serve()
    answer = await served.browser.get(address)
    assert answer.status_code == 404
    assert sentence in read_problem(answer.text)


async def test_a_value_beyond_the_key_is_the_nearest_it_takes(serve: Serve, home: Path) -> None:
    await be_silent(home)
    served = await serve()
    assert 'id="at" for="range number">1000<' in await open_page(
        served, "/policy/tune?key=uncertainty.threshold&value=99999"
    )


async def test_what_a_model_wrote_is_text_on_the_page_of_a_dial(serve: Serve, home: Path) -> None:
    await be_silent(home, ("write_file", {"path": "</script><b>\u202e\x1b", "content": "<i>"}))
    page = (await (await serve()).browser.get(f"{DIAL}&value=0")).text
    assert not any(written in page for written in ("</script><b>", "<i>"))
    assert "&lt;/script&gt;" in page.partition("data-open")[2].partition("</a>")[0]
    assert not {"\u202e", "\x1b"} & set(page)


async def test_a_console_that_only_looks_shows_a_dial_and_takes_no_label(serve: Serve, home: Path) -> None:
    await be_silent(home)
    served: Served = await serve(read_only=True)
    page = await open_page(served, f"{DIAL}&value=0")
    assert "1 call turns" in page
    assert "/label?" not in page


async def test_without_the_extra_a_sentence_says_how_to_install_it(
    serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await be_silent(home)
    served = await serve()
    monkeypatch.setattr("foregate.tuning.cube.find_spec", lambda name: None)
    answer = await served.browser.get(DIAL)
    assert "pip install 'foregate[tuning]'" in read_problem(answer.text)


async def test_who_asks_early_is_told_how_far_it_is(serve: Serve, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await be_silent(home)
    served, go = await serve(), threading.Event()
    monkeypatch.setattr(console, "PATIENCE", 0)
    try:
        assert await served.console.tuning.ask(KEY, f"{KEY} None", lambda view: go.wait()) is None
        page = await open_page(served, DIAL)
        monkeypatch.setattr(console, "PATIENCE", 60)
        asked = asyncio.create_task(served.console.tuning.ask(KEY, f"{KEY} None", lambda view: False))
        await asyncio.sleep(0)
    finally:
        go.set()
    assert "Foregate judges the recorded turns" in page
    assert '<meta http-equiv="refresh"' in page
    assert await asked is True, "it is the answer to the question that was under way"
    assert await served.console.tuning.ask(KEY, "next", lambda view: view.judged) == 0


async def test_more_questions_than_can_be_under_way_are_refused_and_closing_ends_them(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await be_silent(home)
    log, go = Home(home).open_log(), threading.Event()
    worker = TuningWorker(log)
    monkeypatch.setattr(console, "PATIENCE", 0)
    try:
        for number in range(8):
            assert await worker.ask(KEY, str(number), lambda view: go.wait()) is None
        with pytest.raises(FormRefused, match="other keys are being worked on"):
            await worker.ask(KEY, "one more", lambda view: None)
    finally:
        go.set()
        await asyncio.to_thread(worker.close)
        log.close()
