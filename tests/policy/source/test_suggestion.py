"""Suggestions as files."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.policy.source.edit import TextChange, find_suggestion, format_suggestion, read_suggestion
from foregate.schemas.errors import UsageError


def test_a_suggestion_is_a_part_of_a_policy_under_its_words_and_reads_back_the_same(tmp_path: Path) -> None:
    changes = (
        TextChange(("plan", "max_amendments"), 20),
        TextChange(("rules", "list", "x"), {"id": "x", "then": "ask"}),
    )
    words = ("This change lets go 312 recorded calls. " * 5, "None was \u202ewrong.")
    text = format_suggestion(words, changes)
    assert all(len(line) <= 100 for line in text.splitlines())
    assert text.startswith("# A suggestion for a Foregate policy")
    (tmp_path / "s.yaml").write_text(text)
    found = read_suggestion(tmp_path / "s.yaml")
    assert found.changes == changes
    assert found.words == (words[0].strip(), "None was \\u{202E}wrong.")


def test_a_bare_name_is_an_id_and_never_a_file_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept = tmp_path / "kept"
    kept.mkdir()
    Path("quiet").write_text("{}\n")
    with pytest.raises(UsageError, match=r"`foregate policy suggest` makes one, and a file is named as `./quiet`"):
        find_suggestion("quiet", kept)
    assert find_suggestion("./quiet", kept) == Path("quiet")
    (kept / "quiet.yaml").write_text("{}\n")
    assert find_suggestion("quiet", kept) == kept / "quiet.yaml"
