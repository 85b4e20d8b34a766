"""A session's past, as lines: its decision points and its conversation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import (
    CallAnswered,
    ContextCompressed,
    Kind,
    PolicyChanged,
    SessionStarted,
    TaskEnded,
    ToolFinished,
    UserMessage,
)
from foregate.telemetry.export.fold import describe_switches
from foregate.telemetry.queries.decisions import DecisionPoint
from foregate.views.terminal.event_rows import describe_compression, format_line, name_call
from foregate.views.terminal.layout import BAD, CARE, NAME, format_barred, format_labelled

_COLOURS = {"info": "dim", "warning": CARE, "error": BAD}
_SAID_BY = {"user": "you", "parent": "parent", "model": "model"}
_RULED = {"hold": "held", "deny": "denied"}
_WHO, _ADDRESS = 6, 16
_NARROW = 60
"""Columns below which an address stands above its line and not before it."""


def format_decision(point: DecisionPoint, width: int) -> Text:
    """Return one line: address, code, the call it is about, and why; cut to `width` unless that is 0."""
    return format_line(f"{point.address:<{_ADDRESS}}", _COLOURS[point.severity], _describe_decision(point), width)


def format_decision_rows(point: DecisionPoint, width: int) -> Iterator[Text]:
    """Yield the same in as many lines as it takes; in a narrow terminal the address has one of its own."""
    colour, said = _COLOURS[point.severity], _describe_decision(point).replace("\n", " ").strip()
    if width < _NARROW:
        yield from format_labelled(point.address, "", width, label_style=colour)
        yield from format_labelled("", said, width, room=1)
    else:
        yield from format_labelled(point.address, said, width, label_style=colour, room=_ADDRESS)


def _describe_decision(point: DecisionPoint) -> str:
    what = f"{point.tool} {point.target}".strip()
    marks = " [sandbox]" * (point.actor == "sandbox") + " [shadow]" * (point.mode == "shadow")
    return ": ".join(part for part in (f"{point.code}{marks}", what, point.summary) if part)


def _summarise_compression(body: ContextCompressed) -> str:
    how = "estimated" if body.counted_by == "estimate" else f"counted by {body.counted_by}"
    return f"{describe_compression(body)}: {body.before} tokens were {body.after} then ({how}, limit {body.limit})"


_DIGITS = 12
"""Characters of a hash that a line shows."""
ASIDE: tuple[Kind, ...] = ("session_started", "policy_changed", "context_compressed")
"""Kinds of the events that may have something to say beside decisions and messages."""


def format_aside(event: Event, width: int) -> Iterator[Text]:
    """Yield what such an event says as one line among decision points: the dialect a session begins in, a switch, a
    conversation that grew too long; nothing where it says nothing."""
    match event.body:
        case ContextCompressed() as body:
            said = _summarise_compression(body)
        case SessionStarted() | PolicyChanged() as body:
            said = _describe_setting(event, body)
        case _:
            said = ""
    if said:
        row = format_line(f"{event.seq:<{_ADDRESS}}", "", said, width)
        row.stylize("dim")
        yield row


def _describe_setting(event: Event, body: SessionStarted | PolicyChanged) -> str:
    """Return which ended session this one follows, another policy and the switches an event sets, "" for none."""
    link = body.follows if isinstance(body, SessionStarted) else None
    follows = f"follows session {link.session}, which ended at event {link.seq} ({link.hash})" if link else ""
    before = body.before if isinstance(body, PolicyChanged) else None
    policy = f"policy {event.policy[:_DIGITS]} instead of {before[:_DIGITS]}" if before else ""
    return ", ".join(filter(None, (follows, policy, describe_switches(body))))


def format_conversation(events: Iterable[Event], width: int, *, markdown: bool = False) -> Iterator[Text]:
    """Yield what was said, by whom, and which calls ran; an early look only once a call is answered from it.

    With `markdown` the model's words are laid out, as they were when it said them.
    """
    for event in events:
        match event.body:
            case UserMessage(text=text):
                yield from _format_message(_SAID_BY.get(event.actor, event.actor), text, width)
            case ModelResponded(text=text) if text.strip():
                yield from _format_message("model", text, width, markdown=markdown)
            case ToolFinished(early=False) as body:
                ran = f"{name_call(body.tool, body.target)} ({body.call})"
                yield from format_labelled("tool", ran if body.ok else f"{ran}, failed", width, room=_WHO)
            case CallAnswered() as body:
                how = ", ".join(filter(None, (name_call(body.tool, body.target), _RULED.get(body.ruling, ""))))
                yield from format_labelled("tool", f"{how}: {body.code}", width, room=_WHO)
            case ContextCompressed() as body:
                yield from format_labelled("left", _summarise_compression(body), width, "dim", room=_WHO)
            case SessionStarted() | PolicyChanged() as body if said := _describe_setting(event, body):
                yield from format_labelled("set", said, width, "dim", room=_WHO)
            case TaskEnded(status=status, note=note) if status != "completed":
                yield from format_labelled("task", f"{status}: {note}", width, room=_WHO)


def _format_message(who: str, text: str, width: int, *, markdown: bool = False) -> Iterator[Text]:
    shown = _lay_out(text, width - _WHO - 3) if markdown else format_barred(text, width - _WHO - 3)
    for number, words in enumerate(shown.split("\n")):
        row = Text("  ").append(f"{who if number == 0 else '':<{_WHO}} ", style=NAME if who == "you" else "dim")
        yield row.append_text(words)


def _lay_out(text: str, width: int) -> Text:
    from foregate.views.terminal.markdown import MarkdownText

    flow = MarkdownText(width)
    shown = flow.feed(text).append_text(flow.end())
    shown.rstrip()
    return shown
