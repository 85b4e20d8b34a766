"""What a call made of files, as rows: how much, short differences whole, long ones by their beginning, and commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.text import Text

from foregate.agent.loop.changes_made import ChangesMade, FileVersions
from foregate.schemas.sandbox import describe_counts
from foregate.views.terminal.diff import DiffLine, diff_lines, format_diff, parse_patch
from foregate.views.terminal.layout import CARE, NAME, format_labelled, pluralise

SHORT = 16
"""Lines of differences up to which all are shown at once."""
BEGIN = 6
"""Lines of a longer difference that are shown at first."""
FILES = 8
"""Files that are named at first."""
_ROOM = 7


class FileDiff(Struct, frozen=True):
    """What became of a file: its lines, or in words where there are none to show."""

    path: str
    lines: tuple[DiffLine, ...] = ()
    words: str = ""

    @property
    def counts(self) -> tuple[int, int]:
        """How many lines were added and removed."""
        return count_lines(self.lines)

    def describe(self) -> str:
        """Return how much of the file changed: `new, +3`."""
        return ", ".join(part for part in (self.words, format_counts(*self.counts)) if part) or "+0 -0"


def count_lines(lines: Sequence[DiffLine]) -> tuple[int, int]:
    """Return how many lines were added and removed."""
    added, removed = (sum(line.sign == sign for line in lines) for sign in "+-")
    return added, removed


def format_counts(added: int, removed: int) -> str:
    """Return `+3 -1`, without what is none."""
    return " ".join(part for part in (f"+{added}" * bool(added), f"-{removed}" * bool(removed)) if part)


def diff_files(made: ChangesMade) -> list[FileDiff]:
    """Return what became of each file whose contents were read, a moved one once."""
    found, moved = [], _find_moved(made.files)
    for file in made.files:
        if file.path in moved.values():
            continue
        if file.path in moved:
            found.append(FileDiff(file.path, (), f"moved to {moved[file.path]}"))
        elif file.problem:
            found.append(FileDiff(file.path, (), file.problem))
        else:
            words = "new" if file.before is None else "deleted" if file.after is None else ""
            found.append(FileDiff(file.path, tuple(diff_lines(file.before or b"", file.after or b"")), words))
    return found


def _find_moved(files: Sequence[FileVersions]) -> dict[str, str]:
    """Return where files went that are gone from one path and new at another."""
    new = {file.after: file.path for file in files if file.before is None and file.after}
    return {
        file.path: new.pop(file.before)
        for file in files
        if file.after is None and file.before is not None and file.before in new
    }


def describe_made(made: ChangesMade) -> str:
    """Return how much a call changed, on a line; what a row says after the call."""
    files, every = diff_files(made), sum(made.counts.values())
    added, removed = (sum(way) for way in zip(*(file.counts for file in files), strict=True)) if files else (0, 0)
    if len(files) == 1 == len(made.files) == every:
        return files[0].describe()
    return ", ".join(part for part in (describe_counts(made.counts), format_counts(added, removed)) if part)


def format_made(made: ChangesMade, width: int, hint: str = "", *, whole: bool = False) -> Iterator[Text]:
    """Yield commits and differences. Short ones are whole; of long ones there is the beginning, and a row that says how
    much more there is and, in `hint`, how to see it."""
    files = diff_files(made)
    yield from _format_files(files, width, hint, named=len(files) > 1 or sum(made.counts.values()) > 1, whole=whole)
    if made.unread:
        yield from format_labelled("", f"and {pluralise(made.unread, 'file')} more", width, CARE, room=_ROOM)
    for commit in made.commits:
        committed = [FileDiff(path, lines) for path, lines in parse_patch(commit.patch)]
        added, removed = count_lines([line for file in committed for line in file.lines])
        much = ", ".join(filter(None, (pluralise(len(committed), "file"), format_counts(added, removed))))
        said = f"{commit.id} {commit.subject}: {much}"
        yield from format_labelled("commit", said, width, label_style=NAME, room=_ROOM)
        yield from _format_files(committed, width, hint, named=True, whole=whole)


def _format_files(files: Sequence[FileDiff], width: int, hint: str, *, named: bool, whole: bool) -> Iterator[Text]:
    every = sum(len(file.lines) for file in files)
    left = every if whole or every <= SHORT else BEGIN
    for number, file in enumerate(files):
        if not whole and number == FILES:
            yield from format_labelled("", f"and {pluralise(len(files) - FILES, 'file')} more", width, CARE, room=_ROOM)
            break
        if named or not file.lines:
            yield from format_labelled("file", f"{file.path}: {file.describe()}", width, room=_ROOM)
        yield from format_diff(file.lines[:left], width)
        left = max(0, left - len(file.lines))
    if not whole and every > SHORT:
        yield from format_labelled("cut", f"{pluralise(every - BEGIN, 'line')} more{hint}", width, CARE, room=_ROOM)
