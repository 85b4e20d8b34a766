"""Which paths are protected: the agent's own files, git's internals, and what usually holds secrets."""

from __future__ import annotations

import fnmatch
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from foregate.policy.policy import Policy


def protection(path: str, policy: Policy) -> str:
    """Return why a canonical path may not be touched (`git_internal`, `foregate`, `secret`), "" when it may."""
    return _protection(path, policy.files.protected, policy.files.secret)


@lru_cache(maxsize=1024)
def _protection(path: str, protected: tuple[str, ...], secret: tuple[str, ...]) -> str:
    folded = fold(path)
    if beneath(folded, protected):
        return "git_internal" if ".git" in folded else "foregate"
    return "secret" if beneath(folded, secret) else ""


def off_limits(path: str, policy: Policy) -> bool:
    """Whether nothing of the agent may ever change the path, whatever was judged."""
    return _off_limits(path, policy.files.protected)


@lru_cache(maxsize=1024)
def _off_limits(path: str, protected: tuple[str, ...]) -> bool:
    return beneath(fold(path), protected)


def fold(path: str) -> str:
    """Return a path as a file system that ignores case, form and invisible characters would compare it."""
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFKC", path).casefold()
    return "".join(char for char in folded if unicodedata.category(char) != "Cf")


def beneath(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path or a directory above it matches one of the globs; `**/` also matches nothing."""
    parts = path.split("/")
    ways = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for pattern in patterns:
        forms = [pattern, pattern[3:]] if pattern.startswith("**/") else [pattern]
        if any(fnmatch.fnmatchcase(way, form.casefold()) for way in ways for form in forms):
            return True
    return False
