"""What a session cost and what its gates did, counted from its events alone."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from foregate.schemas.event import Event, ModelResponded, NeedAnswered, NeedRaised
from foregate.schemas.event_body import CallAnswered, ToolStarted


class SessionCounts(Struct, kw_only=True):
    """Requests to the model, to planner and critic; questions to a person; calls held or denied, and calls that ran."""

    requests: int = 0
    planner: int = 0
    critic: int = 0
    prompts: int = 0
    held: int = 0
    ran: int = 0

    def add(self, other: SessionCounts) -> None:
        """Add the counts of another session."""
        for name in self.__struct_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


def count_events(events: Iterable[Event]) -> SessionCounts:
    """Return what the events of a session, or of the part of one, tell."""
    found, ran = SessionCounts(), set[str]()
    for event in events:
        match event.body:
            case ModelResponded(continues=None, places=None):
                found.requests += 1
            case NeedAnswered(answer=answer, model_calls=calls) if answer.who == "planner":
                found.planner += calls
            case NeedAnswered(answer=answer, model_calls=calls) if answer.who == "critic":
                found.critic += calls
            case NeedRaised(need=need):
                found.prompts += need.who == "person"
            case CallAnswered(ruling="hold" | "deny"):
                found.held += 1
            case ToolStarted(early=False, applies=None, call=call):
                ran.add(call)  # one whose child task waited for a person is started once more
            case _:
                pass
    found.ran = len(ran)
    return found
