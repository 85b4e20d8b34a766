"""Events as tests read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from foregate.schemas.event import Event
from foregate.schemas.event_body import EventBody, Report, TaskEnded, ToolFinished
from foregate.schemas.tool_call import Origin

B = TypeVar("B", bound=EventBody)


def bodies(events: Iterable[Event], kind: type[B]) -> list[B]:
    """Return the bodies of one kind among events, in order."""
    return [event.body for event in events if isinstance(event.body, kind)]


def tool_finished(tool: str, target: str, **more: Any) -> ToolFinished:
    """Return how a call that did what it should ended; `more` are further fields."""
    usual = {"call": "c1.1", "ok": True, "origin": Origin.WORKSPACE, "evidence": (), "changes": ()}
    return ToolFinished(tool=tool, target=target, **{**usual, **more})


def task_ended(**more: Any) -> TaskEnded:
    """Return the end of a task that used and said nothing; `more` are other fields."""
    none = dict.fromkeys(("duration", "turns", "model_calls", "tool_calls", "tokens", "cost"), 0)
    return TaskEnded(**{"status": "completed", "text": "", "note": "", "report": Report(), **none, **more})
