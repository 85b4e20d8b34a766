"""The parts of a sandbox that are loaded by name hold what is asked of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import foregate.agent.sandbox as package

ASKED = re.compile(r"""(?:(\w+) = )?load_sandbox\(["'](\w+)["']\)(?:\.(\w+))?""")
"""For example `load_sandbox("watch").Watch`, or `written = load_sandbox("written")` and later `written.X`."""


def list_names() -> Iterator[tuple[str, str]]:
    """Yield each module that is loaded by name, with what is asked of it."""
    for path in Path(package.__path__[0]).glob("*.py"):
        text = path.read_text()
        for alias, module, name in ASKED.findall(text):
            yield from ((module, one) for one in ([name] if name else re.findall(rf"\b{alias}\.(\w+)", text)))


NAMES = sorted(set(list_names()))


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_name_that_the_guard_asks_for_is_there(module: str, name: str) -> None:
    assert hasattr(import_module(f"{package.__name__}.{module}"), name)


def test_the_names_are_found_in_the_source() -> None:
    assert len(NAMES) > 5
