"""What a sandbox took away of a repository that git could not bring back: branches, tags and stashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from pathlib import Path

from foregate.agent.workspace.git_repository import GitRepository
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import SandboxedChanges

# "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"; 64 digits where the repository uses SHA-256.
_HASH = compile_late(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
# "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b refs/heads/main".
_PACKED_NAME = compile_late(r"^([0-9a-f]{40,64}) (refs/\S+)$", re.MULTILINE)
# "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b 0000000000000000000000000000000000000000 ".
_LOGGED = compile_late(r"^([0-9a-f]{40,64}) ([0-9a-f]{40,64}) ", re.MULTILINE)
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

        What another name, a later commit or the log of HEAD still leads to is not lost. Neither is a stash whose files
        lie in the workspace unchanged. Raises WorkspaceError where git cannot be asked.
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
        kept = {*now.values(), *self._list_logged(_HEAD_LOG)}
        moved = [name for name, commit in self._names.items() if name != _STASH and now.get(name) != commit]
        # Of a name that is gone git shows no log either.
        for name in now.keys() & moved:
            kept |= self._list_logged(f"logs/{name}")
        for name in moved:
            is_gone = name not in now or name.startswith("refs/tags/") or self._read_before(self._at(f"logs/{name}"))
            if is_gone and self._names[name] not in kept and not self._is_contained(self._names[name], kept):
                yield re.sub(r"\Arefs/(?:heads/|tags/)?", "", name)
        stashes = {stash for _, stash in _read_log(self._read_before(self._at(_STASH_LOG)))}
        if not all(map(self._is_laid_out, stashes - {*now.values(), *self._list_logged(_STASH_LOG)})):
            yield "stash"

    @cached_property
    def _names(self) -> Mapping[str, str]:
        said = self._repository.run("for-each-ref", "--format=%(objectname) %(refname)").read_whole("its names")
        return dict(line.split(" ", 1)[::-1] for line in said.decode("utf-8", "replace").splitlines())

    def _find_now(self, name: str, packed: Mapping[str, str]) -> str:
        """Return what a name leads to once the changes are applied, "" for nothing."""
        said = self._read_after(self._at(name)).decode("utf-8", "replace").strip()
        return said if _HASH.match(said) or said.startswith("ref: ") else packed.get(name, "")

    def _is_contained(self, commit: str, kept: Collection[str]) -> bool:
        """Whether a name led to a commit already whose own one is kept."""
        listed = self._repository.run("for-each-ref", f"--contains={commit}", "--format=%(objectname)", check=False)
        return not {*listed.read_whole("what leads there").decode("utf-8", "replace").split()}.isdisjoint(kept)

    def _is_laid_out(self, stash: str) -> bool:
        """Whether the files of a stash lie in the workspace as it holds them, as `git stash pop` leaves them."""
        # A stash is a commit: its first parent is what it was made on, its third holds untracked files.
        changed = self._list_files("diff", f"{stash}^1", stash)
        untracked = self._list_files("log", "--max-count=1", "--format=", f"{stash}^3")
        for about, name in (*changed, *untracked):
            # `:mode mode hash hash kind`.
            wanted = about.split(" ")[3]
            content = self._read_after(self._repository.to_workspace_path(name))
            if wanted.strip("0") and _hash_object(content, wanted) != wanted:
                return False
        return bool(changed or untracked)

    def _list_files(self, *words: str) -> list[tuple[str, str]]:
        """Return what git says of each file of a difference, and its name; nothing where there is no such commit."""
        said = self._repository.run(words[0], *_FORM, *words[1:], "--", check=False).read_whole("what a stash holds")
        entries = said.decode("utf-8", "surrogateescape").split("\0")
        return list(zip(entries[::2], entries[1::2], strict=False))

    def _at(self, name: str) -> str:
        return f"{self._repository.git}/{name}"

    def _list_logged(self, name: str) -> set[str]:
        """Return the commits in a log of git's as it will be, the old and the new ones."""
        return {commit for pair in _read_log(self._read_after(self._at(name))) for commit in pair}

    def _read_before(self, path: str) -> bytes:
        """Return what a file of the workspace holds, nothing for no file."""
        try:
            return self._repository.workspace.read(path, limit=self._limit)
        except WorkspaceError:
            return b""

    def _read_after(self, path: str) -> bytes:
        """Return what a file holds once the changes are applied, nothing for no file."""
        change = self._changes.get(path)
        if change is None:
            return self._read_before(path)
        is_read = change.after.kind == "file" and change.after.size <= self._limit
        return (self._upper / path).read_bytes() if is_read else b""


def _read_log(log: bytes) -> list[tuple[str, str]]:
    """Return the pairs of commits in a log of git's, the old and the new one."""
    return _LOGGED.findall(log.decode("utf-8", "replace"))


def _hash_object(content: bytes, like: str) -> str:
    kind = "sha1" if len(like) == 40 else "sha256"
    return hashlib.new(kind, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()
