"""The type checker finds a misspelt field of an event, and a reader that forgets a kind."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("misspelt_events.py")
_MARK = re.compile(r"  # error: ([a-z-]+)$")
_FOUND = re.compile(r"^[^:]*misspelt_events\.py:(\d+): error: .*\[([a-z-]+)\]$", re.MULTILINE)


def test_mypy_finds_every_mistake_in_reading_and_writing_events_and_nothing_else() -> None:
    lines = FILE.read_text(encoding="utf-8").splitlines()
    expected = {number: mark[1] for number, line in enumerate(lines, start=1) if (mark := _MARK.search(line))}
    # Where `make check` has run, its cache makes this a matter of seconds.
    command = [sys.executable, "-Im", "mypy", "--no-pretty", "--show-error-codes", str(FILE.relative_to(ROOT))]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found: dict[int, set[str]] = {}
    for number, code in _FOUND.findall(ran.stdout):
        found.setdefault(int(number), set()).add(code)
    assert found.keys() == expected.keys(), ran.stdout + ran.stderr
    assert [number for number, code in expected.items() if code not in found[number]] == []
