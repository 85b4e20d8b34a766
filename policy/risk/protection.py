"""Which paths are protected: the agent's own files, git's internals, and what usually holds secrets."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import lru_cache

from foregate.policy.policy import Policy
from foregate.policy.risk.globs import matches_beneath


def find_protection(path: str, policy: Policy) -> str:
    """Return why a canonical path may not be touched (`git_internal`, `foregate`, `secret`), "" when it may."""
    return _find_protection(path, policy.files.protected, policy.files.secret)


@lru_cache(maxsize=1024)
def _find_protection(path: str, protected: tuple[str, ...], secret: tuple[str, ...]) -> str:
    if is_beneath(path, protected):
        return "git_internal" if ".git" in fold_path(path) else "foregate"
    return "secret" if is_beneath(path, secret) else ""


def is_off_limits(path: str, policy: Policy) -> bool:
    """Whether nothing of the agent may ever change the path, whatever was judged."""
    return _is_off_limits(path, policy.files.protected)


@lru_cache(maxsize=1024)
def _is_off_limits(path: str, protected: tuple[str, ...]) -> bool:
    return is_beneath(path, protected)


def fold_path(path: str) -> str:
    """Return a path as a file system that ignores case, form and invisible characters would compare it."""
    if path.isascii():
        return path.lower()
    folded = unicodedata.normalize("NFKC", path).casefold()
    return "".join(char for char in folded if unicodedata.category(char) != "Cf")


def is_beneath(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path or a directory above it matches one of the globs, compared by `fold`.

    A glob without a slash that holds a `*` or `?`, such as `*.pem`, is compared with names at every depth. A glob that
    cannot be compared at all matches everything.
    """
    folded = fold_path(path)
    try:
        return any(matches_beneath(extend_glob(fold_path(pattern)), folded) for pattern in patterns)
    except ValueError:
        return True


def extend_glob(pattern: str) -> str:
    """Return the glob that also matches further down what a glob about a bare name matches at the top."""
    return f"**/{pattern}" if "/" not in pattern and ("*" in pattern or "?" in pattern) else pattern
