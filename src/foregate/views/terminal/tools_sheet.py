"""The sheet a person must see before the tools of an MCP server are offered. Pure text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.text import Text

from foregate.schemas.strict_json import Json, as_object, get_list, get_text
from foregate.views.terminal.blocks import CUT, SheetBlock
from foregate.views.terminal.diff import LINES, DiffLine, diff_lines, format_diff
from foregate.views.terminal.layout import CARE, format_labelled, format_pieces, pack_parts

Fields = Mapping[str, Json]
"""A request, or a part of one."""
SAID = 8
"""Rows of what a server says of a new tool that the first view of a sheet shows."""
TOOL_KEYS = ("y offer them, as they are now", "n not in this session", "d details")
_STATE_STYLE = {"changed": CARE, "new": "bold", "unusable": "dim"}


def format_tools(request: Fields, *, details: bool = False, keys: bool = True, width: int = 80) -> list[Text]:
    """Return the lines of the sheet in `width` columns; with `details` everything the server says of its tools."""
    lines = list(format_labelled("tools", get_text(request, "question"), width, "bold", label_style=f"bold {CARE}"))
    lines += format_labelled("runs", get_text(request, "launch"), width)
    for tool in get_list(request, "tools"):
        lines += format_tool(as_object(tool), width, details=details)
    if keys:
        lines += pack_parts(TOOL_KEYS, width, "dim")
    return lines


def is_tools_cut(request: Fields, *, width: int = 80) -> bool:
    """Whether the first view leaves out a part of what is said of a new tool, or of how a pinned one has changed."""
    tools = [as_object(tool) for tool in get_list(request, "tools")]
    changed = any(tool["state"] == "changed" and len(diff_tool(tool)) > LINES for tool in tools)
    return changed or any(tool["state"] == "new" and _build_said(tool, width).is_cut for tool in tools)


def _build_said(tool: Fields, width: int) -> SheetBlock:
    first, *more = get_text(tool, "description").split("\n")
    rows = list(format_labelled("says", first or "nothing", width))
    for line in more:
        rows += format_pieces(line, width, "  ", "  ", "not dim")
    block = SheetBlock(rows)
    block.cut(SAID, width)
    return block


def format_tool(tool: Fields, width: int, *, details: bool = False) -> Iterator[Text]:
    """Yield the rows of one tool; of one that has changed how it differs from what was pinned."""
    state, problem = get_text(tool, "state"), get_text(tool, "problem")
    name, style = get_text(tool, "tool"), _STATE_STYLE.get(state, "")
    yield from format_labelled(state, name, width, style, label_style=style or "dim")
    if problem:
        yield from format_labelled("", problem, width)
    elif state != "pinned":
        yield from format_labelled("claims", get_text(tool, "claims"), width)
        if state == "new" and not details:
            yield from _build_said(tool, width).rows
        else:
            yield from format_diff(diff_tool(tool), width, 0 if details else LINES, CUT)


def diff_tool(tool: Fields) -> Sequence[DiffLine]:
    """Return what a tool's server says of it now, against what was pinned."""
    before, after = (get_text(tool, side).encode("utf-8", "replace") for side in ("before", "after"))
    return diff_lines(before, after)
