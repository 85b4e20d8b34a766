"""Tools that read and change one file of the workspace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from foregate.agent.tools.builtin.declaration import get_count
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.confine import check_readable, check_unchanged, check_writable
from foregate.agent.workspace.output import trim_cut_end, trim_cut_start
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import Json, get_bool, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolResult, Trust
from foregate.schemas.tool_spec import OBSERVER, Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec

WRITER = Capabilities(
    read_only=False, external_side_effect=False, needs_approval=False, idempotent=False, reversible=True
)
_ONE_WAY = "give either `old` and `new`, or `diff`, and not both"
PATH: Mapping[str, Json] = {"type": "string", "minLength": 1, "description": "Path relative to the workspace."}


def read_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that reads a file and remembers which content was seen."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        named = get_text(arguments, "path")
        path = check_readable(workspace, named)
        data = workspace.read(path, limit=policy.files.max_hash + 1)
        offset, limit = get_count(arguments, "offset", 0), get_count(arguments, "max_bytes", policy.files.max_read)
        part = data[offset : offset + min(limit, policy.files.max_read)]
        if offset + len(part) < len(data):
            part = trim_cut_end(part) or part
        if offset:
            part = trim_cut_start(part)
        left_out = len(data) - len(part)
        record = EvidenceRecord(
            EvidenceKind.FILE_READ,
            Resource(ResourceKind.FILE, path),
            strict_json.sha256(data) if len(data) <= policy.files.max_hash else "",
            Trust.INFERRED if left_out else Trust.DIRECT,
        )
        records = (record, *build_link_record(workspace, named, path))
        return ToolResult(True, part.decode("utf-8", "replace"), records, dropped=left_out)

    return Tool(
        ToolSpec(
            "read_file",
            "Read a text file of the workspace. Long files come in part: use offset and max_bytes for the rest.",
            {
                "type": "object",
                "properties": {
                    "path": PATH,
                    "offset": {"type": "integer", "minimum": 0, "description": "First byte to return."},
                    "max_bytes": {"type": "integer", "minimum": 1, "description": "Bytes to return at most."},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
            Effect.OBSERVATION,
            OBSERVER,
            (TargetParameter("path", ResourceKind.FILE, Effect.OBSERVATION),),
            "builtin",
        ),
        run,
    )


def build_link_record(workspace: Workspace, named: str, path: str) -> tuple[EvidenceRecord, ...]:
    """Return the record of a link that was read through, so that the link itself counts as seen."""
    link = workspace.resolve(named, follow=False)
    if link == path:
        return ()
    found = workspace.look(link)
    return (EvidenceRecord(EvidenceKind.FILE_READ, Resource(ResourceKind.FILE, link), found.hash),)


def write_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that puts a whole text at a path."""

    def foresee(arguments: Mapping[str, Json]) -> tuple[FileChange]:
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        found = workspace.look(path)
        if found.kind not in ("", "file"):
            raise WorkspaceError(f"`{path[:80]}` is not a regular file; name one")
        above = path.rpartition("/")[0]
        if above and not get_bool(arguments, "create_dirs", True) and not workspace.look(above).kind:
            raise WorkspaceError(f"the folder `{above[:80]}` does not exist; create it first or leave create_dirs out")
        before = workspace.read(path) if found.kind else None
        check_unchanged(path, strict_json.sha256(before) if before is not None else "")
        return (FileChange(path, before, get_text(arguments, "content").encode(), ("content",)),)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        (seen,) = foresee(arguments)
        workspace.write(seen.path, seen.after)
        verb = "created" if seen.before is None else "replaced"
        return build_change_result(workspace, policy, seen, f"{verb} `{seen.path}`: {len(seen.after)} bytes")

    return Tool(
        ToolSpec(
            "write_file",
            "Write a whole text file: a new one, or in place of what is there. To change a part use edit_file.",
            {
                "type": "object",
                "properties": {
                    "path": PATH,
                    "content": {"type": "string", "description": "The whole new content."},
                    "create_dirs": {"type": "boolean", "description": "Create missing folders. Default true."},
                },
                "required": ["path", "content"],
                "additionalProperties": False,
            },
            Effect.CREATE,
            WRITER,
            (TargetParameter("path", ResourceKind.FILE, Effect.CREATE),),
            "builtin",
        ),
        run,
        preview=foresee,
    )


