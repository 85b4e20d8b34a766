"""How long the page of a dial takes to follow the hand: a hundred moves in headless Chromium, each with its layout.

The console runs as a process over a log of varied work. A move must be done within a frame of the screen.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import Report
from varied.record import record_log

TURNS, MOVES, BOUND = 200, 100, 16.0
"""Turns of the log, moves that are measured, and milliseconds that one may take."""
KEYS = ("uncertainty.threshold", "narration.min_chars")
_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run")
_MOVE = """const hand = document.getElementById("range"), times = [];
const low = Number(hand.min), wide = Number(hand.max) - low;
for (let move = 0; move < arguments[0]; move++) {
  const began = performance.now();
  hand.value = String(low + (move * 37 * Math.ceil(wide / 100)) % (wide + 1));
  hand.dispatchEvent(new Event("input", { bubbles: true }));
  document.body.offsetHeight;
  times.push(performance.now() - began);
}
return times.sort((one, two) => one - two);"""


def measure_moves(entrance: str, key: str) -> list[float]:
    """Return the milliseconds of each move of a key's dial, ascending."""
    from selenium import webdriver
    from selenium.webdriver.support.ui import WebDriverWait

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*_FLAGS, f"--user-data-dir={tempfile.mkdtemp()}"):
        options.add_argument(flag)
    driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    try:
        driver.get(entrance)
        WebDriverWait(driver, 60).until(lambda _: "/enter" not in driver.current_url)
        driver.get(f"{entrance.partition('/enter')[0]}/policy/tune?key={key}")
        WebDriverWait(driver, 120).until(lambda _: driver.find_elements("css selector", "#range:not([hidden])"))
        return [float(time) for time in driver.execute_script(_MOVE, MOVES)]
    finally:
        driver.quit()


def main() -> int:
    """Print how long moves take; return 1 where one of twenty takes longer than the bound."""
    measured = (f"src/foregate/{name}" for name in ("console", "views", "tuning"))
    report = Report("dial", *measured)
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        report.skip("a move", "no Chromium here: apt-get install chromium chromium-driver")
        return report.end()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        home.mkdir()
        record_log(home / "events.db", TURNS)
        command = [sys.executable, "-P", "-m", "foregate", "console", "--port", "0", "--no-open"]
        environ = {**os.environ, "FOREGATE_HOME": str(home)}
        with subprocess.Popen(command, env=environ, cwd=folder, stdout=subprocess.PIPE, text=True) as console:
            assert console.stdout is not None
            entrance = console.stdout.readline().split()[-1]
            for key in KEYS:
                times = measure_moves(entrance, key)
                note = f"95 of 100; median {times[len(times) // 2]:.1f} ms, worst {times[-1]:.1f} ms"
                report.add(f"a move of {key}", times[len(times) * 95 // 100], "ms", most=BOUND, note=note)
            console.send_signal(signal.SIGINT)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
