"""One call of the session, shown whole: what was asked for, how it ended, what it changed, and all it said."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from rich.text import Text

from foregate.agent.loop.changes_made import read_changes_made
from foregate.agent.session.session import Session
from foregate.policy.policy import Policy
from foregate.policy.source.wording import describe_differences
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, PolicyChanged, ToolFinished
from foregate.schemas.tool_call import ToolCall
from foregate.views.terminal.event_rows import name_call, read_output
from foregate.views.terminal.layout import format_barred, format_labelled
from foregate.views.terminal.made import describe_made, format_made
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.screen import Screen, restore_sent_response
from foregate.views.terminal.sheet import build_argument

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


_SHOWN = 5
"""Keys of another policy that are said."""


class PolicyNews:
    """Follows the policy of a session, for the screen and the person at the terminal."""

    def __init__(self, session: Session, screen: Screen, person: PersonAtTerminal | None) -> None:
        self._session, self._screen, self._person = session, screen, person
        self._keep_to(session.policy)
        session.subscribe(self.show_event)

    def _keep_to(self, policy: Policy) -> None:
        self._policy = policy
        if self._person is not None:
            self._person.reads_wait = policy.approval.reads == "ask"

    def show_event(self, event: Event) -> None:
        """Say how another policy differs from the one before; a listener of the session."""
        if (
            not isinstance(event.body, PolicyChanged)
            or event.body.policy is None
            or event.session != self._session.name
        ):
            return
        found = list(describe_differences(self._policy, self._session.policy))
        for one in found[:_SHOWN]:
            self._screen.row(f"          {one.way or 'other'}: {one.words}", "dim")
        if more := len(found[_SHOWN:]):
            self._screen.row(f"          and {more} more", "dim")
        self._keep_to(self._session.policy)
