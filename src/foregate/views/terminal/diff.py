"""The difference of two versions of a file, line by line, and its rows on a terminal. Pure text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby

from msgspec import Struct
from rich.text import Text

from foregate.agent.loop.undo import Preview
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import Json
from foregate.views.terminal.layout import BAD, CARE, GOOD, format_labelled, format_pieces, pluralise

LINES = 40
"""Lines of a change that are shown at first."""
CONTEXT = 3
"""Unchanged lines that are shown before and after a changed one."""
COMPARED = 1_000_000
"""Pairs of lines that are compared at most; with more, all between the first and the last changed line counts."""
Row = tuple[str, str]
"""A sign and a whole line."""
_REMARK = "\\"
_STYLE = {"-": f"not dim {BAD}", "+": f"not dim {GOOD}", " ": "not dim", "@": "dim", _REMARK: "dim"}


class DiffLine(Struct, frozen=True):
    r"""A line of a difference: `sign` is `-`, `+`, ` ` for unchanged, `@` for where it stands, `\` for a remark."""

    sign: str
    text: str


def diff_lines(before: bytes, after: bytes) -> list[DiffLine]:
    """Return what turns `before` into `after` as a unified diff; nothing where they are the same.

    Lines end at line feeds and nowhere else. A byte that is no UTF-8 becomes a lone surrogate, which `visible` shows.
    """
    lines: list[DiffLine] = []
    old = new = 1
    for group, shown in _group_rows(_align_lines(_split_lines(before), _split_lines(after))):
        removed, added = (sum(sign in (" ", way) for sign, _ in group) for way in "-+")
        if shown:
            lines.append(DiffLine("@", f"@ -{old - (not removed)},{removed} +{new - (not added)},{added} @@"))
        for sign, text in group if shown else ():
            lines.append(DiffLine(sign, text.removesuffix("\n")))
            if not text.endswith("\n"):
                lines.append(DiffLine(_REMARK, "No newline at end of file"))
        old, new = old + removed, new + added
    return lines


def diff_change(change: FileChange) -> list[DiffLine]:
    """Return what a change does to its file, which may be new."""
    return diff_lines(change.before or b"", change.after)


def format_unified(lines: Sequence[DiffLine]) -> str:
    return "".join(f"{line.sign}{' ' if line.sign == _REMARK else ''}{line.text}\n" for line in lines)


def parse_patch(patch: str) -> list[tuple[str, tuple[DiffLine, ...]]]:
    """Return the files of a patch as git writes it, each with its lines; one that is not text has none."""
    files: list[tuple[str, list[DiffLine]]] = []
    inside = False
    for line in patch.split("\n"):
        if line.startswith("diff --"):
            files.append((_read_path(line), []))
            inside = False
        elif files and line.startswith("@@"):
            inside = True
            files[-1][1].append(DiffLine("@", line[1:]))
        elif inside and line[:1] in ("+", "-", " ", _REMARK):
            files[-1][1].append(DiffLine(line[0], line[1:].removeprefix(" ") if line[0] == _REMARK else line[1:]))
    return [(path, tuple(lines)) for path, lines in files]


def _read_path(line: str) -> str:
    """Return the path in `diff --git a/x b/x`, whose halves are alike, or in `diff --cc x`."""
    _, way, rest = line.split(" ", 2)
    return rest[: len(rest) // 2].removeprefix("a/") if way == "--git" else rest


def describe_counts(lines: Sequence[DiffLine]) -> str:
    gone, come = (sum(line.sign == sign for line in lines) for sign in "-+")
    parts = [f"{pluralise(n, 'line')} {how}" for n, how in ((gone, "removed"), (come, "added")) if n]
    return ", ".join(parts) or "nothing: the file holds exactly this already"


def format_diff(lines: Sequence[DiffLine], width: int, most: int = 0, hint: str = "") -> Iterator[Text]:
    """Yield the lines behind bars, `most` at most unless that is 0; `hint` says how to see the others. The sign stands
    in a column of its own, and again, with a `>`, before what did not fit: no text can pose as a sign."""
    for line in lines[: most or None]:
        begin = line.sign if line.sign == "@" else f"{line.sign} "
        yield from format_pieces(line.text, width, begin, f"{line.sign}>", _STYLE[line.sign])
    if 0 < most < len(lines):
        yield from format_labelled("cut", f"{len(lines) - most} lines more{hint}", width, CARE)


def format_change(
    lines: Sequence[DiffLine], width: int, *, new: bool = False, most: int = 0, hint: str = ""
) -> Iterator[Text]:
    """Yield how much changes, and its lines as `format_diff` does."""
    yield from format_labelled("changes", describe_change(lines, new=new), width)
    yield from format_diff(lines, width, most, hint)


def describe_change(lines: Sequence[DiffLine], *, new: bool) -> str:
    """Return how much of a file changes, in words."""
    return f"{'a new file, ' if new else ''}{describe_counts(lines)}"


def _split_lines(data: bytes) -> list[str]:
    """Return the lines of `data` with their line feeds; the last one may lack it."""
    parts = data.decode("utf-8", "surrogateescape").split("\n")
    return [f"{part}\n" for part in parts[:-1]] + parts[-1:] * bool(parts[-1])


def _align_lines(old: Sequence[str], new: Sequence[str]) -> list[Row]:
    """Return every line of both versions, the common ones once."""
    head = _count_common(old, new)
    tail = _count_common(old[head:][::-1], new[head:][::-1])
    a, b = old[head : len(old) - tail], new[head : len(new) - tail]
    every, steps = [(" ", line) for line in old[:head]], [("replace", 0, len(a), 0, len(b))]
    if len(a) * len(b) <= COMPARED:
        steps = [*SequenceMatcher(None, a, b).get_opcodes()]
    for kind, a_begin, a_end, b_begin, b_end in steps:
        if kind == "equal":
            every += [(" ", line) for line in a[a_begin:a_end]]
        else:
            every += [("-", line) for line in a[a_begin:a_end]] + [("+", line) for line in b[b_begin:b_end]]
    return every + [(" ", line) for line in old[len(old) - tail :]]


def _count_common(a: Sequence[str], b: Sequence[str]) -> int:
    return next((n for n, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def dump_preview(preview: Preview) -> Json:
    """Return what a call would change as JSON; there are no `changes` where no change of a file is known."""
    changes: list[Json] = [
        {"path": change.path, "new": change.before is None, "diff": format_unified(diff_change(change))}
        for change in preview.changes
    ]
    kept, lost = ([resource.id for resource in resources] for resources in (preview.kept, preview.lost))
    return {"changes": changes, "problem": preview.problem, "kept": kept, "lost": lost}


def _group_rows(every: Sequence[Row]) -> Iterator[tuple[Sequence[Row], bool]]:
    """Yield runs of rows and whether they are shown: those near a change are."""
    changed = (place for place, (sign, _) in enumerate(every) if sign != " ")
    near = {place + by for place in changed for by in range(-CONTEXT, CONTEXT + 1)}
    for shown, run in groupby(range(len(every)), near.__contains__):
        yield [every[place] for place in run], shown
