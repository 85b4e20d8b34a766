"""One thing the rehearsal model was asked for, and how its words are read."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct


class Wish(Struct, frozen=True):
    """One thing asked for. `said` is the clause; the other fields are used as the kind of wish needs them.

    replace: `text` becomes `other` in `target`; move: `target` to `other`; write and append: `text` into `target`;
    docstring: of the function `text` in `target`; remember: `text` under the name `target`;
    read, delete, commit: paths in `words` (commit: none means everything, `text` is the message);
    run: argument vector in `words`; sweep: files matching `text` in `target`.
    """

    verb: str
    said: str
    target: str = ""
    text: str = ""
    other: str = ""
    words: tuple[str, ...] = ()


class UnderstoodRequest(Struct, frozen=True):
    """What a message wants: wishes in order, and whether it wants words and nothing else."""

    wishes: tuple[Wish, ...]
    words_only: bool = False


MARK = re.compile("\x00([0-9]+)\x00")
"""Stands for a quoted passage while a clause is read."""
_PATHLIKE = re.compile(r"^[^\s]*[./\\][^\s]*$|^[A-Z]{3,}$|^Makefile$|^Dockerfile$")


def unmask(text: str, quoted: Sequence[str]) -> str:
    """Return a passage with its quoted parts put back, without quotes around them."""
    return MARK.sub(lambda mark: quoted[int(mark.group(1))], text).strip()


def read_path(text: str, quoted: Sequence[str]) -> str:
    """Return a path as named, without words like `the ... file` around it or a comma behind it."""
    bare = re.sub(r"^(?:the |my |our |a |all )*(?:file |folder |directory |files )?", "", text, flags=re.IGNORECASE)
    bare = re.sub(r" (?:file|folder|directory)$", "", bare, flags=re.IGNORECASE)
    return unmask(bare, quoted).rstrip(",").removeprefix("./") or "."


def read_paths(text: str, quoted: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of a list such as `a.txt, b.txt and c.txt`."""
    return tuple(read_path(part, quoted) for part in re.split(r",? and |, ?", text) if part.strip())


def is_path_like(text: str) -> bool:
    """Whether a word could name a file: it has a dot or a slash, or is a name such as README."""
    return _PATHLIKE.match(text) is not None


def end_line(text: str) -> str:
    """Return a text as the lines of a file: with a newline at its end."""
    return text if not text or text.endswith("\n") else f"{text}\n"


def short(text: str, longest: int = 80) -> str:
    """Return a text on one line and not longer than `longest` characters."""
    line = " ".join(text.split())
    return line if len(line) <= longest else f"{line[: longest - 1]}\u2026"


def excerpt(text: str, lines: int = 40, width: int = 200) -> str:
    """Return the beginning of a text, saying how many lines are left out."""
    every = text.rstrip("\n").split("\n")
    shown = "\n".join(line[:width] for line in every[:lines])
    return shown if len(every) <= lines else f"{shown}\n({len(every) - lines} more lines)"
