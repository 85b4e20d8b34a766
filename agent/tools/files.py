"""Tools that read and change one file of the workspace, also by a unified diff."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, field

from foregate.agent.tools import builtin_tool
from foregate.agent.tools.builtin_tool import build_read_records
from foregate.agent.tools.tool import Arguments, Tool
from foregate.agent.workspace.process import trim_cut_end, trim_cut_start
from foregate.agent.workspace.workspace import Workspace, check_readable, check_unchanged, check_writable
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import FileChange
from foregate.schemas.strict_json import get_bool, get_text
from foregate.schemas.tool_call import Change, EvidenceKind, EvidenceRecord, ToolResult
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, TargetParameter

_ONE_WAY = "give either `old` and `new`, or `diff`, and not both"
# "@@ -1,3 +1,4 @@".
_HUNK = compile_late(rb"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")
# "one\n", and "two" at the end without a break.
_LINE = compile_late(rb"[^\n]*\n|[^\n]+")
_IGNORED = (b"diff --git ", b"index ", b"old mode ", b"new mode ")


def read_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that reads a file and remembers which content was seen."""

    async def run(arguments: Arguments) -> ToolResult:
        named = get_text(arguments, "path")
        path = check_readable(workspace, named)
        data = workspace.read(path, limit=policy.files.max_hash + 1)
        offset, limit = (
            builtin_tool.get_count(arguments, "offset", 0),
            builtin_tool.get_count(arguments, "max_bytes", policy.files.max_read),
        )
        part = data[offset : offset + min(limit, policy.files.max_read)]
        if offset + len(part) < len(data):
            part = trim_cut_end(part) or part
        if offset:
            part = trim_cut_start(part)
        left_out = len(data) - len(part)
        records = build_read_records(workspace, policy, named, path, data, whole=not left_out)
        return ToolResult(True, part.decode("utf-8", "replace"), tuple(records), dropped=left_out)

    return builtin_tool.build_tool(
        "read_file",
        "Read a text file of the workspace. Long files come in part: use offset and max_bytes for the rest.",
        {
            "path": builtin_tool.PATH,
            "offset": builtin_tool.describe_count("First byte to return.", 0),
            "max_bytes": builtin_tool.describe_count("Bytes to return at most."),
        },
        ["path"],
        [TargetParameter("path", ResourceKind.FILE, Effect.OBSERVATION)],
        run,
    )


