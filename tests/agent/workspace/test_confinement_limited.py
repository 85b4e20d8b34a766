"""Where a machine forbids namespaces, the tier `limited` is found and used by itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.sandbox.restrictions import has_landlock
from tests.agent.tools.builtin.test_git import git
from tests.cli.test_own_environment import NOBODY, user
from tests.forever import FOREVER

__all__ = ["user"]
pytestmark = pytest.mark.skipif(not has_landlock(), reason="this kernel has no Landlock")
DRIVER = Path(__file__).with_name("forbid_namespaces.py")


@pytest.fixture
def found(user: list[str]) -> Iterator[dict[str, Any]]:
    """What a process says that may make no namespaces, of a workspace of its user."""
    folder = Path(tempfile.mkdtemp(prefix="foregate-limited-"))
    try:
        git(folder, "init", "-q")
        (folder / "a.txt").write_text("canary in the text\n")
        (folder / ".env").write_text("TOKEN=canary\n")
        if user == NOBODY:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, 65534, 65534)
        ran = subprocess.run(
            [*user, sys.executable, "-I", str(DRIVER), str(folder)],
            capture_output=True,
            text=True,
            timeout=FOREVER,
            check=False,
            env={"PATH": os.environ["PATH"]},
        )
        assert ran.returncode == 0, ran.stderr
        yield json.loads(ran.stdout)
    finally:
        shutil.rmtree(folder)


def test_limited_is_chosen_by_itself_and_says_why_it_is_no_more(found: dict[str, Any]) -> None:
    assert found["tier"] == "limited"
    assert "namespaces" in found["reason"]
    assert found["cure"]


def test_commands_read_and_see_no_secret_they_do_not_name(found: dict[str, Any]) -> None:
    outcomes = found["outcomes"]
    assert outcomes["cat a.txt"] == "canary in the text\n"
    assert outcomes["cat .env"] == "TOKEN=canary\n"
    assert "./a.txt:canary in the text\n" in outcomes["grep -r canary ."]
    assert "TOKEN" not in outcomes["grep -r canary ."]


def test_git_adds_and_commits(found: dict[str, Any]) -> None:
    assert found["outcomes"]["git log"] == "first\n"
