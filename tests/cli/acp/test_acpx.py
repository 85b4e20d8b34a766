"""A client from npm that nobody here wrote has real sessions with `foregate acp`."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.acp.editor import SERVE, Desk
from tests.npm import install_packages

WISH = 'Replace "teh" with "the" in a.txt'


@pytest.fixture(scope="session")
def acpx() -> Path:
    """The client."""
    return install_packages(Path(__file__).with_name("package.json"), "npm-clients") / ".bin" / "acpx"


def use(acpx: Path, desk: Desk, *words: str) -> tuple[int, list[Any]]:
    """Run the client with our agent; return its exit code and the messages it says it has seen."""
    command = [str(acpx), "--agent", shlex.join(SERVE), "--cwd", str(desk.folder), "--format", "json"]
    ran = subprocess.run(
        [*command, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, env=desk.environ, timeout=240
    )
    return ran.returncode, [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]


def test_what_its_person_approves_is_done_and_its_diff_is_seen(acpx: Path, desk: Desk) -> None:
    desk.judge_by(approval={"mode": "each"})
    code, heard = use(acpx, desk, "--approve-all", "exec", WISH)
    assert code == 0
    assert (desk.folder / "a.txt").read_text() == "the cat\n"
    told = json.dumps(heard)
    assert '"stopReason": "end_turn"' in told
    assert '"oldText": "teh cat\\n", "newText": "the cat\\n"' in told
    assert '"kind": "allow_always"' in told


def test_what_its_person_denies_is_not_done_and_it_hears_why(acpx: Path, desk: Desk) -> None:
    desk.judge_by(approval={"mode": "each"})
    _, heard = use(acpx, desk, "--deny-all", "exec", WISH)
    assert (desk.folder / "a.txt").read_text() == "teh cat\n"
    told = json.dumps(heard)
    assert "approval_denied" in told
    assert '"stopReason"' in told
