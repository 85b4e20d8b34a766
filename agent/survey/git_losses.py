"""What a sandbox took away of a repository that git could not bring back: branches, tags and stashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from foregate.agent.workspace.git_repository import GitRepository
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.sandbox import SandboxedChanges

_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_PACKED_NAME = re.compile(r"^([0-9a-f]{40,64}) (refs/\S+)$", re.MULTILINE)
_LOGGED = re.compile(r"^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ", re.MULTILINE)
_HEAD, _HEAD_LOG, _PACKED, _STASH, _STASH_LOG = "HEAD", "logs/HEAD", "packed-refs", "refs/stash", "logs/refs/stash"
_FORM = ("--raw", "--no-abbrev", "-z", "--no-renames", "--no-ext-diff", "--no-textconv")


class GitLosses:
    """Compares a repository with what a sandbox made of it."""

    def __init__(self, repository: GitRepository, found: SandboxedChanges) -> None:
        self._repository, self._upper = repository, Path(found.upper, "upper")
        self._limit = repository.policy.files.max_hash
        self._changes = {change.path: change for change in found.changes}
        folder = f"{repository.git}/"
        self._inside = [path.removeprefix(folder) for path in self._changes if path.startswith(folder)]

    def list_lost(self) -> Iterator[str]:
        """Yield the branches, tags, stashes and parts of the git folder that are gone, by the names a person uses.

        What another name, a later commit or the log of HEAD still leads to is not lost, and neither is a stash whose
        files lie in the workspace as it held them. Raises WorkspaceError where git cannot be asked.
        """
        if _HEAD in self._inside and not self._read_after(self._at(_HEAD)):
            yield self._at(_HEAD)
        if any(name.startswith(("refs/", _STASH_LOG, _PACKED)) for name in self._inside):
            yield from self._list_lost_names()

    def _list_lost_names(self) -> Iterator[str]:
        text = self._read_after(self._at(_PACKED)).decode("utf-8", "replace")
        packed = {name: commit for commit, name in _PACKED_NAME.findall(text)}
        names = {*self._names, *packed, *(name for name in self._inside if name.startswith("refs/"))}
        now = {name: commit for name in names if (commit := self._find_now(name, packed))}
        logged = {commit for pair in self._read_log(self._read_after, _HEAD_LOG) for commit in pair}
        for name in self._names.keys() - now.keys() - {_STASH}:
            commit = self._names[name]
            if commit not in {*now.values(), *logged} and not self._is_contained(commit, now):
                yield re.sub(r"\Arefs/(?:heads/|tags/)?", "", name)
        stashes = {stash for _, stash in self._read_log(self._read_before, _STASH_LOG)}
        kept = {stash for _, stash in self._read_log(self._read_after, _STASH_LOG)} | {*now.values()}
        if not all(map(self._is_laid_out, stashes - kept)):
            yield "stash"

    @cached_property
    def _names(self) -> Mapping[str, str]:
        said = self._repository.run("for-each-ref", "--format=%(objectname) %(refname)").read_whole("its names")
        return dict(line.split(" ", 1)[::-1] for line in said.decode("utf-8", "replace").splitlines())

    def _find_now(self, name: str, packed: Mapping[str, str]) -> str:
        """Return what a name leads to once the changes are applied, "" for nothing."""
        said = self._read_after(self._at(name)).decode("utf-8", "replace").strip()
        return said if _HASH.match(said) or said.startswith("ref: ") else packed.get(name, "")

    def _is_contained(self, commit: str, now: Mapping[str, str]) -> bool:
        """Whether a name that stays led to a commit already."""
        listed = self._repository.run("for-each-ref", f"--contains={commit}", "--format=%(refname)", check=False)
        return any(name in now for name in listed.read_whole("what leads there").decode("utf-8", "replace").split())

    def _is_laid_out(self, stash: str) -> bool:
        """Whether the files of a stash lie in the workspace as it holds them, as `git stash pop` leaves them."""
        said = self._repository.run("diff", *_FORM, f"{stash}^1", stash, check=False).read_whole("what a stash holds")
        entries = said.decode("utf-8", "surrogateescape").split("\0")
        for about, name in zip(entries[::2], entries[1::2], strict=False):
            wanted = about.split(" ")[3]  # `:mode mode hash hash kind`
            content = self._read_after(self._repository.to_workspace_path(name))
            if wanted.strip("0") and _hash_object(content, wanted) != wanted:
                return False
        return len(entries) > 1

    def _at(self, name: str) -> str:
        return f"{self._repository.git}/{name}"

    def _read_log(self, read: Callable[[str], bytes], name: str) -> list[tuple[str, str]]:
        """Return the pairs of commits in a log of git's, the old and the new one."""
        return _LOGGED.findall(read(self._at(name)).decode("utf-8", "replace"))

    def _read_before(self, path: str) -> bytes:
        """Return what a file of the workspace holds, nothing where there is none."""
        try:
            return self._repository.workspace.read(path, limit=self._limit)
        except WorkspaceError:
            return b""

    def _read_after(self, path: str) -> bytes:
        """Return what a file holds once the changes are applied, nothing where there is none."""
        change = self._changes.get(path)
        if change is None:
            return self._read_before(path)
        is_read = change.after.kind == "file" and change.after.size <= self._limit
        return (self._upper / path).read_bytes() if is_read else b""


def _hash_object(content: bytes, like: str) -> str:
    kind = "sha1" if len(like) == 40 else "sha256"
    return hashlib.new(kind, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
