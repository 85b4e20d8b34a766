"""A suggestion: a fragment of a policy in a file, under a comment that says what it would do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path as FilePath
from textwrap import wrap

from msgspec import Struct

from foregate.policy.source.edit import TextChange, change_text, list_changes
from foregate.policy.source.layers import Layer, build_layer, read_text
from foregate.schemas.errors import UsageError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.visible import make_visible

# "fewer-questions".
_ID = compile_late(r"[a-z0-9][a-z0-9-]{0,63}")
_WIDTH = 96
_MARK = "# A suggestion for a Foregate policy; `foregate policy apply` lays it over yours."


class Suggestion(Struct, frozen=True):
    """What a file suggests: the words above it, a paragraph each, and what it changes."""

    words: tuple[str, ...]
    changes: tuple[TextChange, ...]
    layer: Layer


def format_suggestion(words: Sequence[str], changes: Iterable[TextChange]) -> str:
    """Return the text of a suggestion's file; `words` are paragraphs for whoever decides about it."""
    paragraphs = ["\n".join(f"# {line}" for line in wrap(make_visible(said), _WIDTH)) for said in words if said.strip()]
    return change_text("\n#\n".join([_MARK, *paragraphs]) + "\n", "the suggestion", changes)


def read_suggestion(file: FilePath) -> Suggestion:
    """Return what a file suggests; any fragment of a policy is a suggestion. Raises PolicyError for what is none."""
    text = read_text(file, kind="suggestion")
    layer = build_layer(str(file), file.name, text, kind="suggestion")
    return Suggestion(read_words(text.splitlines()), tuple(list_changes(layer.data)), layer)


def read_words(lines: Iterable[str]) -> tuple[str, ...]:
    """Return the paragraphs of the comment a file begins with, but for the line that says what the file is."""
    paragraphs: list[list[str]] = [[]]
    for line in lines:
        if not line.startswith("#"):
            break
        said = line.strip().lstrip("#").strip()
        if said and line.strip() != _MARK:
            paragraphs[-1].append(said)
        elif paragraphs[-1]:
            paragraphs.append([])
    return tuple(" ".join(lines) for lines in paragraphs if lines)


def find_suggestion(named: str, folder: FilePath) -> FilePath:
    """Return the file of a suggestion by its id, which is kept in `folder`, or by its path.

    An id never means a file of the current folder; such a file is named with its ending, or as `./NAME`. Raises
    UsageError for an unknown id.
    """
    if not _ID.fullmatch(named):
        return FilePath(named).expanduser()
    file = folder / f"{named}.yaml"
    if not file.is_file():
        known = ", ".join(f"`{one.stem}`" for one in sorted(folder.glob("*.yaml"))[-5:])
        hint = f"the newest are {known}" if known else "`foregate policy suggest` makes one"
        raise UsageError(f"there is no suggestion `{named}`; {hint}, and a file is named as `./{named}`")
    return file
