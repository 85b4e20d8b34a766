"""Whether one glob matches whatever another does: the other's wildcards are matched as characters of their own.

`src/*.py` is within `src/**`: the `*` stands for text without a slash, and `**` takes any text. What is claimed is
certain; of globs that take each other in only by several pieces together nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import re2

from foregate.policy.risk.globs import fold_name, list_holders, split_glob
from foregate.schemas.strict_json import scrub

_STANDS_FOR = {"*": "\ue001", "?": "\ue002", "**": "\ue003", "/**": "\ue004", "**/": "\ue005"}
"""The character that stands for each wildcard of the narrower glob."""
_SPECIAL = "".join(_STANDS_FOR.values())
_CROSSING = "\ue003-\ue005"
"""Those whose text may hold a slash."""
_OF_PATHS = {
    "/**": "(?:[/\ue004].*)?",
    "**/": "(?:.*[/\ue005])?",
    "*": f"[^/{_CROSSING}]*",
    "?": f"[^/\ue001{_CROSSING}]",
}
"""What each wildcard of the wider glob takes: `?` takes one character, so never the `*` of the narrower one."""
_OF_TEXTS = {"*": ".*", "?": "[^\ue001]"}
_OPTIONS = re2.Options()
_OPTIONS.dot_nl = True
_OPTIONS.never_nl = False
_OPTIONS.log_errors = False


def is_text_within(narrow: str, wide: str) -> bool:
    """Whether `wide` matches each text that `narrow` does.

    >>> is_text_within("read_*", "*_*"), is_text_within("*_file", "read_*")
    (True, False)
    """
    return _is_within(narrow, wide, paths=False)


def is_path_within(narrow: str, wide: str) -> bool:
    """Whether `wide` matches each path that `narrow` does.

    >>> is_path_within("src/*.py", "src/**"), is_path_within("src/**", "src/*")
    (True, False)
    """
    return _is_within(narrow, wide, paths=True)


def _is_within(narrow: str, wide: str, *, paths: bool) -> bool:
    if any(char in narrow or char in wide for char in _SPECIAL):
        return False
    expression = _compile(wide, paths)
    return expression is not None and expression.fullmatch(_write_as_text(narrow, paths)) is not None


def _write_as_text(glob: str, paths: bool) -> str:
    """Return a glob with a character of its own for each wildcard."""
    anything = _STANDS_FOR["**"]
    pieces = split_glob(scrub(glob), paths)
    return "".join(_STANDS_FOR.get(piece) or (anything if piece[:2] == "**" else piece) for piece in pieces)


@lru_cache(maxsize=2048)
def _compile(glob: str, paths: bool) -> Any:
    """Return the expression of the wider glob, None for one that is too large."""
    known = _OF_PATHS if paths else _OF_TEXTS
    pieces = split_glob(scrub(glob), paths)
    text = "".join(known.get(piece) or (".*" if piece[:2] == "**" else re2.escape(piece)) for piece in pieces)
    try:
        return re2.compile(text, _OPTIONS)
    except re2.error:
        return None


def is_any_within(narrow: Sequence[str], wide: Sequence[str]) -> bool:
    """Whether whatever matches one of some globs of paths matches one of others."""
    return all(any(is_path_within(one, other) for other in wide) for one in narrow)


def protect_beneath(pattern: str) -> str:
    """Return the glob of what a strict rule's glob protects: see `matches_beneath`."""
    return f"{fold_name(pattern).rstrip('/')}/**"


def list_holding(pattern: str) -> list[str]:
    """Return the globs of the folders in which something may match: see `may_hold`."""
    here = [] if pattern.startswith("/") else [".", ""]
    return [*here, *list_holders(fold_name(pattern))]
