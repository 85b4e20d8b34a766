"""Another process swaps a folder with a link that leads out, again and again, while commands read: nothing outside is
read. `FOREGATE_RACES` is how many commands race, for long runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from foregate.agent.tools.commands import run_command
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.local import LocalWorkspace
from foregate.policy.source.load import default_policy
from foregate.schemas.errors import WorkspaceError
from tests.agent.loop.tiers import find_no_more_than_limited

DRIVER = Path(__file__).with_name("swap_driver.py")
RACES = int(os.environ.get("FOREGATE_RACES", "25"))
OUTSIDE, INSIDE = "canary from outside", "a line inside"
POLICY = default_policy()


@pytest.fixture
def space(folder: Path, tier: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalWorkspace]:
    """A workspace with a folder `d` that holds `f.txt`, and beside it a link to an outside folder with the same."""
    outside = folder.parent / "outside"
    for place, text in ((folder / "d", INSIDE), (outside, OUTSIDE)):
        place.mkdir()
        (place / "f.txt").write_text(f"{text}\n")
    (folder / "link").symlink_to(outside)
    with closing(LocalWorkspace(folder)) as opened:
        if tier == "limited":
            find_no_more_than_limited(monkeypatch.setattr)
        if find_tier(opened, POLICY)["tier"] != tier:
            pytest.skip("this machine has no such sandbox, and without one this race can be lost")
        yield opened


@pytest.fixture
def swapper(space: LocalWorkspace) -> Iterator[subprocess.Popen[str]]:
    """The process that swaps them; it has begun."""
    words = [sys.executable, "-I", str(DRIVER), str(space.root / "d"), str(space.root / "link")]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("tier", "argv"),
    [
        ("full", ["cat", "d/f.txt"]),
        ("full", ["grep", "-r", "line", "d"]),
        ("full", ["grep", "-r", "canary", "."]),
        ("full", ["head", "-n", "1", "d/f.txt"]),
        ("limited", ["cat", "d/f.txt"]),
        ("limited", ["grep", "-r", "line", "d"]),
    ],
)
async def test_what_a_command_reads_while_a_folder_becomes_a_link_is_never_outside(
    argv: list[str], space: LocalWorkspace, swapper: subprocess.Popen[str]
) -> None:
    tool, read = run_command(space, POLICY), list[str]()
    for _ in range(RACES):
        try:
            read.append((await tool.run({"argv": argv})).content)
        except WorkspaceError as error:  # the path led out when it was looked at
            read.append(str(error))
    swapped = int(swapper.communicate()[0])  # which closes its input
    assert swapped > RACES
    assert not [text for text in read if OUTSIDE in text]
