"""The history of the prompt: whose it is, and that it ends."""

from __future__ import annotations

from pathlib import Path

from prompt_toolkit.history import FileHistory

from foregate.views.terminal.terminal import REMEMBERED, prepare_history


def test_what_was_typed_is_kept_for_its_owner_only_or_not_at_all(tmp_path: Path) -> None:
    wide, link = tmp_path / "history", tmp_path / "link"
    wide.touch(mode=0o666)
    wide.chmod(0o644)
    link.symlink_to(wide)
    assert prepare_history(wide)
    assert wide.stat().st_mode & 0o777 == 0o600
    assert not prepare_history(link)
    assert not prepare_history(tmp_path)


def test_a_history_that_has_grown_too_long_loses_its_oldest_messages_whole(tmp_path: Path) -> None:
    file = tmp_path / "history"
    long, said = FileHistory(str(file)), [f"message {number}\nof two lines {'é' * 100}" for number in range(3000)]
    for one in said:
        long.store_string(one)
    assert file.stat().st_size > 2 * REMEMBERED
    assert prepare_history(file)
    kept = list(FileHistory(str(file)).load_history_strings())  # newest first
    assert kept == said[: -len(kept) - 1 : -1]
    assert 0.9 * REMEMBERED < file.stat().st_size <= REMEMBERED
    assert file.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in tmp_path.iterdir()] == ["history"]


def test_a_short_history_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "history"
    FileHistory(str(file)).store_string("hello")
    before = file.read_bytes()
    assert prepare_history(file)
    assert file.read_bytes() == before


def test_a_single_message_that_is_too_long_is_not_remembered(tmp_path: Path) -> None:
    file = tmp_path / "history"
    FileHistory(str(file)).store_string("x" * 2 * REMEMBERED)
    assert prepare_history(file)
    assert list(FileHistory(str(file)).load_history_strings()) == []
