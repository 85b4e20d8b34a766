"""Every page of the console in a browser: readable by everybody in both themes and widths, and nothing in it alive."""

from __future__ import annotations

from tests.browser.conftest import Browser, ServedConsole

PAGES = (
    *("/sessions", "/decisions?passed=1", "/waiting", "/review", "/statistics", "/policy?text=evidence", "/nothing"),
    *("/policy/tune", "/policy/tune?key=narration.min_chars&value=2000"),
)
FOLLOWED = {"/sessions": "a.what", "/decisions": "a.what", "/waiting": "a.what"}
"""Lists whose first row leads to a page of another kind."""


def list_pages(browser: Browser, console: ServedConsole) -> list[str]:
    """Return the addresses of one page of each kind, of the session that is blocked and the question that waits."""
    found = [f"{console.url}{path}" for path in PAGES]
    for path, selector in FOLLOWED.items():
        browser.open(f"{console.url}{path}")
        found.append(browser.find_all(selector)[-1].get_attribute("href"))
    return [*found, f"{console.url}/review/items?session={console.names['blocked']}"]


def test_axe_finds_nothing_on_any_page_light_or_dark_and_none_is_wider_than_a_telephone(
    browser: Browser, console: ServedConsole
) -> None:
    browser.enter(console)
    for address in list_pages(browser, console):
        browser.set_theme("light")
        browser.set_size(1280)
        browser.open(address)
        for theme in ("light", "dark"):
            browser.set_theme(theme)
            browser.set_size(1280)
            assert browser.check_accessible(colours_only=theme == "dark") == [], (address, theme)
            browser.set_size(360)
            assert browser.find_overflow() == 0, (address, theme)
    assert [line for line in browser.read_log() if "404" not in line] == []


def test_nothing_of_a_hostile_session_is_alive(browser: Browser, console: ServedConsole) -> None:
    browser.enter(console)
    browser.driver.execute_script("globalThis.alive = 1")
    address = browser.find_with_text("a.what", "Look at").get_attribute("href")
    pages = [address, f"{console.url}/decisions?passed=1&tool=look", f"{address}?verify=1"]
    for page in pages:
        browser.open(page)
        assert browser.driver.title != "owned", page
        assert browser.find_all("main img, iframe, object, embed, main form[action^=http], main script") == [], page
        text = browser.driver.execute_script("return document.querySelector('main').textContent")
        assert not {"\u202e", "\u2066", "\x1b", "\x07", "\u200b"} & set(text), page
        assert len(text) < 400_000, page
    browser.open(address)
    assert "onerror=" in browser.read("main"), "it is shown, as text"
    assert browser.read_log() == []


def test_every_list_is_walked_by_keys_and_the_keys_are_listed(browser: Browser, console: ServedConsole) -> None:
    browser.enter(console)
    for key in "jjjk":
        browser.press(key)
    rows = browser.find_all(".entry")
    assert browser.driver.switch_to.active_element == rows[1]
    browser.press("?")
    assert "next, previous" in browser.read("dialog#help")
    browser.press("?")
    for heading in ("Decisions", "Waiting", "Review", "Policy", "Sessions"):
        browser.press(f"g{heading[0].lower()}")
        browser.wait_for("main h1", heading)


def test_without_script_a_question_is_found_and_its_buttons_are_there(scriptless: Browser) -> None:
    scriptless.find("a.verdict.ask").click()
    assert scriptless.wait_for("button[value=yes]").is_displayed()
