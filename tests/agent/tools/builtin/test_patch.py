"""Unified diffs apply exactly or not at all."""

from __future__ import annotations

import difflib
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools.files import PatchError, apply_diff

LINES = st.lists(st.sampled_from(["a\n", "b\n", "\n", "c\r\n", "-x\n", "--- y\n"]), max_size=12)


@given(LINES, LINES, st.integers(0, 3))
def test_what_difflib_writes_applies(old: list[str], new: list[str], context: int) -> None:
    diff = "".join(difflib.unified_diff(old, new, "a/f", "b/f", n=context))
    if diff:
        assert apply_diff("".join(old).encode(), diff.encode(), "f") == "".join(new).encode()


@pytest.mark.parametrize(("old", "new"), [("a\nb", "a\nc"), ("a", "a\n"), ("a\n", "a"), ("a\nb\n", "b"), ("", "x")])
def test_what_git_writes_applies_also_without_a_last_line_end(tmp_path: Path, old: str, new: str) -> None:
    (tmp_path / "f").write_text(old)
    (tmp_path / "g").write_text(new)
    diff = subprocess.run(["git", "diff", "--no-index", "f", "g"], cwd=tmp_path, capture_output=True).stdout
    assert apply_diff(old.encode(), diff.replace(b"b/g", b"b/f"), "f") == new.encode()


HUNK = b"@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"


@pytest.mark.parametrize(
    ("data", "diff", "why"),
    [
        (b"a\nx\nc\n", HUNK, "not found"),
        (b"a\nb \nc\n", HUNK, "not found"),
        (b"a\r\nb\r\nc\r\n", HUNK, "not found"),
        (b"_\na\nb\nc\na\nb\nc\n", HUNK, "occur 2 times"),
        (b"a\nb\nc\n", HUNK.replace(b"1,3 +", b"1,4 +"), "cut short"),
        (b"a\nb\nc\n", HUNK.replace(b"1,3 +", b"1,2 +"), "more lines|no part"),
        (b"a\nb\nc\n", b"--- a/other\n+++ b/other\n" + HUNK, "they must be the same file"),
        (b"a\nb\nc\n", b"--- a/f\n+++ b/f\n" + HUNK + b"--- a/f\n+++ b/f\n" + HUNK, "several files"),
        (b"a\nb\nc\n", b"hello\n", "no part"),
        (b"a\nb\nc\n", b"", "no hunk"),
        (b"a\n", b"@@ -9,0 +9,1 @@\n+x\n", "beyond the end"),
    ],
)
def test_a_diff_that_does_not_fit_exactly_changes_nothing(data: bytes, diff: bytes, why: str) -> None:
    with pytest.raises(PatchError, match=why):
        apply_diff(data, diff, "f")


def test_a_wrong_line_number_is_forgiven_where_the_lines_occur_once() -> None:
    assert apply_diff(b"_\n_\na\nb\nc\n", HUNK, "f") == b"_\n_\na\nB\nc\n"
