"""Applying a unified diff to one file: every line must be there exactly, or nothing changes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from foregate.schemas.errors import WorkspaceError

_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_IGNORED = (b"diff --git ", b"index ", b"old mode ", b"new mode ")


@dataclass(slots=True)
class Hunk:
    """One hunk: the line it starts at, counted from 1, and the lines before and after, with their line ends."""

    number: int
    start: int
    counts: tuple[int, int]
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)
    last: bytes = b""

    @property
    def is_full(self) -> bool:
        """Whether as many lines were read as the header says."""
        return (len(self.old), len(self.new)) == self.counts


class PatchError(WorkspaceError):
    """A diff that cannot be read or does not apply; nothing was changed."""


def apply_diff(data: bytes, diff: bytes, path: str) -> bytes:
    """Return `data` with `diff` applied; raise PatchError naming the first hunk that does not fit.

    Context and removed lines must match byte for byte. Where the line number of a hunk is off, its lines must occur
    exactly once in what is left of the file.
    """
    lines = split_lines(data)
    result: list[bytes] = []
    done = 0
    for hunk in parse_diff(diff, path):
        at = find_place(hunk, lines, done)
        result.extend(lines[done:at])
        result.extend(hunk.new)
        done = at + len(hunk.old)
    result.extend(lines[done:])
    if any(not line.endswith(b"\n") for line in result[:-1]):
        raise PatchError("the diff adds lines after one that has no end of line; give the whole end of the file")
    return b"".join(result)


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of `data`, cut only at line feeds."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def find_place(hunk: Hunk, lines: list[bytes], done: int) -> int:
    """Return the index where the hunk's old lines stand, at or after `done`."""
    stated = hunk.start - 1 if hunk.old else hunk.start
    if done <= stated <= len(lines) and lines[stated : stated + len(hunk.old)] == hunk.old:
        return stated
    if not hunk.old:
        raise PatchError(f"hunk {hunk.number} adds lines beyond the end of the file; give lines around them")
    size = len(hunk.old)
    places = [at for at in range(done, len(lines) - size + 1) if lines[at : at + size] == hunk.old]
    if len(places) != 1:
        found = "were not found" if not places else f"occur {len(places)} times and not at line {hunk.start}"
        raise PatchError(f"hunk {hunk.number}: its lines {found}; read the file and give them exactly as they are")
    return places[0]


def parse_diff(diff: bytes, path: str) -> list[Hunk]:
    """Return the hunks of a unified diff for one file."""
    hunks: list[Hunk] = []
    files = 0
    for line in split_lines(diff):
        hunk = hunks[-1] if hunks else None
        if hunk is not None and line.startswith(b"\\"):
            drop_last_newline(hunk)
        elif hunk is not None and not hunk.is_full:
            add_line(hunk, line)
        elif line.startswith(b"@@"):
            hunks.append(parse_header(line, len(hunks) + 1))
        elif line.startswith((b"--- ", b"+++ ")):
            files += line.startswith(b"--- ")
            check_names(line, path)
        elif line.strip() and not line.startswith(_IGNORED):
            raise PatchError(f"line `{line[:60].decode('utf-8', 'replace').strip()}` is no part of a unified diff")
    if not hunks or not hunks[-1].is_full:
        raise PatchError("the diff has no hunk, or its last one is cut short; check the counts after `@@`")
    if files > 1:
        raise PatchError("the diff is for several files; send one call per file")
    return hunks


def parse_header(line: bytes, number: int) -> Hunk:
    """Return the empty hunk a `@@` line announces."""
    match = _HUNK.match(line)
    if match is None:
        raise PatchError(f"hunk {number} has no header of the form `@@ -1,2 +1,3 @@`")
    old, new = (int(count) if count is not None else 1 for count in (match[2], match[4]))
    return Hunk(number, int(match[1]), (old, new))


def add_line(hunk: Hunk, line: bytes) -> None:
    """Take one line into the hunk."""
    sign, rest = line[:1], line[1:]
    if sign == b"\n":
        sign, rest = b" ", b"\n"
    if sign not in (b" ", b"-", b"+"):
        raise PatchError(f"hunk {hunk.number} ends early; check the counts after `@@`")
    if not rest.endswith(b"\n"):
        rest += b"\n"
    if sign != b"+":
        hunk.old.append(rest)
    if sign != b"-":
        hunk.new.append(rest)
    if len(hunk.old) > hunk.counts[0] or len(hunk.new) > hunk.counts[1]:
        raise PatchError(f"hunk {hunk.number} has more lines than its header says; check the counts after `@@`")
    hunk.last = sign


def drop_last_newline(hunk: Hunk) -> None:
    """Take `\\ No newline at end of file`: the line before it has no end of line."""
    for side, sign in ((hunk.old, b"+"), (hunk.new, b"-")):
        if hunk.last and hunk.last != sign and side:
            side[-1] = side[-1].removesuffix(b"\n")


def check_names(line: bytes, path: str) -> None:
    """Raise PatchError when a `---` or `+++` line names another file than `path`."""
    name = line[4:].split(b"\t")[0].strip().decode("utf-8", "replace")
    prefix = "a/" if line.startswith(b"-") else "b/"
    if path not in (name, name.removeprefix(prefix), name.removeprefix("./")):
        raise PatchError(f"the diff is for `{name[:80]}`, the call for `{path[:80]}`; they must be the same file")
