"""Events as tests read them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from foregate.schemas.event import Event
from foregate.schemas.event_body import EventBody

B = TypeVar("B", bound=EventBody)


def bodies(events: Iterable[Event], kind: type[B]) -> list[B]:
    """Return the bodies of one kind among events, in order."""
    return [event.body for event in events if isinstance(event.body, kind)]
