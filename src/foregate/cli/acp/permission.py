"""The sheets of a session as an editor asks them: what is shown, which buttons there are, and what each one answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from acp.helpers import ToolCallContentVariant, text_block, tool_content
from acp.schema import PermissionOption, ToolCallLocation, ToolCallUpdate
from rich.text import Text

from foregate.agent.loop.undo import Preview
from foregate.cli.acp.updates import KINDS, build_diff, build_title, fence_text
from foregate.gates.support.permitting import NARROW
from foregate.schemas.judgement import Need
from foregate.schemas.sources import explain_naming, explain_source, list_to_name
from foregate.schemas.strict_json import as_object, get_list, get_object, get_text
from foregate.schemas.tool_spec import Effect
from foregate.schemas.visible import make_visible
from foregate.views.terminal.layout import format_labelled
from foregate.views.terminal.sheet import build_held, format_details, list_arguments
from foregate.views.terminal.tools_sheet import format_tools

WIDTH = 80
"""Columns of a sheet in an editor, which breaks no lines of a fenced text."""
_NAMING = "No button releases this, for you did not say it. Reject it here, and write the value in a message of yours:"

_WRITE = "reject it, for no button releases it; to allow it, write in a message"
"""What the title says then: some editors show no more than that."""


class EditorQuestion(NamedTuple):
    """One question to an editor: the call it is about, and its options, by whose ids it is answered."""

    call: ToolCallUpdate
    options: list[PermissionOption]


def build_call_question(need: Need, number: int, call_id: str, preview: Preview | None, root: Path) -> EditorQuestion:
    """Return the question about one call of an approval, the `number`th, from 1."""
    call = as_object(get_list(need.request, "calls")[number - 1])
    alone = len(get_list(need.request, "calls")) == 1
    to_name = list(list_to_name(call))
    lasting = get_object(call, "permits").get(NARROW) if alone and not to_name else None
    offered = [one for one in get_list(need.request, "permissions") if lasting and get_text(one, "id", "") == lasting]
    shown = {**need.request, "grants": [], "permissions": offered}
    previews = {get_text(call, "call", ""): preview} if preview is not None else {}
    rows = list(format_labelled("release", _NAMING, WIDTH)) if to_name else []
    for value in to_name:
        path = make_visible(get_text(value, "path", ""))
        rows += format_labelled("write", f"{explain_naming(value, path)}: {get_text(value, 'text', '')}", WIDTH)
        rows += format_labelled("", explain_source(value), WIDTH)
    rows += format_details(shown, previews, width=WIDTH, only=0 if alone else number, keys=False)
    content = [show_rows(rows)]
    for change in preview.changes if preview is not None else ():
        content.append(build_diff(root, change.path, change.before, change.after))
    name = build_title(get_text(call, "tool", ""), get_text(call, "target", ""))
    why = ", ".join(get_text(value, "text", "") for value in to_name) or str(next(iter(get_list(call, "why")), ""))
    options = [] if to_name else [build_option("yes", "Allow once", "allow_once")]
    if offered:
        options.append(build_option(NARROW, "Allow in this project from now on", "allow_always"))
    asked = ToolCallUpdate(
        tool_call_id=call_id,
        title=f"{name}: {build_title(_WRITE if to_name else '', why)}",
        kind=KINDS.get(Effect(get_text(call, "effect", "unknown")), "other"),
        status="pending",
        content=content,
        locations=[ToolCallLocation(path=str(root / change.path)) for change in preview.changes] if preview else None,
        raw_input=dict(list_arguments(get_text(call, "arguments", ""))),
    )
    return EditorQuestion(asked, [*options, build_option("no", "Reject", "reject_once")])


def build_held_question(need: Need, call_id: str) -> EditorQuestion:
    """Return the question about a call that was held again."""
    rows = list(format_labelled("held", get_text(need.request, "question", ""), WIDTH))
    rows += [row for block in build_held(need.request, WIDTH, details=True) for row in block.rows]
    call = as_object(next(iter(get_list(need.request, "calls")), {}))
    title = build_title(get_text(call, "tool", ""), get_text(call, "target", ""))
    anyway = [build_option("anyway", "Do it anyway", "allow_once")] if need.request.get("can_override") else []
    asked = ToolCallUpdate(tool_call_id=call_id, title=title, status="pending", content=[show_rows(rows)])
    return EditorQuestion(asked, [*anyway, build_option("stop", "Stop the task", "reject_once")])


def build_tools_question(need: Need) -> EditorQuestion:
    """Return the question whether the tools of an MCP server are offered, as they are defined now."""
    rows = format_tools(need.request, details=True, keys=False, width=WIDTH)
    asked = ToolCallUpdate(
        tool_call_id=f"tools-{need.key}",
        title=make_visible(get_text(need.request, "question")),
        kind="other",
        status="pending",
        content=[show_rows(rows)],
    )
    allow = build_option("yes", "Offer these tools, as they are now", "allow_once")
    return EditorQuestion(asked, [allow, build_option("no", "Not in this session", "reject_once")])


def build_plan_question(need: Need, rows: Sequence[Text], answers: Mapping[str, str]) -> EditorQuestion:
    """Return a question about a plan, whose sheet are the rows; `answers` are its words and what a button says."""
    number = get_object(need.request, "task").get("id", "") if "task" in need.request else ""
    asked = ToolCallUpdate(
        tool_call_id=f"plan-{need.key}{number}",
        title=make_visible(get_text(need.request, "question", "Run this plan?")),
        kind="think",
        status="pending",
        content=[show_rows(rows)],
    )
    refuses = ("no", "stop")
    options = [build_option(a, said, "reject_once" if a in refuses else "allow_once") for a, said in answers.items()]
    return EditorQuestion(asked, options)


def build_option(choice: str, name: str, kind: str) -> PermissionOption:
    return PermissionOption.model_validate({"optionId": choice, "name": name, "kind": kind})


def show_rows(rows: Sequence[Text]) -> ToolCallContentVariant:
    """Return the rows of a sheet as a text of fixed width."""
    return tool_content(text_block(fence_text("\n".join(row.plain.rstrip() for row in rows))))
