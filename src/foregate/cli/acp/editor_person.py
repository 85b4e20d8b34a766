"""The person at an editor: a question becomes a request for permission with a sheet and buttons."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from acp import RequestError
from acp.helpers import ToolCallContentVariant, text_block, tool_content
from acp.schema import AllowedOutcome, PermissionOption, RequestPermissionResponse, ToolCallLocation, ToolCallUpdate
from pydantic import ValidationError
from rich.text import Text

from foregate.agent.loop.undo import Preview, preview_calls
from foregate.agent.planning.control import get_plan_state
from foregate.agent.planning.outlook import preview_plan
from foregate.cli.acp.updates import KINDS, Updates, build_diff, build_title, fence_text
from foregate.gates.support.permitting import NARROW
from foregate.schemas import strict_json
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.sources import explain_naming, explain_source, list_to_name
from foregate.schemas.strict_json import as_object, as_texts, get_int, get_list, get_object, get_text
from foregate.schemas.tool_spec import Effect
from foregate.schemas.visible import make_visible
from foregate.views.terminal.layout import format_labelled
from foregate.views.terminal.plan_sheet import format_failure, format_plan_sheet, format_task
from foregate.views.terminal.sheet import build_held, format_details, list_arguments
from foregate.views.terminal.tools_sheet import format_tools

if TYPE_CHECKING:
    from foregate.agent.session.session import Session


WIDTH = 80
"""Columns of a sheet in an editor, which breaks no lines of a fenced text."""
_NAMING = "No button releases this, for you did not say it. Reject it here, and write the value in a message of yours:"

_WRITE = "reject it, for no button releases it; to allow it, write in a message"
"""What the title says then: some editors show no more than that."""
BY = "the editor's person"
_PLAN = {"yes": "Run exactly this", "step": "Run it, but ask before each task", "no": "Do not run it"}
_TASK = {"yes": "Run this task", "no": "Stop here"}
_FAILURE = {
    "go_on": "Continue with what does not depend on it",
    "retry": "Retry it",
    "roll_back": "Roll back",
    "stop": "Stop",
}


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


Ask = Callable[[EditorQuestion], Awaitable[RequestPermissionResponse]]


class EditorPerson:
    """Answers needs by what is pressed in the editor. A question nobody answers stays open in the log.

    `ask` puts a question. Tools of MCP servers that nobody has pinned are reviewed before a session has a name by which
    the editor could be asked: those questions are kept in `reviews`, and `agreed` are the hashes of those answered yes.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.session: Session | None = None
        self.updates: Updates | None = None
        self.reviews: list[Need] = []
        self.agreed: set[str] = set()
        self.is_asking = self.was_dismissed = False
        """Whether a question is open just now, and whether the editor took the newest one back."""
        self.problem = ""
        """Why the editor could not be asked."""

    async def answer(self, need: Need) -> Reply | None:
        """Return what was pressed, None where nothing was; see Person."""
        self.was_dismissed, self.problem = False, ""
        session, updates = self.session, self.updates
        if need.gate == "tools":
            if strict_json.digest(need.request) in self.agreed:
                return Reply("yes", by=BY)
            self.reviews.append(need)
            return None
        if session is None or updates is None:
            return None
        match need.gate:
            case "approval":
                return await self._answer_calls(need, session, updates)
            case "loop":
                number = updates.name_call(need.calls[0], need.digests[0]) if need.calls else ""
                choice = await self._press(build_held_question(need, number or f"asks-{need.key}"))
            case "task_plan":
                choice = await self._press(await build_plan_sheet(need, session))
            case _:
                return None
        return Reply(choice, by=BY) if choice else None

    async def review(self) -> bool:
        """Ask about the tools of MCP servers that nobody has pinned; whether any are to be offered from now on."""
        waiting, self.reviews = self.reviews, []
        for need in waiting:
            if await self._press(build_tools_question(need)) == "yes":
                self.agreed.add(strict_json.digest(need.request))
        return any(strict_json.digest(need.request) in self.agreed for need in waiting)

    def leave(self) -> None:
        """Leave the question that is open, and every later one, unanswered."""
        if not self._left.done():
            self._left.set_result(None)

    def come_back(self) -> None:
        """Answer questions again."""
        if self._left.done():
            self._left = asyncio.get_running_loop().create_future()

    async def _answer_calls(self, need: Need, session: Session, updates: Updates) -> Reply | None:
        """Ask about each call of an approval; nothing is decided before each has its answer."""
        previews, root = preview_calls(session, need), session.workspace.root
        answers: dict[str, str] = {}
        for place, (call, digest) in enumerate(zip(need.calls, need.digests, strict=True), start=1):
            number = updates.name_call(call, digest) or f"asks-{call}"
            choice = await self._press(build_call_question(need, place, number, previews.get(call), root))
            if not choice:
                return None
            answers[call] = choice
        said = set(answers.values())
        if len(said) == 1:
            return Reply(said.pop(), by=BY)
        return Reply("no", by=BY, calls=answers)

    async def _press(self, question: EditorQuestion) -> str:
        """Return the option that was pressed, "" for none: the editor took the question back, or is gone."""
        asking = asyncio.ensure_future(self._ask(question))
        self.is_asking = True
        try:
            either: list[asyncio.Future[Any]] = [asking, self._left]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._left.done():
                return ""
            outcome = asking.result().outcome
        except (RequestError, ConnectionError, ValidationError) as error:
            self.problem = str(error)[:200]
            return ""
        finally:
            self.is_asking = False
            asking.cancel()
            with suppress(asyncio.CancelledError, RequestError, ConnectionError, ValidationError):
                await asking
        offered = {option.option_id for option in question.options}
        if isinstance(outcome, AllowedOutcome) and outcome.option_id in offered:
            return outcome.option_id
        self.was_dismissed = True
        return ""


async def build_plan_sheet(need: Need, session: Session) -> EditorQuestion:
    """Return the question about a plan, one of its tasks, or one that failed, with the sheet a terminal shows."""
    state, request = await get_plan_state(session), need.request
    if "failed" in request:
        step = state.steps[get_int(request, "failed")]
        offered = {a: said for a, said in _FAILURE.items() if not (a == "retry" and step.unknown_call)}
        return build_plan_question(need, list(format_failure(step, WIDTH)), offered)
    looked = preview_plan(session, state, get_int(request, "uses", 0))
    if "task" in request:
        number = get_int(get_object(request, "task"), "id")
        return build_plan_question(
            need, list(format_task(state.steps[number].task, looked.of(number), details=True, width=WIDTH)), _TASK
        )
    known = as_texts(get_list(request, "answers"), "answers")
    rows = list(format_plan_sheet(state, looked, details=True, width=WIDTH))
    return build_plan_question(need, rows, {a: said for a, said in _PLAN.items() if a in known})
