"""What a call made of files: short differences whole, long ones by their beginning, and every row fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.loop.changes_made import ChangesMade, Commit, FileVersions
from foregate.views.terminal.layout import count_columns, is_hidden
from foregate.views.terminal.made import BEGIN, describe_made, format_made

EDITED = FileVersions("a.txt", b"teh cat\n", b"the cat\n")
PATCH = """\
diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 cat
--- teh
+++ the
\\ No newline at end of file
diff --git a/b.png b/b.png
Binary files a/b.png and b/b.png differ
"""


def made_of(*files: FileVersions, **counts: int) -> ChangesMade:
    return ChangesMade(counts or {"edit": len(files)}, files)


def texts(made: ChangesMade, width: int = 80, *, whole: bool = False) -> list[str]:
    """Return the rows as shown."""
    return [row.plain for row in format_made(made, width, "; /show c1.1 shows all", whole=whole)]


def test_an_edit_says_how_many_lines_and_shows_them() -> None:
    assert describe_made(made_of(EDITED)) == "+1 -1"
    assert texts(made_of(EDITED)) == ["  | @@ -1,1 +1,1 @@", "  | - teh cat", "  | + the cat"]


def test_a_new_a_deleted_and_a_moved_file_say_so() -> None:
    assert describe_made(made_of(FileVersions("a", None, b"x\n"), create=1)) == "new, +1"
    assert describe_made(made_of(FileVersions("a", b"x\n", None), delete=1)) == "deleted, -1"
    moved = made_of(FileVersions("a", b"x\n", None), FileVersions("b", None, b"x\n"), create=1, delete=1)
    assert texts(moved) == ["  file    a: moved to b"]


def test_several_files_are_counted_in_the_row_and_named_below() -> None:
    both = made_of(EDITED, FileVersions("b.txt", problem="not a text"))
    assert describe_made(both) == "edited 2, +1 -1"
    assert [row for row in texts(both) if "file" in row] == ["  file    a.txt: +1 -1", "  file    b.txt: not a text"]


def test_of_a_long_difference_there_is_the_beginning_and_how_to_see_the_rest() -> None:
    long = made_of(FileVersions("a.txt", None, b"line\n" * 100), create=1)
    *shown, last = texts(long)
    assert len(shown) == BEGIN
    assert last == "  cut     95 lines more; /show c1.1 shows all"
    assert len(texts(long, whole=True)) == 101


def test_a_commit_shows_what_is_in_it_and_lines_that_look_like_a_header_are_lines() -> None:
    made = ChangesMade({}, commits=(Commit("abc1234", "Fix it", PATCH),))
    assert describe_made(made) == ""
    assert texts(made) == [
        "  commit  abc1234 Fix it: 2 files, +1 -1",
        "  file    a.txt: +1 -1",
        "  | @@ -1,2 +1,2 @@",
        "  |   cat",
        "  | - -- teh",
        "  | + ++ the",
        "  | \\ No newline at end of file",
        "  file    b.png: +0 -0",
    ]


@given(st.binary(max_size=200), st.binary(max_size=200), st.text(max_size=60), st.integers(30, 100))
def test_every_row_fits_and_nothing_in_it_is_hidden_or_poses_as_a_row(
    before: bytes, after: bytes, path: str, width: int
) -> None:
    commit = Commit("abc1234", path, f"diff --git a/{path} b/{path}\n@@ -1 +1 @@\n+{path}\n")
    made = ChangesMade({"edit": 2}, (FileVersions(path, before, after), EDITED), commits=(commit,))
    for row in texts(made, width, whole=True):
        assert count_columns(row) <= width
        assert not any(is_hidden(character) for character in row)
        assert row.startswith(("  | ", "  file    ", "  commit  ", "          "))
