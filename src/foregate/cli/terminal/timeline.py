"""A session's past, as lines: its decision points and its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from foregate.cli.terminal.colours import BAD, CARE, NAME
from foregate.cli.terminal.flow import barred
from foregate.cli.terminal.layout import labelled
from foregate.cli.terminal.rows import compression, line
from foregate.schemas.call_events import ToolFinished
from foregate.schemas.event import Event
from foregate.schemas.event_body import Kind
from foregate.schemas.response_events import ModelResponded
from foregate.schemas.session_events import ContextCompressed, PolicyChanged, SessionStarted
from foregate.schemas.strict_json import Json
from foregate.schemas.task_events import TaskEnded, UserMessage
from foregate.telemetry.audit.decisions import DecisionPoint, decision_points
from foregate.telemetry.export.sentences import switched

_COLOURS = {"info": "dim", "warning": CARE, "error": BAD}
_SAID_BY = {"user": "you", "parent": "parent", "model": "model"}
_WHO = 6
_ADDRESS = 16
_NARROW = 60
"""Columns below which an address stands above its line and not before it."""


def row_of(point: DecisionPoint, width: int) -> Text:
    """Return one line: address, code, the call it is about, and why; cut to `width` unless that is 0."""
    return line(f"{point.address:<{_ADDRESS}}", _COLOURS[point.severity], _said_of(point), width)


def rows_of(point: DecisionPoint, width: int) -> Iterator[Text]:
    """Yield the same in as many lines as it takes; in a narrow terminal the address has one of its own."""
    colour, said = _COLOURS[point.severity], _said_of(point).replace("\n", " ").strip()
    if width < _NARROW:
        yield from labelled(point.address, "", width, label_style=colour)
        yield from labelled("", said, width, room=1)
    else:
        yield from labelled(point.address, said, width, label_style=colour, room=_ADDRESS)


def _said_of(point: DecisionPoint) -> str:
    what = f"{point.tool} {point.target}".strip()
    shadow = " [shadow]" if point.mode == "shadow" else ""
    return ": ".join(part for part in (f"{point.code}{shadow}", what, point.summary) if part)


def compressed_as(body: ContextCompressed) -> str:
    """Return what an event says of a conversation that grew too long, with the tokens before and after."""
    how = "estimated" if body.counted_by == "estimate" else f"counted by {body.counted_by}"
    return f"{compression(body)}: {body.before} tokens were {body.after} then ({how}, limit {body.limit})"


ASIDE: tuple[Kind, ...] = ("session_started", "policy_changed", "context_compressed")
"""Kinds of the events that may have something to say beside decisions and messages."""


def aside(event: Event) -> str:
    """Return what such an event says: the dialect a session begins in, a switch, a conversation that grew too long.

    "" where it says nothing, as an event of any other kind.
    """
    match event.body:
        case ContextCompressed() as body:
            return compressed_as(body)
        case SessionStarted() | PolicyChanged() as body:
            return switched(body)
        case _:
            return ""


def aside_rows(event: Event, width: int) -> Iterator[Text]:
    """Yield that as one line among decision points, nothing where there is nothing to say."""
    if said := aside(event):
        row = line(f"{event.seq:<{_ADDRESS}}", "", said, width)
        row.stylize("dim")
        yield row


def points_json(events: Iterable[Event]) -> list[Json]:
    """Return the decision points as JSON rows."""
    return [point.to_json() for point in decision_points(events)]


def messages_of(events: Iterable[Event], width: int) -> Iterator[Text]:
    """Yield what was said, by whom, and which calls ran, in order, in `width` columns.

    An early look is no part of it before its call is answered from it.
    """
    for event in events:
        match event.body:
            case UserMessage(text=text):
                yield from _said(_SAID_BY.get(event.actor, event.actor), text, width)
            case ModelResponded(text=text) if text.strip():
                yield from _said("model", text, width)
            case ToolFinished(early=False) as body:
                ran = f"{body.tool} {body.target}".strip()
                yield from labelled("tool", f"{ran} ({body.call})", width, room=_WHO)
            case ContextCompressed() as body:
                yield from labelled("left", compressed_as(body), width, "dim", room=_WHO)
            case SessionStarted() | PolicyChanged() as body if said := switched(body):
                yield from labelled("set", said, width, "dim", room=_WHO)
            case TaskEnded(status=status, note=note) if status != "completed":
                yield from labelled("task", f"{status}: {note}", width, room=_WHO)
            case _:
                pass


def _said(who: str, text: str, width: int) -> Iterator[Text]:
    for number, words in enumerate(barred(text, width - _WHO - 3).split("\n")):
        row = Text("  ").append(f"{who if number == 0 else '':<{_WHO}} ", style=NAME if who == "you" else "dim")
        yield row.append_text(words)
