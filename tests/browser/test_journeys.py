"""What people come to the console for, each as they do it: with keys and buttons, in a real browser."""

from __future__ import annotations

import asyncio
from contextlib import closing
from datetime import UTC, datetime, timedelta

from foregate.assembly.approvals import Approvals
from foregate.assembly.home import Home
from foregate.schemas.protocols import Reply
from foregate.telemetry.queries.review_log import ReviewLog
from tests.browser.conftest import Browser, ServedConsole, run_console
from tests.browser.sessions import ask_about_edit


def test_find_a_blocked_call_of_these_days_and_say_why(browser: Browser, console: ServedConsole) -> None:
    browser.enter(console)
    browser.press("gd")
    browser.wait_for("main h1", "Decisions")
    yesterday = f"{datetime.now(UTC) - timedelta(days=1):%m%d%Y}"
    browser.find("input[name=since]").send_keys(yesterday)
    browser.find("select[name=standing] option[value=deny]").click()
    browser.find("form.filters button").click()
    browser.wait(lambda: len(browser.find_all(".entry")) == 1)
    assert "standing=deny" in browser.driver.current_url
    browser.press("j")
    browser.press("\n")
    browser.wait_for("main h1", "approval denied drop users")
    why = browser.read("main")
    assert "nobody can be asked" in why
    assert "What would have changed it" in why
    browser.find("a.session").click()
    browser.wait_for("main h1", "Drop the table users.")


def test_answer_a_waiting_approval(browser: Browser, console: ServedConsole) -> None:
    name = console.names["answered"]
    browser.enter(console)
    browser.find(f'a.verdict.ask[href*="{name}"]').click()
    browser.wait_for("main h1", "needs your yes")
    assert "- teh cat" in browser.read(".sheet.wide")
    browser.find("textarea").send_keys("not on a Friday")
    browser.find("button[value=no]").click()
    browser.wait_for("main h1", "Answered")
    browser.find("main a").click()
    browser.wait_for("main", "not on a Friday")
    browser.press("gw")
    browser.wait_for("main h1", "Waiting")
    assert name not in browser.read("main")
    assert browser.read_log() == []


def test_a_page_shows_what_happens_while_it_is_open(browser: Browser, console: ServedConsole) -> None:
    browser.enter(console)
    browser.wait_for("#live", "live")
    before = len(browser.find_all(".entry"))
    browser.press("j")
    browser.press("j")
    held = browser.read(":focus")
    name = asyncio.run(ask_about_edit(console.root))
    browser.wait(lambda: len(browser.find_all(".entry")) == before + 1)
    assert browser.read(":focus") == held
    browser.open(f"{console.url}/sessions/{name}")
    browser.wait_for("#live", "live")
    home = Home(console.root / "home")
    with closing(home.open_log()) as log, Approvals(log, home.open_blobs()) as approvals:
        asyncio.run(approvals.answer(name, Reply("no", by="ann")))
    browser.wait_for("main", "ann")


def test_label_ten_decisions_by_keyboard(browser: Browser, console: ServedConsole) -> None:
    browser.enter(console)
    browser.open(f"{console.url}/sessions/{console.names['many']}")
    browser.find('.deeds a[href^="/review"]').click()
    for place, key in enumerate("rslurrrrrr", start=1):
        browser.wait_for("main h1", f"{place} of 10")
        if place == 3:
            browser.press("c")
            browser.press("nobody asked for this")
            browser.press("\ue00c")  # Escape leaves the field
        browser.press(key)
    browser.wait_for("main h1", "All 10 are labelled")
    browser.press("z")
    browser.wait_for("main h1", "10 of 10")
    browser.press("u")
    browser.wait_for("main h1", "All 10 are labelled")
    with ReviewLog(console.root / "home" / "reviews" / "reviews.db") as kept:
        reviews = asyncio.run(kept.read())
    standing = [labels[0].body for labels in reviews.list_standing()]
    given = sorted((int(body.ruled.call.partition(".")[2]), body.label, body.comment) for body in standing)
    assert [label for _, label, _ in given] == ["right", "too strict", "too lax", "unclear", *["right"] * 5, "unclear"]
    assert given[2][2] == "nobody asked for this"
    assert {body.by.via for body in standing} == {"console"}