def write_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that puts a whole text at a path."""

    def foresee(arguments: Arguments) -> tuple[FileChange]:
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        above = path.rpartition("/")[0]
        if above and not get_bool(arguments, "create_dirs", True) and not workspace.look(above).kind:
            raise WorkspaceError(f"the folder `{above[:80]}` does not exist; create it first or leave create_dirs out")
        before = read_replaced(workspace, path)
        return (FileChange(path, before, get_text(arguments, "content").encode(), ("content",)),)

    async def run(arguments: Arguments) -> ToolResult:
        return write_whole(workspace, policy, *foresee(arguments))

    return builtin_tool.build_tool(
        "write_file",
        "Write a whole text file: a new one, or in place of what is there. To change a part use edit_file.",
        {
            "path": builtin_tool.PATH,
            "content": {"type": "string", "description": "The whole new content."},
            "create_dirs": builtin_tool.describe_flag("Create missing folders. Default true."),
        },
        ["path", "content"],
        [TargetParameter("path", ResourceKind.FILE, Effect.CREATE)],
        run,
        Effect.CREATE,
        builtin_tool.WRITER,
        preview=foresee,
    )


def read_replaced(workspace: Workspace, path: str) -> bytes | None:
    """Return what a write at a path replaces, None for nothing; raise WorkspaceError for what was not judged."""
    kind = workspace.look(path).kind
    if kind not in ("", "file"):
        raise WorkspaceError(f"`{path[:80]}` is not a regular file; name one")
    before = workspace.read(path) if kind else None
    check_unchanged(path, strict_json.sha256(before) if before is not None else "")
    return before


def write_whole(workspace: Workspace, policy: Policy, made: FileChange, source: str = "") -> ToolResult:
    lost = workspace.write(made.path, made.after)
    verb = "created" if made.before is None else "replaced"
    return build_change_result(workspace, policy, made, f"{verb} `{made.path}`{source}: {len(made.after)} bytes", lost)


def edit_file(workspace: Workspace, policy: Policy) -> Tool:
    """Return the tool that changes a part of a file: one passage that occurs once, or the hunks of a diff."""

    def foresee(arguments: Arguments) -> tuple[FileChange]:
        if not has_one_way(arguments):
            raise WorkspaceError(_ONE_WAY)
        path = check_writable(workspace, policy, get_text(arguments, "path"))
        data = workspace.read(path)
        check_unchanged(path, strict_json.sha256(data))
        if "diff" in arguments:
            after = apply_diff(data, get_text(arguments, "diff").encode(), path)
        else:
            after = replace_passage(
                data, get_text(arguments, "old").encode(), get_text(arguments, "new").encode(), path
            )
        return (FileChange(path, data, after, ("old", "new", "diff")),)

    async def run(arguments: Arguments) -> ToolResult:
        if not has_one_way(arguments):
            return ToolResult(False, _ONE_WAY, error="arguments")
        (seen,) = foresee(arguments)
        lost = workspace.write(seen.path, seen.after)
        sizes = f"{len(seen.before or b'')} -> {len(seen.after)} bytes"
        return build_change_result(workspace, policy, seen, f"edited `{seen.path}`: {sizes}", lost)

    return builtin_tool.build_tool(
        "edit_file",
        "Change a part of a file: either `old` and `new` (`old` must occur exactly once; add lines around it until "
        "it does), or `diff`, a unified diff for this file whose lines are exactly as in the file.",
        {
            "path": builtin_tool.PATH,
            "old": builtin_tool.describe_text("The present passage."),
            "new": {"type": "string", "description": "What stands there afterwards."},
            "diff": builtin_tool.describe_text("A unified diff instead of old and new."),
        },
        ["path"],
        [TargetParameter("path", ResourceKind.FILE, Effect.EDIT)],
        run,
        Effect.EDIT,
        builtin_tool.WRITER,
        preview=foresee,
    )


def has_one_way(arguments: Arguments) -> bool:
    """Whether an edit is said in one of its two ways, in full, and not in both."""
    return {"old", "new", "diff"} & arguments.keys() in ({"old", "new"}, {"diff"})


def replace_passage(data: bytes, old: bytes, new: bytes, path: str) -> bytes:
    """Return `data` with its one passage `old` replaced; raise WorkspaceError when it is not there exactly once."""
    first = data.find(old)
    # Two that overlap are two.
    if first < 0 or data.find(old, first + 1) >= 0:
        times = "does not occur" if first < 0 else "occurs more than once"
        raise WorkspaceError(f"`old` {times} in `{path[:80]}`; it must occur exactly once")
    return data.replace(old, new)


def build_change_result(
    workspace: Workspace, policy: Policy, made: FileChange, text: str, lost: Sequence[str] = ()
) -> ToolResult:
    """Return the result of a change, with what is on disk now read back as evidence; `lost` names what it cost."""
    text += f"; not kept: {', '.join(lost)}" if lost else ""
    resource = Resource(ResourceKind.FILE, made.path)
    now = workspace.look(made.path, max_hash=policy.files.max_hash)
    before, after = "" if made.before is None else strict_json.sha256(made.before), strict_json.sha256(made.after)
    change = Change(resource, before, now.hash or after, now.mode)
    if now.hash and now.hash != after:
        text = f"`{made.path}` was written and changed again by something else at once; read it before going on"
        return ToolResult(False, text, (), (change,), error="changed_meanwhile")
    record = EvidenceRecord(EvidenceKind.VERIFICATION_RESULT, resource, now.hash, own_change=True)
    return ToolResult(True, text, (record,), (change,))


class Hunk(Struct):
    """One hunk: the line it starts at, counted from 1, and the lines before and after, with their line ends."""

    number: int
    start: int
    counts: tuple[int, int]
    old: list[bytes] = field(default_factory=list)
    new: list[bytes] = field(default_factory=list)
    last: bytes = b""


class PatchError(WorkspaceError):
    """A diff that cannot be read or does not apply; nothing was changed."""


def apply_diff(data: bytes, diff: bytes, path: str) -> bytes:
    """Return `data` with `diff` applied; raise PatchError naming the first hunk that does not fit.

    Context and removed lines must match byte for byte. Where the line number of a hunk is off, its lines must occur
    exactly once in what is left of the file.
    """
    lines = _LINE.findall(data)
    result: list[bytes] = []
    done = 0
    for hunk in parse_diff(diff, path):
        at = find_place(hunk, lines, done)
        result += [*lines[done:at], *hunk.new]
        done = at + len(hunk.old)
    result += lines[done:]
    if any(not line.endswith(b"\n") for line in result[:-1]):
        raise PatchError("the diff adds lines after one that has no end of line; give the whole end of the file")
    return b"".join(result)


def find_place(hunk: Hunk, lines: list[bytes], done: int) -> int:
    """Return the index where the hunk's old lines stand, at or after `done`."""
    size = len(hunk.old)
    stated = hunk.start - 1 if size else hunk.start
    if done <= stated <= len(lines) and lines[stated : stated + size] == hunk.old:
        return stated
    if not size:
        raise PatchError(f"hunk {hunk.number} adds lines beyond the end of the file; give lines around them")
    places = [at for at in range(done, len(lines) - size + 1) if lines[at : at + size] == hunk.old]
    if len(places) != 1:
        found = "were not found" if not places else f"occur {len(places)} times and not at line {hunk.start}"
        raise PatchError(f"hunk {hunk.number}: its lines {found}; read the file and give them exactly as they are")
    return places[0]


