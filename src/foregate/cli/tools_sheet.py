"""The sheet about the tools of an MCP server: what is new or has changed, what its server claims, in its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from foregate.cli.colours import CARE
from foregate.cli.diff import LINES, Line, difference, shown
from foregate.cli.layout import labelled, packed
from foregate.schemas.strict_json import Json

KEYS = ("y offer them, as they are now", "n not in this session", "d details")
_STYLE = {"changed": CARE, "new": "bold", "unusable": "dim"}


def tools_sheet(
    request: Mapping[str, Json], *, details: bool = False, keys: bool = True, width: int = 80
) -> list[Text]:
    """Return the lines of the sheet in `width` columns; with `details` everything the server says of its tools."""
    lines = list(labelled("tools", str(request["question"]), width, "bold", label_style=f"bold {CARE}"))
    lines += labelled("runs", str(request["launch"]), width)
    for tool in request["tools"]:
        lines += tool_rows(tool, width, details=details)
    if keys:
        lines += packed(KEYS, width, "dim")
    return lines


def tools_cut(request: Mapping[str, Json]) -> bool:
    """Whether the first view leaves out a part of how a pinned tool has changed."""
    return any(tool["state"] == "changed" and len(lines_of(tool)) > LINES for tool in request["tools"])


def tool_rows(tool: Mapping[str, Json], width: int, *, details: bool = False) -> Iterator[Text]:
    """Yield the rows of one tool; of one that has changed how it differs from what was pinned."""
    state = str(tool["state"])
    yield from labelled(state, str(tool["tool"]), width, _STYLE.get(state, ""), label_style=_STYLE.get(state, "dim"))
    if tool["problem"]:
        yield from labelled("", str(tool["problem"]), width)
        return
    if state == "pinned":
        return
    yield from labelled("claims", str(tool["claims"]), width)
    lines = lines_of(tool)
    if state == "new" and not details:
        yield from labelled("says", str(tool["first_line"]) or "nothing", width)
        return
    most = None if details else LINES
    yield from shown(lines[:most], width)
    if most is not None and most < len(lines):
        yield from labelled("cut", f"{len(lines) - most} lines more; d shows them, and only then y counts", width, CARE)


def lines_of(tool: Mapping[str, Json]) -> Sequence[Line]:
    """Return what a tool's server says of it now, against what was pinned."""
    return difference(str(tool["before"]).encode("utf-8", "replace"), str(tool["after"]).encode("utf-8", "replace"))