def edit_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that changes a part of a file: one passage that occurs once, or the hunks of a diff."""

    def foresee(arguments: Mapping[str, Json]) -> tuple[FileChange]:
        if not has_one_way(arguments):
            raise WorkspaceError(_ONE_WAY)
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        data = workspace.read(path)
        check_unchanged(path, strict_json.sha256(data))
        if "diff" in arguments:
            after = apply_diff(data, get_text(arguments, "diff").encode(), path)
        else:
            old, new = get_text(arguments, "old"), get_text(arguments, "new")
            after = replace_passage(data, old.encode(), new.encode(), path)
        return (FileChange(path, data, after, ("old", "new", "diff")),)

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        if not has_one_way(arguments):
            return ToolResult(False, _ONE_WAY, error="arguments")
        (seen,) = foresee(arguments)
        workspace.write(seen.path, seen.after)
        sizes = f"{len(seen.before or b'')} -> {len(seen.after)} bytes"
        return build_change_result(workspace, policy, seen, f"edited `{seen.path}`: {sizes}")

    return Tool(
        ToolSpec(
            "edit_file",
            "Change a part of a file: either `old` and `new` (`old` must occur exactly once; add lines around it until "
            "it does), or `diff`, a unified diff for this file whose lines are exactly as in the file.",
            {
                "type": "object",
                "properties": {
                    "path": PATH,
                    "old": {"type": "string", "minLength": 1, "description": "The passage as it is now."},
                    "new": {"type": "string", "description": "What stands there afterwards."},
                    "diff": {"type": "string", "minLength": 1, "description": "A unified diff instead of old and new."},
                },
                "required": ["path"],
                "additionalProperties": False,
            },
            Effect.EDIT,
            WRITER,
            (TargetParameter("path", ResourceKind.FILE, Effect.EDIT),),
            "builtin",
        ),
        run,
        preview=foresee,
    )


def has_one_way(arguments: Mapping[str, Json]) -> bool:
    """Whether an edit is said in one of its two ways, in full, and not in both."""
    return {"old", "new", "diff"} & arguments.keys() in ({"old", "new"}, {"diff"})


def replace_passage(data: bytes, old: bytes, new: bytes, path: str) -> bytes:
    """Return `data` with its one passage `old` replaced; raise WorkspaceError when it is not there exactly once."""
    first = data.find(old)
    if first < 0:
        raise WorkspaceError(f"`old` does not occur in `{path[:80]}`; it must occur exactly once")
    if data.find(old, first + 1) >= 0:
        raise WorkspaceError(f"`old` occurs more than once in `{path[:80]}`; it must occur exactly once")
    return data[:first] + new + data[first + len(old) :]


def build_change_result(workspace: Workspace, policy: Policy, made: FileChange, text: str) -> ToolResult:
    """Return the result of a change, with what is on disk now read back as evidence."""
    resource = Resource(ResourceKind.FILE, made.path)
    now = workspace.look(made.path, max_hash=policy.files.max_hash)
    image, after = "" if made.before is None else strict_json.sha256(made.before), strict_json.sha256(made.after)
    change = Change(resource, image, now.hash or after, now.mode)
    if now.hash and now.hash != after:
        text = f"`{made.path}` was written and changed again by something else at once; read it before going on"
        return ToolResult(False, text, (), (change,), error="changed_meanwhile")
    record = EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, resource, now.hash, own_change=True)
    return ToolResult(True, text, (record,), (change,))


_HUNK = re.compile(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
_IGNORED = (b"diff --git ", b"index ", b"old mode ", b"new mode ")


@dataclass(slots=True)
class Hunk:
    """One hunk: the line it starts at, counted from 1, and the lines before and after, with their line ends."""

    number: int
    start: int
    counts: tuple[int, int]
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)
    last: bytes = b""

    @property
    def is_full(self) -> bool:
        """Whether as many lines were read as the header says."""
        return (len(self.old), len(self.new)) == self.counts


class PatchError(WorkspaceError):
    """A diff that cannot be read or does not apply; nothing was changed."""


def apply_diff(data: bytes, diff: bytes, path: str) -> bytes:
    """Return `data` with `diff` applied; raise PatchError naming the first hunk that does not fit.

    Context and removed lines must match byte for byte. Where the line number of a hunk is off, its lines must occur
    exactly once in what is left of the file.
    """
    lines = split_lines(data)
    result: list[bytes] = []
    done = 0
    for hunk in parse_diff(diff, path):
        at = find_place(hunk, lines, done)
        result.extend(lines[done:at])
        result.extend(hunk.new)
        done = at + len(hunk.old)
    result.extend(lines[done:])
    if any(not line.endswith(b"\n") for line in result[:-1]):
        raise PatchError("the diff adds lines after one that has no end of line; give the whole end of the file")
    return b"".join(result)


def split_lines(data: bytes) -> list[bytes]:
    """Return the lines of `data`, cut only at line feeds."""
    parts = data.split(b"\n")
    lines = [part + b"\n" for part in parts[:-1]]
    return [*lines, parts[-1]] if parts[-1] else lines


def find_place(hunk: Hunk, lines: list[bytes], done: int) -> int:
    """Return the index where the hunk's old lines stand, at or after `done`."""
    stated = hunk.start - 1 if hunk.old else hunk.start
    if done <= stated <= len(lines) and lines[stated : stated + len(hunk.old)] == hunk.old:
        return stated
    if not hunk.old:
        raise PatchError(f"hunk {hunk.number} adds lines beyond the end of the file; give lines around them")
    size = len(hunk.old)
    places = [at for at in range(done, len(lines) - size + 1) if lines[at : at + size] == hunk.old]
    if len(places) != 1:
        found = "were not found" if not places else f"occur {len(places)} times and not at line {hunk.start}"
        raise PatchError(f"hunk {hunk.number}: its lines {found}; read the file and give them exactly as they are")
    return places[0]


