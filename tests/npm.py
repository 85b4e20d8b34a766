"""Programs from npm that tests use as they are."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def install_packages(packages: Path, name: str) -> Path:
    """Return the folder of what a `package.json` names, installed once beside the interpreter that runs the tests.

    Skips where there is no node, or no registry; with FOREGATE_NEEDS_NPM that fails instead.
    """
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("there is no node here; install it to test with programs from npm")
    folder = Path(sys.prefix) / name / hashlib.sha256(packages.read_bytes()).hexdigest()[:16]
    if not (folder / "done").exists():
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(packages, folder)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--no-package-lock"]
        try:
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)
            why = ran.stderr.strip()[-300:] if ran.returncode else ""
        except subprocess.TimeoutExpired:
            why = "it took too long"
        if why and not os.environ.get("FOREGATE_NEEDS_NPM"):
            pytest.skip(f"npm could not install what {packages.name} names: {why}")
        assert not why
        (folder / "done").touch()
    return folder / "node_modules"
