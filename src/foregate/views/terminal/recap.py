"""Where a session that is resumed stands: what was asked last, what was done, and what is parked and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.text import Text

from foregate.agent.loop.changes_made import read_changes_made
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind, TaskEnded, TaskStarted, ToolFinished, UserMessage
from foregate.views.terminal.event_rows import name_call
from foregate.views.terminal.layout import BAD, format_labelled
from foregate.views.terminal.task_work import IN_CHAT, SUMMED_UP, Hints, TaskWork, format_work

if TYPE_CHECKING:
    from foregate.agent.session.session import Session

RECAPPED: tuple[Kind, ...] = ("task_started", "user_message", *SUMMED_UP)
"""The kinds of events that a recap is made of."""
_LONGEST = 300
"""Characters of a request that are shown."""
_STATES = {
    "needs_input": "it waits for an answer to a question",
    "awaiting_approval": "it waits for a yes",
    "paused": "its plan is paused",
    "": "it was cut off, and goes on now",
}
"""How an open task stands, by why it is paused."""


def format_recap(session: Session, events: Sequence[Event], width: int, hints: Hints = IN_CHAT) -> Iterator[Text]:
    """Yield the last request, how it ended, what its calls did, and each call of the session that is parked."""
    asked, work = "", TaskWork()
    for body in (event.body for event in events):
        match body:
            case TaskStarted():
                asked, work = "", TaskWork()
            case UserMessage(text=text):
                asked = text
        work.add(body, read_changes_made(session, body) if isinstance(body, ToolFinished) and body.changes else None)
    if asked:
        said = asked if len(asked) <= _LONGEST else f"{asked[:_LONGEST]}…"
        yield from format_labelled("asked", said.replace("\n", " "), width)
        yield from format_labelled("ended" if work.ended is not None else "open", _describe_end(session, work), width)
        if isinstance(work.ended, TaskEnded) and work.ended.status == "blocked":
            yield from format_labelled("needs", work.ended.report.need, width)
    if session.state.by is not None and session.log.is_taken_over:
        yield from format_labelled("run by", f"{session.state.by}, until now", width)
    if work.is_worth_a_summary:
        yield from format_work(work, width, hints.undo)
    for call, lost in session.state.parked.items():
        why = f"{name_call(lost.tool, lost.target)}: nobody can say whether it took effect ({lost.reason}); look, then"
        yield from format_labelled("parked", f"{why} {hints.settle.format(call=call)}", width, label_style=BAD)


def _describe_end(session: Session, work: TaskWork) -> str:
    if isinstance(ended := work.ended, TaskEnded):
        status, blocker = ended.status.replace("_", " "), ended.report.blocker
        return f"{status}: {blocker}" if blocker else status
    task = session.state.task
    if session.state.waits_for_person and session.state.question is None and task is not None and not task.paused:
        return "its question has been answered, and it goes on now"
    return _STATES.get(task.paused if task is not None else "", _STATES[""])
