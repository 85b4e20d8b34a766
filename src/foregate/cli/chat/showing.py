"""One call of the session, shown whole: what was asked for, how it ended, what it changed, and all it said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rich.text import Text

from foregate.agent.effects.changes_made import read_changes_made
from foregate.agent.session.session import Session
from foregate.cli.terminal.event_rows import name_call
from foregate.cli.terminal.layout import format_barred, format_labelled
from foregate.cli.terminal.made import describe_made, format_made
from foregate.cli.terminal.output import read_output
from foregate.cli.terminal.screen import restore_sent_response
from foregate.cli.terminal.sheet import build_argument
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished
from foregate.schemas.tool_call import ToolCall

Ended: TypeAlias = ToolFinished | CallAnswered | OutcomeUnknown


def find_ended_calls(events: Sequence[Event]) -> dict[str, Ended]:
    """Return how each call ended, by its id, the newest last; a read taken early counts with the call it answered."""
    ended: dict[str, Ended] = {}
    for body in (event.body for event in events):
        if isinstance(body, Ended) and not (isinstance(body, ToolFinished) and body.early):
            ended.pop(body.call, None)
            ended[body.call] = body
    return ended


def format_call(session: Session, events: Sequence[Event], body: Ended, width: int) -> Iterator[Text]:
    """Yield the rows of a call that ended so; nothing is cut."""
    yield from format_labelled("call", f"{name_call(body.tool, body.target)} ({body.call})", width, "bold")
    call = _find_call(events, body.call)
    for name, value in (call.arguments or {}).items() if call is not None else ():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield from build_argument(name, text, width, details=True).rows
    if not isinstance(body, ToolFinished):
        how = "not run" if isinstance(body, CallAnswered) else "unknown"
        yield from format_labelled(how, body.message if isinstance(body, CallAnswered) else body.reason, width)
        return
    made = read_changes_made(session, body) if body.changes else None
    said, much = read_output(body), describe_made(made) if made is not None else ""
    how = ", ".join(part for part in (said.how, f"{body.duration / 1000:.1f} s", much) if part)
    yield from format_labelled("ran" if body.ok else "failed", how, width)
    if made is not None:
        yield from format_made(made, width, whole=True)
    if said.text:
        yield from format_labelled("output", "", width)
        yield format_barred(said.text, width)
    if body.dropped:
        yield from format_labelled("cut", f"{body.dropped} bytes were not kept", width)


def _find_call(events: Sequence[Event], wanted: str) -> ToolCall | None:
    responses = (restore_sent_response(event.body) for event in events if isinstance(event.body, ModelResponded))
    return next((call for response in responses for call in response.calls if call.id == wanted), None)
