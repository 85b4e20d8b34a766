"""The patches of `apply_patch`, from `*** Begin Patch` to `*** End Patch`, read as the one call of ours they mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from foregate.schemas.strict_json import Json

NAME = "apply_patch"
_BEGIN, _END = "*** Begin Patch", "*** End Patch"
_ADD, _DELETE, _UPDATE = "*** Add File: ", "*** Delete File: ", "*** Update File: "
_ANYWHERE = 10**9
"""The line of a hunk that stands below a line it names: its lines must then be the only ones of their kind."""


class PatchCall(Struct, frozen=True):
    """The tool of ours that does what a patch says, and its arguments."""

    tool: str
    arguments: Mapping[str, Json]


def read_patch(text: str) -> PatchCall | None:
    """Return the call a patch means, None where no single one means exactly that.

    One file is added, deleted or updated. A patch for several files or that moves one is none, and one with a hunk that
    only adds, whose place nobody but the patching program knows.

    >>> read_patch("*** Begin Patch\\n*** Delete File: a.txt\\n*** End Patch")
    PatchCall(tool='delete_path', arguments={'path': 'a.txt'})
    """
    lines = text.strip().splitlines()
    if len(lines) < 3 or (lines[0].strip(), lines[-1].strip()) != (_BEGIN, _END):
        return None
    head, body = lines[1], lines[2:-1]
    path = head.partition(": ")[2].strip()
    if not path:
        return None
    if head.startswith(_ADD) and all(line.startswith("+") for line in body):
        return PatchCall("write_file", {"path": path, "content": "".join(f"{line[1:]}\n" for line in body)})
    if head.startswith(_DELETE) and not body:
        return PatchCall("delete_path", {"path": path})
    if head.startswith(_UPDATE) and body and (diff := "".join(build_diff(body))) and _is_whole(diff):
        return PatchCall("edit_file", {"path": path, "diff": diff})
    return None


def build_diff(body: Sequence[str]) -> Iterator[str]:
    """Yield the hunks of an update as a unified diff; what cannot be said in one is yielded as `***`."""
    hunks: list[tuple[int, list[str]]] = []
    for line in body:
        if line.startswith("@@"):
            hunks.append((_ANYWHERE if line.removeprefix("@@").strip() else 1, []))
        elif line == "" or line[0] in " +-":
            hunks = hunks or [(1, [])]
            hunks[-1][1].append(line or " ")
        else:
            yield "***"
            return
    for start, lines in hunks:
        old, new = (sum(line[0] != sign for line in lines) for sign in "+-")
        if not old:
            yield "***"
            return
        yield f"@@ -{start},{old} +{start},{new} @@\n"
        yield from (f"{line}\n" for line in lines)


def _is_whole(diff: str) -> bool:
    return not diff.endswith("***")
