"""A plan, one of its tasks or its failure before the person at the terminal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from foregate.agent.planning.confirm.control import standing
from foregate.agent.planning.confirm.outlook import outlook
from foregate.cli.plan.plan_person import PlanPerson, edited
from foregate.cli.plan.plan_sheet import task_rows
from foregate.cli.terminal.colours import BAD
from foregate.cli.terminal.layout import labelled
from foregate.schemas.errors import UsageError
from foregate.schemas.json_object import get_int, get_list, get_object, get_text, texts
from foregate.schemas.need import Need
from foregate.schemas.protocols import Reply

if TYPE_CHECKING:
    from foregate.agent.session.session import Session
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.terminal import Terminal


async def answer_plan(session: Session, screen: Screen, terminal: Terminal, need: Need) -> Reply | None:
    """Show what a need about the session's plan is about, as it stands in the log, and return the person's reply.

    None is not now: the question stays open.
    """
    state = await standing(session)
    person, width, request = PlanPerson(screen, terminal), screen.console.width, need.request
    if "failed" in request:
        choice = await person.after_failure(state.steps[get_int(request, "failed")])
        return Reply(choice) if choice is not None else None
    looked = outlook(session, state, get_int(request, "uses", 0))
    screen.idle()
    if "plan" not in request:
        if "task" in request:
            number = get_int(get_object(request, "task"), "id")
            screen.rows(task_rows(state.steps[number].task, looked.of(number), width=width))
        return Reply("yes" if await person.asks(get_text(request, "question")) else "no")
    for defect in texts(get_list(request, "defects"), "defects"):
        screen.rows(labelled("defect", defect, width, BAD, label_style=BAD))
    if state.number > 1:
        screen.say(f"a further plan, {state.number} of at most {get_int(request, 'most')}", "bold")
    while True:
        said = await person.confirm(state, looked)
        if said != "edit":
            return Reply(said)
        try:
            return Reply(said, await asyncio.to_thread(edited, state.known))
        except UsageError as error:
            screen.row(f"foregate: {error}", BAD)
