"""Fixtures: headless Chromium, a home with sessions in it, and the console of that home as its own process.

One browser and one console serve all tests of a file; a test that changes a home asks for one of its own.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
MISSING = "no Chromium here: `apt-get install chromium chromium-driver`" if not (CHROMIUM and DRIVER) else ""
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--force-device-scale-factor=1", "--window-size=1440,900"),
)
OTHERS = ("OPENAI_BASE_URL", "OPENAI_API_KEY", "FOREGATE_MODEL", "FOREGATE_POLICY", "FOREGATE_CONFIG", "FOREGATE_MCP")
"""Variables of who runs the tests."""
PATIENCE = 120
"""Seconds that a browser may take for what it is asked: on a busy machine axe needs more than half a minute."""


class ServedConsole(Struct):
    """A console that runs: its address, the one that lets a browser in, the folder its home is in, and its sessions."""

    url: str
    entrance: str
    root: Path
    names: dict[str, str]


@contextmanager
def run_console(
    home: Path, names: dict[str, str], *options: str, program: Sequence[str] = ("-m", "foregate")
) -> Iterator[ServedConsole]:
    """Run `foregate console`, or that of a `program`, over a home until the context ends, as a process of its own."""
    command = [sys.executable, "-P", *program, "console", "--port", "0", "--no-open", *options]
    environ = {name: value for name, value in os.environ.items() if name not in OTHERS}
    environ["FOREGATE_HOME"] = str(home)
    process = subprocess.Popen(command, env=environ, cwd=home.parent, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        entrance = process.stdout.readline().split()[-1]
        yield ServedConsole(entrance.partition("/enter")[0], entrance, home.parent, names)
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(PATIENCE)
        process.stdout.close()
    assert code == 0, "the console did not end as it should"


class Browser:
    """Chromium with a page in it; every question waits a little for what it asks about."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, url: str) -> None:
        """Open a page, and wait for what it shows where it looks again by itself."""
        self.driver.get(url)
        self.wait(lambda: not self.find_all("meta[http-equiv=refresh]"))

    def enter(self, console: ServedConsole) -> None:
        """Come in as a person does, by the address that was printed."""
        self.driver.get(console.entrance)
        self.wait_for("main h1")
        # a key that is pressed before the scripts have run is lost
        script = "return location.pathname !== '/enter' && document.readyState === 'complete'"
        self.wait(lambda: self.driver.execute_script(script))

    def press(self, keys: str) -> None:
        """Press keys, wherever the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(keys).perform()

    def find(self, selector: str) -> Any:
        """Return the first element of a CSS selector."""
        return self.driver.find_element("css selector", selector)

    def find_all(self, selector: str) -> list[Any]:
        """Return all elements of a CSS selector."""
        return list(self.driver.find_elements("css selector", selector))

    def find_with_text(self, selector: str, text: str) -> Any:
        """Return the first element of a CSS selector that holds a text."""
        return next(found for found in self.find_all(selector) if text in found.text)

    def find_overflow(self) -> int:
        """Return how many pixels the page is wider than the window."""
        script = "const e = document.documentElement; return e.scrollWidth - e.clientWidth"
        return int(self.driver.execute_script(script))

    def read(self, selector: str) -> str:
        """Return the text of an element as a person reads it."""
        return str(self.find(selector).text)

    def wait(self, condition: Any) -> Any:
        """Return what a condition says once it says anything; it is asked again until then."""
        from selenium.common.exceptions import NoSuchElementException, StaleElementReferenceException
        from selenium.webdriver.support.ui import WebDriverWait

        passing = (NoSuchElementException, StaleElementReferenceException)
        return WebDriverWait(self.driver, PATIENCE, 0.05, passing).until(lambda _: condition())

    def wait_for(self, selector: str, text: str = "") -> Any:
        """Return an element once it is there and holds a text."""
        return self.wait(lambda: (found := self.find(selector)) and text in found.text and found)

    def set_size(self, width: int, height: int = 900) -> None:
        """Make the page so many pixels wide."""
        about = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", about)

    def set_theme(self, theme: str) -> None:
        """Prefer `light` or `dark`, as an operating system does."""
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def check_accessible(self, *, colours_only: bool = False) -> list[str]:
        """Return what axe finds wrong with the page, a line each; perhaps only where colours are too close."""
        from importlib.resources import files

        if not self.driver.execute_script("return 'axe' in globalThis"):
            self.driver.execute_script((files("axe_core_python") / "axe.min.js").read_text("utf-8"))
        found = self.driver.execute_async_script(
            "const [rules, tell] = arguments; axe.run(document, {preload: false, ...rules})"
            ".then((found) => tell(found.violations), (error) => tell(String(error)));",
            {"runOnly": ["color-contrast"]} if colours_only else {},
        )
        assert not isinstance(found, str), found
        return [f"{one['id']}: {node['html'][:200]}" for one in found for node in one["nodes"]]

    def read_log(self) -> list[str]:
        """Return what the browser complained of since it was asked last, such as a script that was refused."""
        return [str(line["message"]) for line in self.driver.get_log("browser")]

    def save_picture(self, file: Path, *, whole: bool = True) -> None:
        """Save the page as a picture, down to its end."""
        import base64

        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": whole})
        file.write_bytes(base64.b64decode(shot["data"]))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One Chromium for all tests of a process."""
    if MISSING:
        pytest.skip(MISSING)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(DRIVER))
    driver.set_script_timeout(PATIENCE)
    yield Browser(driver)
    driver.quit()


@pytest.fixture
def browser(chromium: Browser) -> Browser:
    """The browser, let in nowhere, wide and light."""
    chromium.driver.delete_all_cookies()
    chromium.set_size(1440)
    chromium.set_theme("light")
    chromium.read_log()
    return chromium


@pytest.fixture(scope="session")
def console(tmp_path_factory: pytest.TempPathFactory, chromium: Browser) -> Iterator[ServedConsole]:
    """The console of a home with sessions of every kind; see `tests.browser.sessions`. Tests may add to it."""
    from tests.browser.sessions import build_home

    root = tmp_path_factory.mktemp("console")
    names = asyncio.run(build_home(root))
    with run_console(root / "home", names) as served:
        yield served


@pytest.fixture
def scriptless(browser: Browser, console: ServedConsole) -> Iterator[Browser]:
    """The browser, let in as a person is, in which no page runs a script."""
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open(console.entrance)
        browser.wait_for("main h1", "Sessions")
        yield browser
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
