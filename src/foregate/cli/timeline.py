"""A session's past, as lines: its decision points and its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from foregate.cli.rows import line, paragraph
from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.telemetry.decisions import DecisionPoint, decision_points

_COLOURS = {"info": "dim", "warning": "yellow", "error": "red"}
_SAID_BY = {"user": "you", "parent": "parent task", "model": "model"}


def row_of(point: DecisionPoint, width: int) -> Text:
    """Return one line: address, code, the call it is about, and why; cut to `width` unless that is 0."""
    what = f"{point.tool} {point.target}".strip()
    shadow = " [shadow]" if point.mode == "shadow" else ""
    rest = ": ".join(part for part in (f"{point.code}{shadow}", what, point.summary) if part)
    return line(f"{point.address:<16}", _COLOURS[point.severity], rest, width)


def points_json(events: Iterable[Event]) -> list[Json]:
    """Return the decision points as JSON rows."""
    return [point.to_json() for point in decision_points(events)]


def messages_of(events: Iterable[Event]) -> Iterator[Text]:
    """Yield what was said, by whom, and which calls ran, in order."""
    for event in events:
        body = event.body
        if event.kind == "user_message":
            yield _said(_SAID_BY.get(event.actor, event.actor), body["text"])
        elif event.kind == "model_response" and body["text"].strip():
            yield _said("model", body["text"])
        elif event.kind == "tool_finished":
            yield _said("tool", f"{body['tool']} {body['target']} ({body['call']})".replace("\n", " "))
        elif event.kind == "task_ended" and body["status"] != "completed":
            yield _said("task", f"{body['status']}: {body['note']}")


def _said(who: str, text: str) -> Text:
    row = Text(f"{who:<6} ", style="cyan" if who == "you" else "dim")
    first, *more = paragraph(text.strip()).split("\n", allow_blank=True)
    row.append(first)
    for rest in more:
        row.append("\n" + " " * 7).append(rest)
    return row
