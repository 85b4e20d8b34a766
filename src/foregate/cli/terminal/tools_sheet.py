"""The sheet about the tools of an MCP server: what is new or has changed, what its server claims, in its words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from foregate.cli.terminal.colours import CARE
from foregate.cli.terminal.diff import LINES, Line, difference, shown
from foregate.cli.terminal.layout import labelled, packed
from foregate.schemas.json_object import as_object, get_list, get_text
from foregate.schemas.strict_json import Json

KEYS = ("y offer them, as they are now", "n not in this session", "d details")
_STYLE = {"changed": CARE, "new": "bold", "unusable": "dim"}


def tools_sheet(
    request: Mapping[str, Json], *, details: bool = False, keys: bool = True, width: int = 80
) -> list[Text]:
    """Return the lines of the sheet in `width` columns; with `details` everything the server says of its tools."""
    lines = list(labelled("tools", get_text(request, "question"), width, "bold", label_style=f"bold {CARE}"))
    lines += labelled("runs", get_text(request, "launch"), width)
    for tool in get_list(request, "tools"):
        lines += tool_rows(as_object(tool), width, details=details)
    if keys:
        lines += packed(KEYS, width, "dim")
    return lines


def tools_cut(request: Mapping[str, Json]) -> bool:
    """Whether the first view leaves out a part of how a pinned tool has changed."""
    tools = map(as_object, get_list(request, "tools"))
    return any(tool["state"] == "changed" and len(lines_of(tool)) > LINES for tool in tools)


def tool_rows(tool: Mapping[str, Json], width: int, *, details: bool = False) -> Iterator[Text]:
    """Yield the rows of one tool; of one that has changed how it differs from what was pinned."""
    state, problem = get_text(tool, "state"), get_text(tool, "problem")
    name, style = get_text(tool, "tool"), _STYLE.get(state, "")
    yield from labelled(state, name, width, style, label_style=style or "dim")
    if problem:
        yield from labelled("", problem, width)
        return
    if state == "pinned":
        return
    yield from labelled("claims", get_text(tool, "claims"), width)
    lines = lines_of(tool)
    if state == "new" and not details:
        yield from labelled("says", get_text(tool, "first_line") or "nothing", width)
        return
    most = None if details else LINES
    yield from shown(lines[:most], width)
    if most is not None and most < len(lines):
        yield from labelled("cut", f"{len(lines) - most} lines more; d shows them, and only then y counts", width, CARE)


def lines_of(tool: Mapping[str, Json]) -> Sequence[Line]:
    """Return what a tool's server says of it now, against what was pinned."""
    before, after = (get_text(tool, side).encode("utf-8", "replace") for side in ("before", "after"))
    return difference(before, after)