def parse_diff(diff: bytes, path: str) -> list[Hunk]:
    hunks: list[Hunk] = []
    files, full = 0, True
    for line in _LINE.findall(diff):
        if hunks and line.startswith(b"\\"):
            drop_last_newline(hunks[-1])
        elif not full:
            add_line(hunks[-1], line)
        elif line.startswith(b"@@"):
            if (header := _HUNK.match(line)) is None:
                raise PatchError(f"hunk {len(hunks) + 1} has no header of the form `@@ -1,2 +1,3 @@`")
            hunks.append(Hunk(len(hunks) + 1, int(header[1]), (int(header[2] or 1), int(header[4] or 1))))
        elif line.startswith((b"--- ", b"+++ ")):
            files += line.startswith(b"--- ")
            name = line[4:].split(b"\t")[0].strip().decode("utf-8", "replace")
            prefix = "a/" if line.startswith(b"-") else "b/"
            if path not in (name, name.removeprefix(prefix), name.removeprefix("./")):
                where = f"the diff is for `{name[:80]}`, the call for `{path[:80]}`"
                raise PatchError(f"{where}; they must be the same file")
        elif line.strip() and not line.startswith(_IGNORED):
            raise PatchError(f"line `{line[:60].decode('utf-8', 'replace').strip()}` is no part of a unified diff")
        full = not hunks or (len(hunks[-1].old), len(hunks[-1].new)) == hunks[-1].counts
    if not hunks or not full:
        raise PatchError("the diff has no hunk, or its last one is cut short; check the counts after `@@`")
    if files > 1:
        raise PatchError("the diff is for several files; send one call per file")
    return hunks


def add_line(hunk: Hunk, line: bytes) -> None:
    sign, rest = (b" ", line) if line == b"\n" else (line[:1], line[1:].removesuffix(b"\n") + b"\n")
    if sign not in (b" ", b"-", b"+"):
        raise PatchError(f"hunk {hunk.number} ends early; check the counts after `@@`")
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
