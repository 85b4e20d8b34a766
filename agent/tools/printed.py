"""What was printed of a file counts as read only where the bytes are the file's; one path for all tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Trust
from foregate.schemas.tool_spec import Resource, ResourceKind

# "     1\t", "12:".
_NUMBER = compile_late(rb" *\d+[\t:]| +\Z")
"""The number of a line, as `cat -n`, `nl` and `grep -n` write it; nl has only blanks for a line without one."""


def build_read_records(
    workspace: Workspace, policy: Policy, named: str, path: str, data: bytes, *, whole: bool
) -> list[EvidenceRecord]:
    """Return the records of a file whose content was shown, in part unless `whole`; a link it was named by counts too.

    `data` is all of its content, or more than the policy's `max_hash` of it.
    """
    content = strict_json.sha256(data) if len(data) <= policy.files.max_hash else ""
    trust = Trust.DIRECT if whole else Trust.INFERRED
    records = [EvidenceRecord(EvidenceKind.FILE_READ, Resource(ResourceKind.FILE, path), content, trust)]
    if (link := workspace.resolve(named, follow=False)) != path:
        seen = Resource(ResourceKind.FILE, link)
        records.append(EvidenceRecord(EvidenceKind.FILE_READ, seen, workspace.look(link).hash))
    return records


def find_printed(output: bytes, contents: Mapping[str, bytes]) -> dict[str, bool]:
    """Return which of these files an output shows, and whether it shows the whole of it.

    >>> find_printed(b"one\\ntwo\\n", {"a": b"one\\ntwo\\n", "b": b"one\\ntwo\\nthree\\n", "c": b"four\\n"})
    {'a': True, 'b': False}
    """
    if b"".join(contents.values()) == output:
        return dict.fromkeys(contents, True)
    shown = [output, *_strip_numbers(output)]
    found: dict[str, bool] = {}
    for path, data in contents.items():
        if any(has_lines(text, data) for text in shown):
            found[path] = True
        elif any(has_lines(data, text) for text in shown):
            found[path] = False
    return found


def has_lines(text: bytes, lines: bytes) -> bool:
    """Whether whole lines stand in a text, one behind the other; lines without a word stand nowhere."""
    if not lines.strip():
        return False
    around = b"\n" + text + (b"" if text.endswith(b"\n") else b"\n")
    wanted = b"\n" + lines + (b"" if lines.endswith(b"\n") else b"\n")
    # a last line that ends is not shown by one that does not
    return wanted in around and (not lines.endswith(b"\n") or lines in text)


def _strip_numbers(output: bytes) -> Iterator[bytes]:
    """Yield an output without the numbers of its lines, where all have one."""
    lines = output.split(b"\n")
    last = lines.pop() if not lines[-1] else None
    if lines and all(map(_NUMBER.match, lines)):
        bare = [_NUMBER.sub(b"", line, count=1) for line in lines]
        yield b"\n".join(bare if last is None else [*bare, b""])


def build_printed_records(
    workspace: Workspace, policy: Policy, output: bytes, named: Mapping[str, str]
) -> list[EvidenceRecord]:
    """Return the records of the files whose content stands in an output; `named` maps each path to how it was named."""
    shown = [path for path in named if output.strip() or not workspace.look(path).size]
    contents = {path: workspace.read(path, limit=policy.files.max_hash + 1) for path in shown}
    records: list[EvidenceRecord] = []
    for path, whole in find_printed(output, contents).items():
        records += build_read_records(workspace, policy, named[path], path, contents[path], whole=whole)
    return records
