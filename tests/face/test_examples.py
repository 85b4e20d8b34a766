"""The examples run as they stand, without a network, and show what they promise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.forever import FOREVER

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def test_the_order_of_paint_is_held_approved_and_made(tmp_path: Path) -> None:
    command = [sys.executable, "-I", str(EXAMPLES / "stock.py")]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=FOREVER)
    assert (run.returncode, run.stderr) == (0, "")
    places = [
        run.stdout.index(part)
        for part in ("narration_required", "ran       count: 2", "asked     order", "ran       order", "completed: ")
    ]
    assert places == sorted(places)
    assert list(tmp_path.iterdir()) == []
