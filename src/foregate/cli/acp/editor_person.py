"""The person at an editor: what a session asks becomes a request for permission, and the button pressed its answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from acp import RequestError
from acp.schema import AllowedOutcome, RequestPermissionResponse
from pydantic import ValidationError

from foregate.agent.loop.undo import preview_calls
from foregate.agent.planning.control import get_plan_state
from foregate.agent.planning.outlook import preview_plan
from foregate.cli.acp.permission import (
    WIDTH,
    EditorQuestion,
    build_call_question,
    build_held_question,
    build_plan_question,
    build_tools_question,
)
from foregate.cli.acp.updates import Updates
from foregate.schemas import strict_json
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import as_texts, get_int, get_list, get_object
from foregate.views.terminal.plan_sheet import format_failure, format_plan_sheet, format_task

if TYPE_CHECKING:
    from foregate.agent.session.session import Session

BY = "the editor's person"
Ask = Callable[[EditorQuestion], Awaitable[RequestPermissionResponse]]
_PLAN = {"yes": "Run exactly this", "step": "Run it, but ask before each task", "no": "Do not run it"}
_TASK = {"yes": "Run this task", "no": "Stop here"}
_FAILURE = {
    "go_on": "Continue with what does not depend on it",
    "retry": "Retry it",
    "roll_back": "Roll back",
    "stop": "Stop",
}


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
