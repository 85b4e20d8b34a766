"""An index of git says the same after `git status`, and something else after `git add`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from foregate.agent.workspace.git_folder import hash_index, is_index


def git(folder: Path, *words: str) -> None:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    subprocess.run(["git", *words], cwd=folder, env=environ, capture_output=True, check=True)


@pytest.mark.parametrize("form", ["sha1", "sha256"])
@pytest.mark.parametrize("version", ["2", "4"])
def test_what_is_staged_is_told_from_what_is_noted_of_files(folder: Path, form: str, version: str) -> None:
    git(folder, "init", "-q", f"--object-format={form}")
    (folder / "deep").mkdir()
    names = ("a.txt", "deep/a-rather-long-name", "deep/b", "x" * 200)
    for name in names:
        (folder / name).write_text(name)
    git(folder, "add", ".")
    git(folder, "add", "--intent-to-add", ".")
    git(folder, "update-index", "--index-version", version)
    index = folder / ".git/index"
    first, told = index.read_bytes(), hash_index(index.read_bytes())
    for number, name in enumerate(names):
        os.utime(folder / name, (number, number))
    git(folder, "status")
    assert first != index.read_bytes()
    assert hash_index(index.read_bytes()) == told != ""
    git(folder, "update-index", "--chmod=+x", "a.txt")
    moded = hash_index(index.read_bytes())
    (folder / "deep/b").write_text("other")
    git(folder, "add", ".")
    assert len({told, moded, hash_index(index.read_bytes())}) == 3
    for cut in (0, 3, 11, 12, 40, len(first) // 2, len(first) - 1):
        assert hash_index(first[:cut]) == ""
    assert hash_index(first[:20] + bytes([first[20] ^ 1]) + first[21:]) == "", "its sum is wrong"


def test_a_split_index_is_not_told() -> None:
    body = b"DIRC" + (2).to_bytes(4, "big") + bytes(4) + b"link" + (20).to_bytes(4, "big") + bytes(20)
    assert hash_index(body + bytes(20)) == ""
    assert hash_index(body.replace(b"link", b"TREE") + bytes(20)) != ""


def test_an_index_is_known_by_its_path() -> None:
    assert is_index(".git/index")
    assert is_index("sub/.git/worktrees/w/index")
    assert not is_index("index")
    assert not is_index(".git/index.lock")
