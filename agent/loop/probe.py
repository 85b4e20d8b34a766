"""The outcome of a call that was cut off: what it would have made of the before-images, compared with the present."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from foregate.agent.loop.snapshots import Snapshots
from foregate.agent.tools.builtin_tool import build_change_record
from foregate.agent.tools.files import edit_file, write_file
from foregate.agent.tools.folders import GONE
from foregate.agent.tools.git import get_literal_paths, refuse_filters, refuse_nested
from foregate.agent.tools.replacing import render_template, search_replace
from foregate.agent.tools.tool import Arguments, Tool
from foregate.agent.workspace.directory import EMPTY
from foregate.agent.workspace.git_folder import find_common_folder
from foregate.agent.workspace.git_repository import GitRepository, find_repository
from foregate.agent.workspace.workspace import MemoryWorkspace, PathFacts, Workspace
from foregate.evidence.state.plan import NOT_DONE
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError, WorkspaceError
from foregate.schemas.event_body import BeforeImage
from foregate.schemas.strict_json import get_bool, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolCall, ToolResult
from foregate.schemas.tool_spec import Resource, ResourceKind

_BLANKS = " \t\r\v\f"
_SIGNED_OFF = "Signed-off-by: "


@contextmanager
def _open_kept(place: Snapshots, before: Sequence[BeforeImage]) -> Iterator[tuple[GitRepository, str, Path]]:
    """Yield the repository, the commit it stood on before the call, and a file with its index of then."""
    (image,) = before
    stored = strict_json.parse(place.blobs.get(image.image).decode())
    repository = find_repository(place.workspace, place.policy, image.id)
    repository.check_safe()
    with TemporaryDirectory(prefix="foregate-") as folder:
        index = Path(folder, "index")
        if kept := get_text(stored, "index"):
            index.write_bytes(place.blobs.get(kept))
        yield repository, get_text(stored, "head"), index


def probe_add(place: Snapshots, before: Sequence[BeforeImage], arguments: Arguments) -> ToolResult | None:
    """Return how staging ended: it is done once more on a copy of the index as it was, and the states compared."""
    with _open_kept(place, before) as (repository, head, index):
        was, now = repository.compute_state((head, index)), repository.compute_state()
        if now == was:
            return ToolResult(False, "", error=NOT_DONE)
        paths = get_literal_paths(repository, arguments)
        refuse_nested(repository, paths)
        refuse_filters(repository, paths)
        again, objects = index.with_name("again"), index.with_name("objects")
        if index.exists():
            shutil.copyfile(index, again)
        objects.mkdir()
        shared = repository.workspace.root / find_common_folder(repository.workspace, repository.git) / "objects"
        apart = {"GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(shared)}
        repository.run("add", "--", *paths, more={**apart, "GIT_INDEX_FILE": str(again)})
        if repository.compute_state((head, again)) != now:
            return None
        return _build_result(repository, was, now, "staged")


def probe_commit(place: Snapshots, before: Sequence[BeforeImage], arguments: Arguments) -> ToolResult | None:
    """Return how a commit ended: it is there where HEAD is what was staged, on the commit of then, with its message."""
    with _open_kept(place, before) as (repository, head, index):
        was, now = repository.compute_state((head, index)), repository.compute_state()
        if now == was:
            return ToolResult(False, "", error=NOT_DONE)
        made = repository.read_head()
        if made == head or not made or repository.list_paths("staged") or repository.read_staged(made, index):
            return None
        parents = repository.run("rev-list", "--parents", "--max-count=1", made).out.text()[0].split()[1:]
        said = repository.run("log", "--max-count=1", "--format=%B", "--no-show-signature", made).out.text()[0]
        message, signed = clean_message(get_text(arguments, "message")), get_bool(arguments, "signoff", False)
        if parents[:1] != [head][: bool(head)] or clean_message(said) not in _list_messages(message, said, signed):
            return None
        return _build_result(repository, was, now, f"committed as {made[:12]}")


def clean_message(message: str) -> str:
    """Return a commit message as git keeps it: no blanks at line ends, no two empty lines, none at either end."""
    kept: list[str] = []
    for line in (line.rstrip(_BLANKS) for line in message.split("\n")):
        if line or (kept and kept[-1]):
            kept.append(line)
    return "\n".join(kept).strip("\n")


def _list_messages(message: str, said: str, signed: bool) -> list[str]:
    """Return what a commit with this message may say: the message itself, where it was signed with the last line."""
    last = clean_message(said).rpartition("\n")[2]
    signatures = [f"{message}\n\n{last}", f"{message}\n{last}"] if signed and last.startswith(_SIGNED_OFF) else []
    return [message, *signatures]


def _build_result(repository: GitRepository, was: str, now: str, text: str) -> ToolResult:
    """Return the result of a change that was found to be done, with the evidence the tool itself would have given."""
    resource = Resource(ResourceKind.REPOSITORY, repository.id)
    record = EvidenceRecord(EvidenceKind.GIT_STATE, resource, now, own_change=True)
    return ToolResult(True, text, (record,), (Change(resource, was, now),))


Before = Sequence[BeforeImage]

PARTLY_DONE = "partly_done"
"""The error of a call that took effect in part."""
SAID = {
    "": "this took effect; its process ended before it could say so, and it was found out by looking",
    NOT_DONE: "the process ended before this took effect; send it again if it is still wanted",
    PARTLY_DONE: "the process ended in the middle of this, and only a part took effect; look before you go on",
}
"""What is said of a call that was cut off, by the error of its result."""


def probe_call(place: Snapshots, call: ToolCall, before: Before) -> ToolResult | None:
    """Return how a built-in call that was cut off ended, None where looking does not tell for certain.

    The result is `ok` where everything is as the call would have left it. Its error is `not_done` where everything is
    as it was before and nothing of the process that ran it works any more.
    """
    probe = _PROBES.get(call.name)
    if probe is None or call.arguments is None or not before:
        return None
    try:
        found = probe(place, before, call.arguments)
        if found is not None and not found.ok:
            found = replace(found, changes=(*found.changes, *_find_made_folders(place, before)))
    except (ForegateError, OSError, LookupError, TypeError, AttributeError, ValueError):
        return None
    if found is None:
        return None
    changed = ", ".join(f"`{change.resource.id}`" for change in found.changes)
    more = found.content or (f"changed: {changed}" if changed else "")
    return replace(found, content=f"{SAID[found.error]}{more and f' ({more})'}")


class _WorkspaceBefore(MemoryWorkspace):
    """The files a call was to change as they were before it, and what is around them now.

    Reading raises LookupError for a file without a before-image, but for the `source` a call only reads.
    """

    def __init__(self, kept: Mapping[str, bytes | None], now: Workspace, source: str) -> None:
        super().__init__({path: data for path, data in kept.items() if data is not None})
        self._kept, self._now, self._source = kept.keys(), now, source

    def resolve(self, path: str, *, follow: bool = True) -> str:
        return self._now.resolve(path, follow=follow)

    def look(self, path: str, *, max_hash: int = 0) -> PathFacts:
        return super().look(path) if path in self._kept else self._now.look(path, max_hash=max_hash)

    def read(self, path: str, *, limit: int = -1, offset: int = 0) -> bytes:
        if path in self._kept:
            return super().read(path, limit=limit, offset=offset)
        if path != self._source:
            raise LookupError(path)
        return self._now.read(path, limit=limit, offset=offset)


def _probe_files(make: Callable[[Workspace, Policy], Tool]) -> Callable[..., ToolResult | None]:
    """Return the probe of a tool whose changes follow from its arguments and its files as they were."""

    def probe(place: Snapshots, before: Before, arguments: Arguments) -> ToolResult | None:
        files = [image for image in before if image.type in ("", "file")]
        kept = {image.id: place.blobs.get(image.image) if image.image else None for image in files}
        was = {image.id: image.image for image in files}
        now = {path: _hash_file(place, path) for path in was}
        source = place.workspace.resolve(get_text(arguments, "template")) if "template" in arguments else ""
        preview = make(_WorkspaceBefore(kept, place.workspace, source), place.policy).preview
        assert preview is not None
        try:
            wanted = {change.path: strict_json.sha256(change.after) for change in preview(arguments)}
        except WorkspaceError:
            # As things were, the call would have failed.
            return ToolResult(False, "", error=NOT_DONE) if now == was else None
        return _compare(place, files, was | wanted, now) if wanted.keys() <= was.keys() else None

    return probe


def _hash_file(place: Snapshots, path: str) -> str:
    """Return the hash of a file, "" for nothing there; raise WorkspaceError for what has none."""
    now = place.workspace.look(path, max_hash=place.policy.files.max_hash)
    if now.kind not in ("", "file") or (now.kind and not now.hash):
        raise WorkspaceError(f"`{path[:80]}` cannot be compared; look at it")
    return now.hash


def _probe_memory(place: Snapshots, before: Before, arguments: Arguments) -> ToolResult | None:
    (image,) = before
    wanted = strict_json.sha256(get_text(arguments, "text").encode())
    found = _compare(place, before, {image.id: wanted}, {image.id: place.hash_own(image.id)})
    seen = (build_change_record(image.resource, wanted),) if found is not None and found.ok else ()
    return found and replace(found, evidence=seen)


def _compare(place: Snapshots, before: Before, wanted: Mapping[str, str], now: Mapping[str, str]) -> ToolResult | None:
    """Return how a call ended that would have made `wanted` of its things, by hash, "" for nothing there."""
    was = {image.id: image.image for image in before}
    if now == wanted:
        return place.add_missing_changes(ToolResult(True, ""), before)
    if now == was:
        return ToolResult(False, "", error=NOT_DONE)
    if any(now[one] not in (was[one], wanted[one]) for one in now):
        return None
    return place.add_missing_changes(ToolResult(False, "", error=PARTLY_DONE), before)


def _probe_deletion(place: Snapshots, before: Before, arguments: Arguments) -> ToolResult | None:
    (image,) = before
    if place.is_as_kept(image):
        return ToolResult(False, "", error=NOT_DONE)
    if place.workspace.look(image.id).kind:
        return None
    kind = ResourceKind.DIRECTORY if image.type == "directory" else ResourceKind.FILE
    change = Change(Resource(kind, image.id), image.image, "", image.mode)
    return ToolResult(True, "", (build_change_record(change.resource, GONE),), (change,))


def _probe_new_folder(place: Snapshots, before: Before, arguments: Arguments) -> ToolResult | None:
    (image,) = before
    now = place.workspace.look(image.id)
    if not now.kind:
        return ToolResult(False, "", error=NOT_DONE)
    if image.type:
        return ToolResult(True, "") if now.kind == image.type == "directory" else None
    if now.kind != "directory" or place.hash_path(image.id) != EMPTY:
        return None
    change = Change(Resource(ResourceKind.DIRECTORY, image.id), "", EMPTY, now.mode)
    return ToolResult(True, "", (build_change_record(change.resource, EMPTY),), (change,))


def _probe_move(place: Snapshots, before: Before, arguments: Arguments) -> ToolResult | None:
    source, destination = sorted(before, key=lambda image: not image.type)
    old, new = (place.workspace.look(one.id, max_hash=place.policy.files.max_hash) for one in (source, destination))
    found = new if not old.kind else old if not new.kind else PathFacts()
    if destination.type or found.kind != source.type or (found.kind != "directory" and found.hash != source.image):
        return None
    if found is old:
        return ToolResult(False, "", error=NOT_DONE)
    kind = ResourceKind.DIRECTORY if found.kind == "directory" else ResourceKind.FILE
    moved, hash_ = Resource(kind, destination.id), place.hash_path(destination.id)
    changes = (Change(Resource(kind, source.id), hash_, "", source.mode), Change(moved, "", hash_, found.mode))
    return ToolResult(True, "", (build_change_record(moved, found.hash),), changes)


def _find_made_folders(place: Snapshots, before: Before) -> list[Change]:
    """Return, as changes, the innermost folders that were made on the way to what is not there."""
    made = []
    for image in before:
        there = [folder for folder in image.parents if place.workspace.look(folder).kind == "directory"]
        if there and not place.workspace.look(image.id).kind:
            folder = Resource(ResourceKind.DIRECTORY, there[-1])
            made.append(Change(folder, "", place.hash_path(folder.id), place.workspace.look(folder.id).mode))
    return made


_PROBES: Mapping[str, Callable[[Snapshots, Before, Arguments], ToolResult | None]] = {
    "edit_file": _probe_files(edit_file),
    "write_file": _probe_files(write_file),
    "search_replace": _probe_files(search_replace),
    "render_template": _probe_files(render_template),
    "remember": _probe_memory,
    "delete_path": _probe_deletion,
    "create_directory": _probe_new_folder,
    "move_path": _probe_move,
    "git_add": probe_add,
    "git_commit": probe_commit,
}
"""By built-in tool, what finds out how a call of it ended."""
