"""One thing the rehearsal model was asked for, and how its words are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

Verb = Literal[
    "append",
    "ask_how",
    "commit",
    "create_directory",
    "delegate",
    "delete",
    "diff",
    "explain",
    "fetch",
    "greet",
    "help",
    "list",
    "log",
    "move",
    "overview",
    "read",
    "recall",
    "remember",
    "replace",
    "run",
    "search",
    "shell",
    "status",
    "sweep",
    "unknown",
    "vague",
    "write",
]


class Wish(Struct, frozen=True):
    """One thing asked for. `said` is the clause; the other fields are used as the verb needs them.

    replace: `text` becomes `other` in `target`; move: `target` to `other`; write and append: `text` into `target`;
    remember: `text` under the name `target`;
    read, delete, commit: paths in `words` (commit: none means everything, `text` is the message);
    run: argument vector in `words`; sweep: files matching `text` in `target`; ask_how: `text` says what is missing.
    """

    verb: Verb
    said: str
    target: str = ""
    text: str = ""
    other: str = ""
    words: tuple[str, ...] = ()


class Request(Struct, frozen=True):
    """What a message wants: wishes in order, and whether it wants words and nothing else."""

    wishes: tuple[Wish, ...]
    words_only: bool = False


MARK = re.compile("\x00([0-9]+)\x00")
"""Stands for a quoted passage while a clause is read."""
_PATHLIKE = re.compile(r"^[^\s]*[./\\][^\s]*$|^[A-Z]{3,}$|^Makefile$|^Dockerfile$")


def plain(text: str, quoted: Sequence[str]) -> str:
    """Return a passage with its quoted parts put back, without quotes around them."""
    return MARK.sub(lambda mark: quoted[int(mark.group(1))], text).strip()


def path(text: str, quoted: Sequence[str]) -> str:
    """Return a path as named, without a word like `the file` in front or a comma behind."""
    bare = re.sub(r"^(?:the |my |our |a |all )*(?:file |folder |directory |files )?", "", text, flags=re.IGNORECASE)
    return plain(bare, quoted).rstrip(",").removeprefix("./") or "."


def paths(text: str, quoted: Sequence[str]) -> tuple[str, ...]:
    """Return the paths of a list such as `a.txt, b.txt and c.txt`."""
    parts = re.split(r",? and |, ?", text)
    return tuple(path(part, quoted) for part in parts if part.strip())


def looks_like_path(text: str) -> bool:
    """Whether a word could name a file: it has a dot or a slash, or is a name such as README."""
    return _PATHLIKE.match(text) is not None


def ended(text: str) -> str:
    """Return a text as the lines of a file: with a newline at its end."""
    return text if not text or text.endswith("\n") else f"{text}\n"
