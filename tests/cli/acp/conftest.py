"""Fixtures: a place in which `foregate acp` runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.acp.editor import Desk, build_environ


@pytest.fixture
def desk(tmp_path: Path, folder: Path) -> Desk:
    """A home of its own beside a workspace with a file."""
    (folder / "a.txt").write_text("teh cat\n")
    home = tmp_path / "home"
    return Desk(home, folder, build_environ(home))
