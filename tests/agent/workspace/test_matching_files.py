"""Secret files are found wherever they lie, and found again without reading what has not changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foregate.agent.workspace.secret_values import MatchingFiles
from foregate.policy.source.load import default_policy

PATTERNS = default_policy().files.secret
LONG_AGO = 1_000_000_000


def make_old(root: Path) -> None:
    """Have every folder look as if it had not changed for long."""
    for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
        os.utime(folder, ns=(LONG_AGO, LONG_AGO))


@pytest.fixture
def root(folder: Path) -> Path:
    """A folder with secrets at several depths."""
    (folder / "a/b").mkdir(parents=True)
    (folder / ".git").mkdir()
    for name in (".env", "a/.env.local", "a/b/key.pem", "a/plain.txt", ".git/key.pem"):
        (folder / name).touch()
    return folder


def test_secrets_are_found_at_every_depth_and_not_in_gits_own_folder(root: Path) -> None:
    assert sorted(MatchingFiles(root, PATTERNS).find()) == [".env", "a/.env.local", "a/b/key.pem"]


def test_a_folder_that_is_secret_as_a_whole_is_named_once(root: Path) -> None:
    assert "a" in MatchingFiles(root, (*PATTERNS, "a/**")).find() or "a/b" in MatchingFiles(root, ("a/b",)).find()


def test_a_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "else").mkdir()
    (tmp_path / "else/.env").touch()
    (root / "way").symlink_to(tmp_path / "else")
    assert not [path for path in MatchingFiles(root, PATTERNS).find() if path.startswith("way")]


def test_what_is_added_or_removed_is_seen_though_the_rest_is_remembered(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = MatchingFiles(root, PATTERNS)
    make_old(root)
    files.find()
    read: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: (read.append(Path(path).name), scan(path))[1])
    (root / "a/b/.env").touch()
    (root / "a/b/key.pem").unlink()
    assert sorted(files.find()) == [".env", "a/.env.local", "a/b/.env"]
    assert read == ["b"]


def test_a_folder_that_changed_just_now_is_read_again(root: Path) -> None:
    files = MatchingFiles(root, PATTERNS)
    files.find()
    before = (root / "a").stat()
    (root / "a/id_rsa").touch()
    os.utime(root / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert "a/id_rsa" in files.find()
