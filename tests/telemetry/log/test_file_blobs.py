"""Blobs in files: what is stored is what comes back, or an error."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError
from foregate.telemetry.log import temporary_file
from foregate.telemetry.log.temporary_file import FileBlobs


@pytest.fixture
def blobs(tmp_path: Path) -> FileBlobs:
    """An empty store."""
    return FileBlobs(tmp_path / "blobs")


def where(blobs: FileBlobs, name: str) -> Path:
    """Return the file of a blob."""
    return blobs.folder / name[:2] / name[2:4] / name


@given(st.binary(max_size=3000))
def test_what_is_put_comes_back_under_its_hash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "blobs"
    name = FileBlobs(folder).put(data)
    assert name == strict_json.sha256(data)
    assert FileBlobs(folder).get(name) == data


def test_contents_put_together_come_back_and_wait_for_one_sync(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(temporary_file, "sync_all", lambda folder: synced.append("all"))
    monkeypatch.setattr(temporary_file, "sync_folder", lambda folder: synced.append("folder"))
    monkeypatch.setattr(os, "fsync", lambda file: synced.append("file"))
    names = blobs.put_all([b"one", b"two", b"one"])
    assert [blobs.get(name) for name in names] == [b"one", b"two", b"one"]
    assert synced == ["all"]


def test_changed_bytes_are_an_error_and_putting_them_again_mends_them(blobs: FileBlobs) -> None:
    name = blobs.put(b"before-image")
    where(blobs, name).write_bytes(b"before-imagE")
    with pytest.raises(LogError, match="changed or damaged"):
        blobs.get(name)
    blobs.put(b"before-image")
    assert blobs.get(name) == b"before-image"


def test_missing_bytes_are_an_error(blobs: FileBlobs) -> None:
    with pytest.raises(LogError, match="no stored bytes are named"):
        blobs.get("0" * 64)


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "0" * 63, "A" * 64, "0" * 64 + "\n", "/" * 64])
def test_a_name_that_is_no_hash_reads_nothing(blobs: FileBlobs, name: str) -> None:
    with pytest.raises(LogError, match="cannot name stored bytes"):
        blobs.get(name)


@pytest.mark.parametrize("fake", ["link", "pipe", "folder"])
def test_what_is_no_file_is_not_read(blobs: FileBlobs, tmp_path: Path, fake: str) -> None:
    name = blobs.put(b"x")
    where(blobs, name).unlink()
    if fake == "link":
        (tmp_path / "other").write_bytes(b"x")
        where(blobs, name).symlink_to(tmp_path / "other")
    elif fake == "pipe":
        os.mkfifo(where(blobs, name))
    else:
        where(blobs, name).mkdir()
    with pytest.raises(LogError):
        blobs.get(name)


def test_only_the_owner_may_read_and_nothing_else_is_left_behind(blobs: FileBlobs) -> None:
    name = blobs.put(b"x")
    blobs.put(b"x")
    found = {p.relative_to(blobs.folder).as_posix(): stat.S_IMODE(p.stat().st_mode) for p in blobs.folder.rglob("*")}
    folders = {name[:2]: 0o700, f"{name[:2]}/{name[2:4]}": 0o700}
    assert found == {**folders, f"{name[:2]}/{name[2:4]}/{name}": 0o600, ".lock": 0o600}
    assert stat.S_IMODE(blobs.folder.stat().st_mode) == 0o700


def test_a_store_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="make sure the folder and its disk"):
        FileBlobs(tmp_path / "file")
    blobs = FileBlobs(tmp_path / "blobs")
    name = strict_json.sha256(b"x")
    (blobs.folder / name[:2]).write_text("in the way")
    with pytest.raises(LogError, match="make sure the folder and its disk"):
        blobs.put(b"x")
