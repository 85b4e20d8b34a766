"""Which stored bytes an event names by their hash."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from foregate.schemas.event import Event, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.event_body import SandboxEnded, ToolStarted
from foregate.schemas.task_plan import PlanStepChanged

Holds = Literal["", "directory", "repository", "changes"]
"""What stored bytes name in their turn: an image of a folder, of a repository, or what a sandbox's changes replace."""


def list_blobs(event: Event) -> Iterator[tuple[str, Holds]]:
    """Yield the hash of all stored bytes that an event names itself, and what these name in their turn."""
    for hash_, holds in _list_names(event):
        if hash_:
            yield hash_, holds


def _list_names(event: Event) -> Iterator[tuple[str, Holds]]:
    match event.body:
        case NeedRaised(request=request, previews=previews):
            yield request, ""
            yield previews, ""
        case NeedAnswered(response=response):
            yield response or "", ""
        case TurnJudged(turn=turn):
            yield from ((survey.changes, "") for survey in turn.surveys)
        case ToolStarted(before=before, images=images):
            for image in before:
                yield image.image, _HOLDING.get(image.type, "")
                yield image.attributes, ""
            yield images, "changes"
        case SandboxEnded(changes=changes):
            yield changes, ""
        case PlanStepChanged(ask=ask) if ask is not None:
            yield ask.request, ""
        case _:
            pass


_HOLDING: dict[str, Holds] = {"directory": "directory", "repository": "repository"}
