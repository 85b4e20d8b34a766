"""The mount: links of src/foregate, and what a wheel holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
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


def imported(path: Path) -> set[str]:
    """Return the packages a file imports, but for its own and the standard library's."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {top for name in names if (top := name.partition(".")[0]) not in {"foregate", *sys.stdlib_module_names}}


def test_every_library_the_code_imports_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    said = [*project["dependencies"], *(line for name in extras if name != "dev" for line in extras[name])]
    declared = {re.split(r"[^\w.-]", line)[0].lower().replace("_", "-") for line in said}
    homes = packages_distributions()
    for path in [*(ROOT / "src/foregate").rglob("*.py"), *(p for top in PACKAGES for p in (ROOT / top).rglob("*.py"))]:
        for name in imported(path):
            homed = {home.lower().replace("_", "-") for home in homes[name]}
            assert homed & declared, f"{path.relative_to(ROOT)} imports {name}, which pyproject.toml does not name"
