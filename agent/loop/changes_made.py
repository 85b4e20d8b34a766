"""What a finished call changed, read again for a person who wants to see it: both versions of files, and commits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from foregate.agent.workspace.git_repository import UNENTERED, seek_repository
from foregate.policy.risk.globs import is_beneath
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.event_body import ToolFinished
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import Change
from foregate.schemas.tool_spec import ResourceKind

if TYPE_CHECKING:
    from foregate.agent.session.session import Session

_READ = 20
"""Files whose contents are read at most; further ones are only counted."""
_SAID = compile_late(r"\[[^\[\]\n]{1,200} ([0-9a-f]{7,40})\] ")
"""How git begins what it says of a commit: `[main 96414a4] subject`."""
# "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b 0000000000000000000000000000000000000000 Ann\tcommit: Typo".
_LOGGED = compile_late(rb"[0-9a-f]{40,64} ([0-9a-f]{40,64}) [^\n]*\tcommit[^\n]*")
"""A line of the log of HEAD that tells of a commit: where HEAD was, where it is, who, when and why."""
_HEAD_LOG = ".git/logs/HEAD"


class FileVersions(Struct, frozen=True):
    """A file before and after a call, None for nothing there; `problem` says why the contents cannot be shown."""

    path: str
    before: bytes | None = None
    after: bytes | None = None
    problem: str = ""


class Commit(Struct, frozen=True):
    """A commit: its abbreviated hash, the first line of its message, and the patch as git writes it."""

    id: str
    subject: str
    patch: str


class ChangesMade(Struct, frozen=True):
    """What a call changed. `counts` says how many paths by effect, git's own left out; `files` are those whose contents
    a person reads, without what builds and programs keep for themselves. `unread` counts those beyond the number that
    is read."""

    counts: dict[str, int] = {}
    files: tuple[FileVersions, ...] = ()
    unread: int = 0
    commits: tuple[Commit, ...] = ()


def read_changes_made(session: Session, body: ToolFinished) -> ChangesMade:
    """Return what a call changed; what cannot be read any more is named with the reason."""
    policy, counts = session.policy, dict.fromkeys(("create", "edit", "delete"), 0)
    shown: list[Change] = []
    for change in body.changes:
        path = change.resource.id
        if change.resource.kind not in (ResourceKind.FILE, ResourceKind.DIRECTORY) or _is_of_git(path):
            continue
        counts["create" if not change.before else "edit" if change.after else "delete"] += 1
        kept_by_programs = is_beneath(path, (*policy.files.build_output, *policy.files.executed_caches))
        if change.resource.kind is ResourceKind.FILE and not kept_by_programs:
            shown.append(change)
    files = tuple(_read_versions(session, change) for change in shown[:_READ])
    return ChangesMade(counts, files, max(0, len(shown) - _READ), tuple(_read_commits(session, body)))


def _is_of_git(path: str) -> bool:
    return ".git" in path.split("/")


def _read_versions(session: Session, change: Change) -> FileVersions:
    """Return both contents: what was there from its image, what is there from the file, or from a later image of it."""
    path = change.resource.id
    try:
        before = session.blobs.get(change.before) if change.before else None
    except ForegateError:
        return FileVersions(path, problem="what was there before was not kept")
    try:
        after = _read_after(session, change) if change.after else None
    except ForegateError:
        return FileVersions(path, problem="it was changed again since, and what it held then was not kept")
    if max(len(before or b""), len(after or b"")) > session.policy.files.max_read:
        return FileVersions(path, problem="larger than one read")
    if b"\0" in (before or b"") or b"\0" in (after or b""):
        return FileVersions(path, problem="not a text")
    return FileVersions(path, before, after)


def _read_after(session: Session, change: Change) -> bytes:
    path, largest = change.resource.id, session.policy.files.max_read
    try:
        data = session.workspace.read(path, limit=largest + 1)
        if len(data) > largest or strict_json.sha256(data) == change.after:
            return data
    except ForegateError:
        # It is gone, or something else by now.
        pass
    return session.blobs.get(change.after)


def _read_commits(session: Session, body: ToolFinished) -> Iterator[Commit]:
    for folder, name in _find_commits(session, body):
        try:
            repository = seek_repository(session.workspace, session.policy, folder)
            if repository is None:
                continue
            repository.check_safe()
            form = ("--format=%h %s", "--no-show-signature", "--no-notes", "--patch", "--no-renames", "--cc")
            plain = ("--no-ext-diff", "--no-textconv", "--no-color", UNENTERED)
            ran = repository.run("log", *form, *plain, "--max-count=1", name, "--")
            head, _, patch = ran.out.text()[0].partition("\n")
        except ForegateError:
            continue
        id_, _, subject = head.partition(" ")
        yield Commit(id_, subject, patch)


def _find_commits(session: Session, body: ToolFinished) -> Sequence[tuple[str, str]]:
    """Return folder and hash of each commit a call made: as git said it, or as the log of HEAD has it."""
    for change in body.changes:
        path = change.resource.id
        if change.resource.kind is ResourceKind.REPOSITORY and (said := _SAID.match(body.content)):
            return [(path, said[1])]
        if change.resource.kind is ResourceKind.FILE and f"/{path}".endswith(f"/{_HEAD_LOG}"):
            folder = path.removesuffix(_HEAD_LOG).rstrip("/") or "."
            try:
                before = session.blobs.get(change.before) if change.before else b""
                now = session.workspace.read(path)
            except ForegateError:
                return []
            return [(folder, found[1].decode("ascii")) for found in _LOGGED.finditer(_cut_log(now, before, change))]
    return []


def _cut_log(now: bytes, before: bytes, change: Change) -> bytes:
    """Return the lines a call added to a log that only grows, "" where it did not; others may have been added since."""
    if not now.startswith(before):
        return b""
    end = len(before)
    while (end := now.find(b"\n", end) + 1) > 0:
        if strict_json.sha256(now[:end]) == change.after:
            return now[len(before) : end]
    return b""
