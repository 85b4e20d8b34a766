"""What a finished call made of files, and other bytes a log refers to: shown only where they are what they claim."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import overload

from foregate.agent.loop.changes_made import ChangesMade, FileVersions
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.protocols import Blobs
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Change
from foregate.schemas.tool_spec import ResourceKind
from foregate.views.terminal.diff import DiffLine
from foregate.views.terminal.made import FileDiff, diff_files

_LARGEST, _SEEN = 1_000_000, 200
"""Characters of a text that is remembered, and how many are."""
FILES = 20
"""Changed files of one call whose contents a page shows."""
LINES = 400
"""Lines of one difference a page shows."""
LONGEST_LINE = 400
LARGEST = 1_000_000
"""Bytes of a file that is compared."""
_GONE = "its contents are not kept in the log"


def _show_all(text: str) -> str:
    return text


class KeptBytes:
    """What a blob store holds for a page; `hide` masks the texts of it. Without a store nothing is kept."""

    def __init__(self, blobs: Blobs | None, hide: Callable[[str], str] = _show_all) -> None:
        self._blobs, self.hide = blobs, hide
        self._seen: dict[str, bytes] = {}

    @property
    def is_at_hand(self) -> bool:
        """Whether there is a store at all."""
        return self._blobs is not None

    def find(self, hash_: str) -> bytes | None:
        """Return the bytes of this hash as they were, None where they are gone or others."""
        if hash_ in self._seen:
            return self._seen[hash_]
        if self._blobs is None:
            return None
        try:
            data = self._blobs.get(hash_)
        except ForegateError:
            return None
        return data if strict_json.sha256(data) == hash_ else None

    def remember(self, text: str, hashes: Collection[str]) -> None:
        """Keep a text that an event holds, where it is what one of the hashes names: a whole file that was read."""
        if not hashes or len(text) > _LARGEST:
            return
        data = text.encode("utf-8", "surrogatepass")
        if (hash_ := strict_json.sha256(data)) in hashes:
            self._seen[hash_] = data
            if len(self._seen) > _SEEN:
                del self._seen[next(iter(self._seen))]

    @overload
    def mask(self, data: bytes) -> bytes: ...
    @overload
    def mask(self, data: None) -> None: ...
    def mask(self, data: bytes | None) -> bytes | None:
        """Return bytes with what is to be masked in them masked; the same bytes where nothing is, None for None."""
        if data is None:
            return None
        text = data.decode("utf-8", "surrogateescape")
        shown = self.hide(text)
        return data if shown is text else shown.encode("utf-8", "surrogateescape")


def read_diffs(changes: Sequence[Change], arguments: Mapping[str, Json] | None, kept: KeptBytes) -> list[FileDiff]:
    """Return what became of each changed file, in lines where both contents are known by their hashes."""
    files = [change for change in changes if change.resource.kind is ResourceKind.FILE]
    made = ChangesMade(files=tuple(_read_versions(change, arguments, kept) for change in files[:FILES]))
    return [_cut_diff(diff) for diff in diff_files(made)]


def count_unread(changes: Sequence[Change]) -> int:
    """Return how many changed files `read_diffs` leaves out."""
    return max(0, sum(change.resource.kind is ResourceKind.FILE for change in changes) - FILES)


def _cut_diff(diff: FileDiff) -> FileDiff:
    lines = tuple(DiffLine(line.sign, line.text[:LONGEST_LINE]) for line in diff.lines[:LINES])
    if (left := len(diff.lines) - len(lines)) > 0:
        lines = (*lines, DiffLine("\\", f"{left} lines more"))
    return FileDiff(diff.path, lines, diff.words)


def _read_versions(change: Change, arguments: Mapping[str, Json] | None, kept: KeptBytes) -> FileVersions:
    path = change.resource.id
    before = kept.find(change.before) if change.before else None
    if change.before and before is None:
        return FileVersions(path, problem=f"changed; {_GONE}")
    after = None
    if change.after:
        after = kept.find(change.after)
        if after is None:
            found = (data for data in _guess_contents(before, arguments or {}) if _is_content(data, change.after))
            after = next(found, None)
        if after is None:
            return FileVersions(path, problem=f"{'changed' if change.before else 'new'}; {_GONE}")
    if max(len(before or b""), len(after or b"")) > LARGEST:
        return FileVersions(path, problem="too large to compare here")
    if b"\0" in (before or b"") or b"\0" in (after or b""):
        return FileVersions(path, problem="not a text")
    return FileVersions(path, kept.mask(before), kept.mask(after))


def _is_content(data: bytes, hash_: str) -> bool:
    return strict_json.sha256(data) == hash_


def _guess_contents(before: bytes | None, arguments: Mapping[str, Json]) -> Iterator[bytes]:
    """Yield what a call may have written, by its arguments; whoever asks compares the hash."""
    texts = [value.encode("utf-8", "replace") for value in islice(arguments.values(), 12) if isinstance(value, str)]
    yield from texts
    if before is None:
        return
    for old in texts:
        if old and old in before:
            for new in texts:
                if new is not old:
                    yield before.replace(old, new, 1)
                    yield before.replace(old, new)
    for text in texts:
        yield before + text
