"""The outcome of a call to add or commit that was cut off: its repository, compared with the stored one."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from foregate.agent.effects.snapshots import Snapshots
from foregate.agent.tools.builtin.git import get_literal_paths, refuse_filters, refuse_nested
from foregate.agent.tools.tool import Arguments
from foregate.agent.workspace.git_folder import find_common_folder
from foregate.agent.workspace.git_repository import GitRepository, find_repository
from foregate.evidence.state.plan import NOT_DONE
from foregate.schemas import strict_json
from foregate.schemas.event_body import BeforeImage
from foregate.schemas.strict_json import get_bool, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolResult
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
