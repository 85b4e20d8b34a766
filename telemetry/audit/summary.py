"""One line per session for a list: what it was, how its tasks stand, whether it has ended."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from foregate.schemas.event import Body, Event, NeedAnswered
from foregate.schemas.event_body import Kind, SessionStarted, TaskEnded, TaskPaused, TaskStarted, UserMessage
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json

KINDS: tuple[Kind, ...] = (
    "session_started",
    "task_started",
    "user_message",
    "need_answered",
    "task_paused",
    "task_ended",
    "session_ended",
)
"""The kinds a summary is made of."""
_SHOWN = 120


class TaskSummary(Struct, frozen=True):
    """A task: its number, the first line of its first message (for display), and `running`, a pause, or its end."""

    number: int
    text: str
    status: str


class SessionSummary(Struct, frozen=True):
    """A session: name, times of first and last event (UTC text, "" when empty), where, which model, its tasks.

    `events` counts all events. `ended` tells whether the last one ended the session.
    """

    name: str
    started: str
    last: str
    workspace: str
    model: str
    tasks: tuple[TaskSummary, ...]
    events: int
    ended: bool

    def to_json(self) -> Json:
        """Return the summary as JSON values, every column present."""
        return {
            "name": self.name,
            "started": self.started,
            "last": self.last,
            "workspace": self.workspace,
            "model": self.model,
            "tasks": [{"number": task.number, "text": task.text, "status": task.status} for task in self.tasks],
            "events": self.events,
            "ended": self.ended,
        }


def summarise(log: Readable, session: str) -> SessionSummary:
    """Return the summary of a session; reads its last event and those of KINDS. LogError for an unknown session."""
    count, _ = log.head_anchor(session)
    last = next(log.events(session, after=count - 1), None) if count else None
    return build_summary(session, log.events(session, kinds=KINDS), count, last)


def build_summary(session: str, events: Iterable[Event], count: int, last: Event | None) -> SessionSummary:
    """Return the summary of events of KINDS, with the number of all events and the last of them."""
    started, workspace, model = "", "", ""
    tasks: list[TaskSummary] = []
    for event in events:
        match event.body:
            case SessionStarted() as body:
                started, workspace, model = event.time, body.workspace, body.model
            case TaskStarted(task=number):
                tasks.append(TaskSummary(number, "", "running"))
            case body if tasks:
                tasks[-1] = _apply_event(tasks[-1], body)
    return SessionSummary(
        name=session,
        started=started,
        last=last.time if last else "",
        workspace=workspace,
        model=model,
        tasks=tuple(tasks),
        events=count,
        ended=last is not None and last.kind == "session_ended",
    )


def _apply_event(task: TaskSummary, body: Body) -> TaskSummary:
    """Return the task as it stands after an event of it."""
    match body:
        case UserMessage(text=text):
            lines = text.strip().splitlines() or [""]
            return replace(task, text=task.text or lines[0][:_SHOWN], status="running")
        case NeedAnswered():
            return replace(task, status="running")
        case TaskPaused(reason=reason):
            return replace(task, status=reason)
        case TaskEnded(status=status):
            return replace(task, status=status)
        case _:
            return task
