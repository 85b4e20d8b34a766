"""Globs over canonical ids, and the paths they protect: the agent's own files, git's internals, what holds secrets.

`*` and `?` stay within a path segment, `**` crosses segments. Matched by RE2, in linear time.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import re2

from foregate.policy.policy import Policy
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import scrub

_LONGEST = 1024
_OPTIONS = re2.Options()
_OPTIONS.dot_nl = True
_OPTIONS.never_nl = False
_OPTIONS.log_errors = False


def matches(pattern: str, name: str, *, fold: bool = False) -> bool:
    """Whether the whole `name` matches. `fold` ignores case and the Unicode form, for forbidding, never for allowing.

    `**/` also stands for nothing and `/**` for the directory itself: `**/x` matches `x`, and `x/**` matches `x`.
    Raises ValueError for a pattern longer than 1024 characters.
    """
    if fold:
        pattern, name = fold_name(pattern), fold_name(name)
    return compile_glob(pattern).fullmatch(scrub(name)) is not None


def matches_beneath(pattern: str, name: str) -> bool:
    """Whether `name` or a directory above it matches, without regard to case: what a forbidding pattern protects."""
    pattern, name = fold_name(pattern).rstrip("/"), fold_name(name)
    return compile_glob(f"{pattern}/**").fullmatch(scrub(name)) is not None


def may_hold(directory: str, pattern: str) -> bool:
    """Whether something that matches could lie beneath `directory`, without regard to case."""
    if directory in (".", ""):
        return not pattern.startswith("/")
    name = scrub(fold_name(directory))
    return any(compile_glob(glob).fullmatch(name) is not None for glob in list_holders(fold_name(pattern)))


def list_holders(pattern: str) -> list[str]:
    """Return the globs of the folders beneath which something may match.

    >>> list_holders("src/**/x")
    ['src', 'src/**', 'src/**']
    """
    ends = (found.end() if found[0] != "/" else found.start() for found in _REACHES.finditer(pattern))
    return [pattern[:end] for end in ends]


# "/" in "src/*.py".
_REACHES = compile_late(r"\*\*+|/")
"""What in a glob a folder may end at, above what matches."""


def matches_text(pattern: str, text: str) -> bool:
    """Whether `*` and `?` match the whole of a text that is no path, such as a tool's name or a command's word."""
    if "*" not in pattern and "?" not in pattern and len(pattern) <= _LONGEST:
        same = pattern == text
        return same if same or pattern.isascii() else scrub(pattern) == scrub(text)
    return compile_glob(pattern, False).fullmatch(scrub(text)) is not None


def fold_name(name: str) -> str:
    """Return a name as file systems without case would compare it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@lru_cache(maxsize=4096)
def compile_glob(pattern: str, paths: bool = True) -> Any:
    """Return the compiled form of a glob; raise ValueError for one that is too long or too large."""
    if len(pattern) > _LONGEST:
        raise ValueError(f"a pattern has more than {_LONGEST} characters; shorten it")
    try:
        return re2.compile(build_expression(scrub(pattern), paths), _OPTIONS)
    except re2.error:
        raise ValueError(f"the pattern `{pattern[:80]}` is too large; shorten it") from None


def build_expression(pattern: str, paths: bool) -> str:
    """Return the regular expression a glob stands for; in one of plain text every star crosses everything."""
    known = _OF_PATHS if paths else _OF_TEXTS
    pieces = split_glob(pattern, paths)
    return "".join(known.get(piece) or (".*" if piece[:2] == "**" else re2.escape(piece)) for piece in pieces)


def split_glob(pattern: str, paths: bool) -> Sequence[str]:
    """Return what a glob consists of: its stars and question marks, with the slashes they take along, and text."""
    return _PIECE.findall(pattern) if paths else pattern