def parse_diff(diff: bytes, path: str) -> list[Hunk]:
    """Return the hunks of a unified diff for one file."""
    hunks: list[Hunk] = []
    files = 0
    for line in split_lines(diff):
        hunk = hunks[-1] if hunks else None
        if hunk is not None and line.startswith(b"\\"):
            drop_last_newline(hunk)
        elif hunk is not None and not hunk.is_full:
            add_line(hunk, line)
        elif line.startswith(b"@@"):
            hunks.append(parse_header(line, len(hunks) + 1))
        elif line.startswith((b"--- ", b"+++ ")):
            files += line.startswith(b"--- ")
            check_names(line, path)
        elif line.strip() and not line.startswith(_IGNORED):
            raise PatchError(f"line `{line[:60].decode('utf-8', 'replace').strip()}` is no part of a unified diff")
    if not hunks or not hunks[-1].is_full:
        raise PatchError("the diff has no hunk, or its last one is cut short; check the counts after `@@`")
    if files > 1:
        raise PatchError("the diff is for several files; send one call per file")
    return hunks


def parse_header(line: bytes, number: int) -> Hunk:
    """Return the empty hunk a `@@` line announces."""
    match = _HUNK.match(line)
    if match is None:
        raise PatchError(f"hunk {number} has no header of the form `@@ -1,2 +1,3 @@`")
    old, new = (int(count) if count is not None else 1 for count in (match[2], match[4]))
    return Hunk(number, int(match[1]), (old, new))


def add_line(hunk: Hunk, line: bytes) -> None:
    """Take one line into the hunk."""
    sign, rest = line[:1], line[1:]
    if sign == b"\n":
        sign, rest = b" ", b"\n"
    if sign not in (b" ", b"-", b"+"):
        raise PatchError(f"hunk {hunk.number} ends early; check the counts after `@@`")
    if not rest.endswith(b"\n"):
        rest += b"\n"
    if sign != b"+":
        hunk.old.append(rest)
    if sign != b"-":
        hunk.new.append(rest)
    if len(hunk.old) > hunk.counts[0] or len(hunk.new) > hunk.counts[1]:
        raise PatchError(f"hunk {hunk.number} has more lines than its header says; check the counts after `@@`")
    hunk.last = sign


def drop_last_newline(hunk: Hunk) -> None:
    """Take `\\ No newline at end of file`: the line before it has no end of line."""
    for side, sign in ((hunk.old, b"+"), (hunk.new, b"-")):
        if hunk.last and hunk.last != sign and side:
            side[-1] = side[-1].removesuffix(b"\n")


def check_names(line: bytes, path: str) -> None:
    """Raise PatchError when a `---` or `+++` line names another file than `path`."""
    name = line[4:].split(b"\t")[0].strip().decode("utf-8", "replace")
    prefix = "a/" if line.startswith(b"-") else "b/"
    if path not in (name, name.removeprefix(prefix), name.removeprefix("./")):
        raise PatchError(f"the diff is for `{name[:80]}`, the call for `{path[:80]}`; they must be the same file")