def test_verify_a_session_export_it_and_open_the_file_from_disk(browser: Browser, console: ServedConsole) -> None:
    folder, name = console.root / "downloads", console.names["blocked"]
    about = {"behavior": "allow", "downloadPath": str(folder)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", about)
    browser.enter(console)
    browser.open(f"{console.url}/sessions/{name}")
    browser.find(".deeds a").click()
    browser.wait_for(".facts", "verified: ")
    head = browser.read(".facts code.hash")
    browser.find('.deeds a[href^="/export"]').click()
    file = folder / f"{name}.html"
    browser.wait(file.is_file)
    browser.open(file.as_uri())
    browser.wait_for("#verdict", f"head {head}")
    assert browser.read("#verdict").startswith("chain holds")


def test_turn_a_dial_by_keyboard_and_label_what_turns(browser: Browser, console: ServedConsole) -> None:
    browser.enter(console)
    browser.press("gp")
    browser.wait_for("main h1", "Policy")
    browser.find_with_text("main a", "tune it").click()
    browser.find_with_text("main a.what", "narration.min_chars").click()
    browser.wait(lambda: browser.find("#range").is_displayed())
    address = browser.driver.current_url
    browser.press("[")
    browser.wait_for("#turned h2", "2 calls turn between 20 and 4")
    assert "value=4" in browser.driver.current_url
    held = browser.find("#figures tr td:last-child").text
    assert held.endswith("2")
    with ReviewLog(console.root / "home" / "reviews" / "reviews.db") as kept:
        known = len(asyncio.run(kept.read()).given)
    browser.press("js")
    browser.wait(lambda: len(browser.find_all("#turned button[aria-pressed=true]")) == 1)
    assert browser.driver.switch_to.active_element == browser.find_all("#turned [data-item]")[1]
    browser.press("u")
    browser.wait(lambda: len(browser.find_all("#turned button[aria-pressed=true]")) == 2)
    browser.wait_for("#figures", "labels that are met, of ")
    with ReviewLog(console.root / "home" / "reviews" / "reviews.db") as kept:
        given = asyncio.run(kept.read()).given[known:]
    assert [one.body.label for one in given] == ["too strict", "unclear"]
    browser.press("0")
    browser.wait_for("#turned h2", "Move the dial")
    # what the script shows at a value is what the server says of it
    for value in (0, 3, 4, 5, 20, 400):
        browser.find("#number").clear()
        browser.find("#number").send_keys(str(value))
        browser.wait_for("#at", str(value))
        followed = browser.read("#figures")
        browser.open(f"{address}&value={value}")
        assert browser.read("#figures") == followed, value
    assert browser.read_log() == []


LATE = """
from runpy import run_module
from foregate.console.console import TuningWorker
early, ask = set(), TuningWorker.ask

async def ask_again(self, key, name, question):
    if name in early:
        return await ask(self, key, name, question)
    early.add(name)

TuningWorker.ask = ask_again
run_module("foregate", run_name="__main__")
"""
"""A console in which whatever a dial needs is still being worked out when it is asked for first."""


def test_a_dial_shows_what_turns_once_it_is_worked_out(browser: Browser, console: ServedConsole) -> None:
    with run_console(console.root / "home", console.names, program=("-c", LATE)) as late:
        browser.open(late.entrance)
        browser.open(f"{late.url}/policy/tune?key=narration.min_chars")
        browser.wait_for("#turned h2", "Move the dial")
        browser.press("[")
        browser.wait_for("#turned h2", "calls turn between 20 and 4")


def test_without_script_a_dial_is_set_and_what_turns_is_labelled_by_buttons(
    scriptless: Browser, console: ServedConsole
) -> None:
    scriptless.open(f"{console.url}/policy/tune?key=narration.min_chars")
    scriptless.wait_for("#turned h2", "Move the dial")
    assert not scriptless.find("#range").is_displayed(), "only a script moves it"
    scriptless.find("#number").clear()
    scriptless.find("#number").send_keys("0")
    scriptless.find("form.set button").click()
    scriptless.wait_for("#turned h2", "between 20 and 0")
    for word in ("too lax", "right"):  # the second takes the place of the first
        scriptless.find(f"#turned button[value='{word}']").click()
        scriptless.wait_for(f"#turned button[value='{word}'][aria-pressed=true]")
        assert scriptless.driver.current_url.endswith("value=0#turned")
    with ReviewLog(console.root / "home" / "reviews" / "reviews.db") as kept:
        first, second = asyncio.run(kept.read()).given[-2:]
    assert [(one.body.label, one.body.by.via) for one in (first, second)] == [
        ("too lax", "console"),
        ("right", "console"),
    ]
    assert first.body.ruled == second.body.ruled