# "src/**/*.py" is "src", "/", "**/", "*", ".py".
_PIECE = compile_late(r"/\*\*\Z|(?<![^/])\*\*/|\*\*+|[*?]|[^*?/]+|/")
_OF_PATHS = {"/**": "(?:/.*)?", "**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
_OF_TEXTS = {"*": ".*", "?": "."}


def find_protection(path: str, policy: Policy) -> str:
    """Return why a canonical path may not be touched (`git_internal`, `foregate`, `secret`), "" when it may."""
    if not is_beneath(path, policy.files.guarded):
        return ""
    if is_off_limits(path, policy):
        return "git_internal" if ".git" in fold_path(path) else "foregate"
    return "secret" if is_beneath(path, policy.files.secret) and not is_example(path, policy) else ""


def is_example(path: str, policy: Policy) -> bool:
    """Whether a path is a secret one whose own name says that it is an example, outside secret folders."""
    folder, _, name = path.rpartition("/")
    return is_beneath(name, policy.sensitive.values.besides) and not is_beneath(folder, policy.files.secret)


PARTS_OF_REPOSITORY = ("head", "config", "hooks", "objects", "refs")
"""What git looks for in a folder that is a repository, in lower case."""


def may_run_by_itself(path: str, policy: Policy) -> bool:
    """Whether a change of a path may decide what a program runs unasked, by its name alone; see `self_running`."""
    return _has_part_of(path, policy.files.self_running)


@lru_cache(maxsize=1024)
def _has_part_of(path: str, lists: frozenset[tuple[str, ...]]) -> bool:
    """Whether a path is of one of the lists of globs, or, where there are any, a part of a repository."""
    for patterns in lists:
        if is_beneath(path, patterns):
            return True
    return bool(lists) and not set(PARTS_OF_REPOSITORY).isdisjoint(fold_path(path).split("/"))


def is_off_limits(path: str, policy: Policy) -> bool:
    """Whether nothing of the agent may ever change the path, whatever was judged."""
    return is_beneath(path, policy.files.protected)


# ". " in "notes.txt. ".
_TRAILING = compile_late(r"(?<=[^/. ])[. ]+(?=/|\Z)")
"""Dots and blanks at the end of a name, which Windows leaves out; a name of nothing else stays."""


def fold_path(path: str) -> str:
    """Return a path as a file system that ignores case, form, invisible characters and trailing dots or blanks would
    compare it."""
    folded = path.lower()
    if not path.isascii():
        folded = unicodedata.normalize("NFKC", path).casefold()
        folded = "".join(char for char in folded if unicodedata.category(char) != "Cf")
    return _TRAILING.sub("", folded)


@lru_cache(maxsize=2048)
def is_beneath(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a path or a directory above it matches one of the globs, compared by `fold`.

    A glob without a slash that holds a `*` or `?`, such as `*.pem`, is compared with names at every depth. A glob that
    cannot be compared at all matches everything.
    """
    if not patterns:
        return False
    try:
        expression = _compile_beneath(patterns)
    except ValueError:
        return True
    return expression.fullmatch(scrub(fold_name(fold_path(path)))) is not None


@lru_cache(maxsize=64)
def _compile_beneath(patterns: tuple[str, ...]) -> Any:
    """Return one expression for all globs, as a secret file is searched for among all names of a workspace."""
    globs = (fold_name(extend_glob(fold_path(pattern))).rstrip("/") for pattern in patterns)
    expressions = []
    for glob in globs:
        # One that is too long or too large.
        compile_glob(f"{glob}/**")
        expressions.append(build_expression(scrub(f"{glob}/**"), paths=True))
    try:
        return re2.compile("|".join(f"(?:{expression})" for expression in expressions), _OPTIONS)
    except re2.error:
        raise ValueError("the patterns together are too large; shorten them") from None


def extend_glob(pattern: str) -> str:
    """Return the glob that also matches further down what a glob about a bare name matches at the top."""
    return f"**/{pattern}" if "/" not in pattern and ("*" in pattern or "?" in pattern) else pattern
