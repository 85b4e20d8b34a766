"""A power cut, on a real file system: what the log says is done is there afterwards, whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DRIVER = Path(__file__).with_name("power_cut_driver.py")
NEEDED = ("unshare", "mount", "umount", "mkfs.ext4")
CHANGES, UNDONE = 8, 7


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a file system in a file")
@pytest.mark.skipif(not all(map(shutil.which, NEEDED)), reason="mkfs.ext4, mount, umount or unshare is missing")
def test_whatever_is_recorded_as_done_survives_a_power_cut(tmp_path: Path) -> None:
    top, home = tmp_path / "top", tmp_path / "home"
    top.mkdir()
    here = os.readlink("/proc/self/ns/mnt")
    enter = ["unshare", "--mount", "--propagation", "private"]
    words = [sys.executable, "-I", str(DRIVER), here, str(top), str(home)]
    ran = subprocess.run([*enter, *words], capture_output=True, text=True, timeout=300, check=False)
    if "unshare failed" in ran.stderr:
        pytest.skip(f"no mount namespace can be entered here: {ran.stderr.strip()}")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout.splitlines()[-1])
    if "skip" in found:
        pytest.skip(found["skip"])
    lost = {
        f"{number} {copy['event']}": {path for path, text in copy["then"].items() if copy["after"].get(path) != text}
        for number, copy in enumerate(found["copies"])
        if copy["after"] != copy["then"]
    }
    assert lost == {}
    kinds = [copy["event"].partition(" ")[0] for copy in found["copies"]]
    assert kinds == ["tool_finished"] * CHANGES + ["effect_undone"] * UNDONE
    assert found["copies"][CHANGES - 1]["then"]["made/kept"] == "old"
    assert [copy["event"] for copy in found["applied"]] == ["midway"] * 3 + ["applied"] + ["midway"] * 3 + [
        "taken back"
    ]
    middle, (done, back) = found["applied"], found["applied"][3::4]
    assert (done["after"], back["after"]) == (done["then"], back["then"])
    assert done["then"] != back["then"]
    for copy in middle:
        placed = {path: text for path, text in copy["after"].items() if not path.startswith(".foregate-")}
        torn = {path for path, text in placed.items() if text not in (done["then"].get(path), back["then"].get(path))}
        assert torn == set(), "a file is neither the old one nor the new one"
