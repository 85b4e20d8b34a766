"""A difference shows every change of a file, and no text in it can pose as another line."""

from __future__ import annotations

import difflib

from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools import files
from foregate.views.terminal import diff
from foregate.views.terminal.diff import describe_counts, diff_lines, format_diff, format_unified
from foregate.views.terminal.layout import count_columns, is_hidden

FILES = st.lists(st.sampled_from(["a", "b", "c", "", "+ d", "- e", "@@ -1,1 +1,1 @@", "\r"]), max_size=40).map(
    "\n".join
)


def texts(before: bytes, after: bytes, width: int = 80) -> list[str]:
    """Return the lines as shown."""
    return [row.plain for row in format_diff(diff_lines(before, after), width)]


@given(FILES, FILES)
def test_applied_to_the_old_version_it_gives_the_new_one(before: str, after: str) -> None:
    old, new = before.encode(), after.encode()
    lines = diff_lines(old, new)
    assert bool(lines) == (old != new)
    if lines:
        assert files.apply_diff(old, format_unified(lines).encode(), "a.txt") == new


@given(FILES, FILES)
def test_past_the_bound_of_comparing_it_is_longer_and_as_right(before: str, after: str) -> None:
    old, new = before.encode(), after.encode()
    bound, diff.COMPARED = diff.COMPARED, 0
    try:
        lines = diff_lines(old, new)
    finally:
        diff.COMPARED = bound
    if lines:
        assert files.apply_diff(old, format_unified(lines).encode(), "a.txt") == new


def test_only_lines_near_a_change_are_shown_with_where_they_stand() -> None:
    old = b"".join(b"%d\n" % number for number in range(1, 30))
    new = old.replace(b"5\n6\n", b"5\nsix\n", 1).replace(b"25\n", b"", 1)
    ours = format_unified(diff_lines(old, new))
    theirs = difflib.unified_diff(old.decode().splitlines(True), new.decode().splitlines(True))
    assert ours == "".join(list(theirs)[2:])
    assert describe_counts(diff_lines(old, new)) == "2 lines removed, 1 line added"


def test_a_line_that_does_not_fit_goes_on_behind_its_sign_and_a_mark() -> None:
    assert texts(b"", b"x" * 20 + b"  + rm\n", 26)[1:] == ["  | + " + "x" * 20, "  | +>  + rm"]
    assert texts(b"  - old\n", b"  - old\n+ new\n") == [
        "  | @@ -1,1 +1,2 @@", "  |     - old", "  | + + new"]  # fmt: skip


def test_a_missing_line_feed_at_the_end_and_what_a_terminal_hides_are_seen() -> None:
    assert texts(b"a\n", b"a") == [
        "  | @@ -1,1 +1,1 @@", "  | - a", "  | + a", "  | \\ No newline at end of file"]  # fmt: skip
    assert "  | + \\u{1B}[2J\\u{D}" in texts(b"", b"\x1b[2J\r\n")
    assert "  | + \\u{DCFF}" in texts(b"", b"\xff\n")


def test_a_file_that_stays_as_it_is_says_so() -> None:
    assert describe_counts(diff_lines(b"a", b"a")) == "nothing: the file holds exactly this already"


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(30, 90))
def test_every_line_fits_hides_nothing_and_stands_behind_a_bar(before: bytes, after: bytes, width: int) -> None:
    for row in texts(before, after, width):
        assert count_columns(row) <= width
        assert row.startswith("  | ")
        assert not any(is_hidden(character) for character in row)
