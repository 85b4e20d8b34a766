"""The person at a terminal before a plan, one of its tasks or its failure. Enter alone is no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from foregate.agent.planning.run.control import get_plan_state
from foregate.agent.planning.run.outlook import PlanPreview, preview_plan
from foregate.cli.plan.plan_finding import edit_plan
from foregate.cli.plan.plan_sheet import FAILURE_KEYS, KEYS, format_failure, format_plan_sheet, format_task, is_plan_cut
from foregate.cli.terminal.layout import BAD, CARE, format_labelled
from foregate.cli.terminal.screen import Screen
from foregate.cli.terminal.terminal import Terminal
from foregate.evidence.state.plan import PlanState, StepState
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json, as_texts, get_int, get_list, get_object, get_text

if TYPE_CHECKING:
    from foregate.agent.session.session import Session


class PlanPerson:
    """Answers what is asked about a session's plan by showing a sheet, in a way that cannot be done by accident."""

    def __init__(self, session: Session, screen: Screen, terminal: Terminal) -> None:
        self.session, self.screen, self.terminal = session, screen, terminal

    async def answer(self, need: Need) -> Reply | None:
        """Show what a need is about, as it stands in the log, and return the reply; see Person."""
        state, request = await get_plan_state(self.session), need.request
        self.screen.idle()
        if "failed" in request:
            return await self._after_failure(state.steps[get_int(request, "failed")])
        looked = preview_plan(self.session, state, get_int(request, "uses", 0))
        if "task" in request:
            number = get_int(get_object(request, "task"), "id")
            self.screen.rows(format_task(state.steps[number].task, looked.of(number), width=self._width))
            return await self._asks(get_text(request, "question"))
        return await self._confirm(state, looked, request)

    @property
    def _width(self) -> int:
        return self.screen.console.width

    async def _confirm(self, state: PlanState, looked: PlanPreview, request: Mapping[str, Json]) -> Reply:
        """Show the sheet and return the choice; Ctrl-D is no. A sheet that cut something takes no yes before d."""
        unseen = is_plan_cut(looked)
        for label, colour in (("warning", CARE), ("defect", BAD)):
            for sentence in as_texts(get_list(request, f"{label}s"), f"{label}s"):
                self.screen.rows(format_labelled(label, sentence, self._width, colour, label_style=colour))
        if state.number > 1:
            self.screen.say(f"a further plan, {state.number} of at most {get_int(request, 'most')}", "bold")
        self.screen.rows(format_plan_sheet(state, looked, width=self._width))
        self.screen.say(f"  {KEYS}", "dim")
        while True:
            typed = await self.terminal.read_answer("run this plan? ")
            match ("n" if typed is None else typed).strip().lower():
                case "y" | "yes" | "s" | "step" if unseen:
                    self.screen.say("not everything has been shown yet: d shows it, then y counts", CARE)
                case "y" | "yes":
                    return Reply("yes")
                case "s" | "step":
                    return Reply("step")
                case "n" | "no":
                    return Reply("no")
                case "e" | "edit":
                    try:
                        return Reply("edit", await asyncio.to_thread(edit_plan, state.current_plan))
                    except UsageError as error:
                        self.screen.row(f"foregate: {error}", BAD)
                case "d" | "details":
                    self.screen.rows(format_plan_sheet(state, looked, details=True, width=self._width))
                    unseen = False
                case _:
                    self.screen.say(KEYS, CARE)

    async def _after_failure(self, step: StepState) -> Reply | None:
        """Show what failed and return how to go on; Ctrl-D is not now."""
        self.screen.rows(format_failure(step, self._width))
        self.screen.say(f"  {FAILURE_KEYS}", "dim")
        while (typed := await self.terminal.read_answer("how to go on? ")) is not None:
            match typed.strip().lower():
                case "g" | "go on":
                    return Reply("go_on")
                case "r" | "retry" if lost := step.unknown_call:
                    self.screen.row(f"nobody knows whether {lost} took effect: stop, say what came of it, retry", CARE)
                case "r" | "retry":
                    return Reply("retry")
                case "b" | "roll back":
                    return Reply("roll_back")
                case "s" | "stop":
                    return Reply("stop")
                case _:
                    self.screen.say(FAILURE_KEYS, CARE)
        return None

    async def _asks(self, question: str) -> Reply:
        while True:
            typed = await self.terminal.read_answer(f"{question} ")
            match ("n" if typed is None else typed).strip().lower():
                case "y" | "yes":
                    return Reply("yes")
                case "n" | "no":
                    return Reply("no")
            self.screen.say("y or n", CARE)
