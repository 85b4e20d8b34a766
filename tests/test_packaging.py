"""The mount: links of src/foregate, and what a wheel holds."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("agent", "evidence", "gates", "policy", "schemas", "telemetry")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_package_is_mounted_by_one_relative_link(package: str) -> None:
    link = ROOT / "src/foregate" / package
    assert link.is_symlink()
    assert link.readlink() == Path("../..") / package


def tree() -> set[str]:
    """Return the files the wheel should hold, as the tree has them."""
    face = [path for path in (ROOT / "src/foregate").iterdir() if not path.is_symlink()]
    found = {path: f"foregate/{path.name}" for path in face if path.is_file()}
    for folder in [path for path in face if path.is_dir()]:
        found |= {p: f"foregate/{p.relative_to(ROOT / 'src/foregate')}" for p in folder.rglob("*") if p.is_file()}
    for package in PACKAGES:
        found |= {p: f"foregate/{p.relative_to(ROOT)}" for p in (ROOT / package).rglob("*") if p.is_file()}
    return {name for path, name in found.items() if "__pycache__" not in path.parts}


def test_the_wheel_and_the_wheel_from_the_sdist_hold_the_same_files_as_the_tree(tmp_path: Path) -> None:
    code = (
        "import sys;"
        "from hatchling.builders.wheel import WheelBuilder; from hatchling.builders.sdist import SdistBuilder;"
        "b = {'wheel': WheelBuilder, 'sdist': SdistBuilder}[sys.argv[1]](sys.argv[2]);"
        "print(next(b.build(directory=sys.argv[3], versions=['standard'])))"
    )

    def build(kind: str, root: Path, out: Path) -> Path:
        run = subprocess.run(
            [sys.executable, "-I", "-c", code, kind, root, out], capture_output=True, text=True, check=True, cwd=root
        )
        return Path(run.stdout.strip().splitlines()[-1])

    direct = build("wheel", ROOT, tmp_path / "direct")
    with tarfile.open(build("sdist", ROOT, tmp_path / "sdist")) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    indirect = build("wheel", unpacked, tmp_path / "indirect")
    for wheel in (direct, indirect):
        with zipfile.ZipFile(wheel) as archive_of_wheel:
            names = {name for name in archive_of_wheel.namelist() if ".dist-info/" not in name}
        assert names == tree()
