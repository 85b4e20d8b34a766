"""An exported session in a browser: it verifies itself, finds what was changed in it, and nothing in it is alive."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foregate.views.pages.export import export_page
from tests.corpus.archive import read_sessions
from tests.corpus.log import Log
from tests.views.pages.hostile import HostileLog

ASKED = "sandbox-turn.a-person-is-asked-about-a-deletion-they-did-not"
NO_CRYPTO = "Object.defineProperty(globalThis, 'crypto', {value: undefined})"
LISTENED = "return performance.getEntriesByType('resource').map((one) => one.name)"
ALIVE = """return [...document.querySelectorAll("*")].flatMap((one) => [...one.attributes]).map((one) => one.name)
    .filter((name) => name.startsWith("on") || name === "style")"""
Open = Callable[[str], str]


@pytest.fixture(scope="module")
def exported() -> str:
    log = Log(read_sessions()[ASKED])
    return export_page(log, log.sessions[0], log.blobs).text


@pytest.fixture
def open_file(browser: Any, tmp_path: Path) -> Open:
    """Open a page from disk, and return what it says of itself once it has looked."""

    def open_page(text: str) -> str:
        file = tmp_path / "session.html"
        file.write_text(text, "utf-8")
        browser.open(file.as_uri())
        browser.wait(lambda: browser.find_all("#here.allow, #here.deny"))
        return str(browser.read("#verdict"))

    return open_page


def test_a_file_from_disk_says_that_its_chain_holds_and_up_to_which_head(
    browser: Any, open_file: Open, exported: str
) -> None:
    log = Log(read_sessions()[ASKED])
    count, head = log.head_anchor(log.sessions[0])
    assert open_file(exported) == f"chain holds: {count} events, head {count}:{head}"
    assert "all the same" in browser.read("#findings")
    assert "WebCrypto" in browser.read("#findings")
    assert browser.read_log() == []


def test_without_webcrypto_the_script_of_the_file_computes_the_same_hashes(
    browser: Any, open_file: Open, exported: str
) -> None:
    about = browser.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": NO_CRYPTO})
    try:
        assert open_file(exported).startswith("chain holds")
        assert "the script of this file" in browser.read("#findings")
    finally:
        browser.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", about)


def edit_event(text: str, seq: int, change: Callable[[list[Any]], None]) -> str:
    """Return a file in which the row of one event is another."""

    def edit(block: re.Match[str]) -> str:
        rows = json.loads(block[2])
        for row in [one for one in rows if one[0] == seq]:
            change(row)
        return block[1] + json.dumps(rows).replace("<", "\\u003c") + block[3]

    return re.sub(r'(class="events">)(.*?)(</script>)', edit, text, flags=re.DOTALL)


def test_a_changed_word_is_found_at_its_event(open_file: Open, exported: str) -> None:
    def change(row: list[Any]) -> None:
        row[1] = row[1].replace("make a new start", "make a new stert")

    assert open_file(edit_event(exported, 3, change)) == (
        "the chain breaks at event 3: its hash does not fit what it says"
    )


def test_a_changed_hash_and_a_left_out_event_are_found(open_file: Open, exported: str) -> None:
    def masked(row: list[Any]) -> None:
        row[2], row[3] = "0" * 64, "masked"

    def renumber(row: list[Any]) -> None:
        row[0] = 99

    assert open_file(edit_event(exported, 4, masked)).startswith("the chain breaks at event 5: it does not go on")
    assert open_file(edit_event(exported, 4, renumber)).startswith("the chain breaks at event 4: it is missing")


def test_a_page_that_shows_something_else_than_its_events_say_is_found(
    browser: Any, open_file: Open, exported: str
) -> None:
    shown = exported.replace('<span class="tx">make a new start</span>', '<span class="tx">make no start</span>')
    assert open_file(shown).endswith("but the page shows something else than its events say")
    assert "what the page shows of event 3 is not what it says" in browser.read("#findings")


def test_a_message_taken_off_the_page_is_missed(browser: Any, open_file: Open, exported: str) -> None:
    assert (
        "the page does not show event 3"
        in (open_file(exported.replace('id="e3"', 'id="x3"')), browser.read("#findings"))[1]
    )


def test_a_head_kept_elsewhere_is_compared(browser: Any, open_file: Open, exported: str) -> None:
    open_file(exported)
    log = Log(read_sessions()[ASKED])
    rows = {seq: hash_ for seq, _, hash_ in log.lines(log.sessions[0])}
    for head, says in (
        (f"5:{rows[5]}", "event 5 is the one that was kept"),
        (f"6:{rows[5]}", "event 6 is not the one that was kept: the log was written anew"),
        (f"99:{rows[5]}", f"events are missing here: the chain ends at {len(rows)}"),
        ("what", "that is no head; write it as foregate audit verify prints it"),
    ):
        field = browser.find("#check input")
        field.clear()
        field.send_keys(f"{head}\n")
        assert browser.read("#compared") == says


@pytest.mark.parametrize("name", ["demo", ASKED])
def test_nothing_of_a_session_of_attacks_is_alive(browser: Any, open_file: Open, name: str) -> None:
    log = HostileLog(name, 100_000)
    browser.driver.execute_script("delete globalThis.owned")
    verdict = open_file(export_page(log, log.session, log.blobs).text)
    driver = browser.driver
    assert verdict.startswith("chain holds"), browser.read("#findings")
    assert "all the same" in browser.read("#findings")
    assert driver.execute_script("return typeof globalThis.owned") == "undefined"
    assert driver.execute_script(LISTENED) == []
    assert browser.find_all("img, iframe, object, embed, base, form[action], meta[http-equiv=refresh], marquee") == []
    assert driver.execute_script(ALIVE) == []
    assert browser.read_log() == []
    assert browser.find("#main").is_displayed()


def test_keys_walk_from_call_to_call_and_light_up_both_sides(browser: Any, open_file: Open, exported: str) -> None:
    open_file(exported)
    browser.press("j")
    browser.press("j")
    held = browser.driver.execute_script("return document.activeElement.className")
    assert held.startswith("pair")
    browser.press("k")
    assert browser.driver.execute_script("return document.activeElement.className").startswith("row saying")
    browser.press("?")
    assert browser.driver.execute_script("return document.getElementById('help').open")


def test_a_call_and_its_rulings_light_up_together_without_script(browser: Any, open_file: Open, exported: str) -> None:
    open_file(exported)
    browser.driver.execute_script("location.hash = 'jc4.1'")
    colours = browser.driver.execute_script(
        "const [one] = document.querySelectorAll('.pair');"
        "return ['.left', '.right'].map((side) => getComputedStyle(one.querySelector(side)).boxShadow)"
    )
    assert colours[0] == colours[1] != "none"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_wrong_with_an_exported_file(
    browser: Any, open_file: Open, exported: str, theme: str
) -> None:
    browser.set_theme(theme)
    open_file(exported)
    assert browser.check_accessible() == []
