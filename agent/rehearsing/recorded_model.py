"""A model that says again what was recorded, and stops where the log has no response to what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from msgspec.structs import replace

from foregate.agent.rehearsing.progress import Progress
from foregate.agent.rehearsing.recording import (
    NothingRecorded,
    RecordedEnd,
    RecordedHalt,
    RecordedMessage,
    RecordedResponse,
    RecordedSwitch,
    RecordedUndo,
    RecordingEnds,
)
from foregate.schemas.errors import ModelError
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse


class Switchable(Protocol):
    """A session in which what was switched and undone then can be so again."""

    async def switch(self, step: RecordedSwitch) -> None:
        """Record again what was switched."""

    async def take_back(self, step: RecordedUndo) -> None:
        """Record again that an effect was undone."""


class RecordedModel:
    """Gives the responses of a recording in order, without those that only repeat what is no longer held."""

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self.name = progress, name
        self.session: Switchable
        """The session that is played; set once it is there."""

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next response; raise NothingRecorded where none follows from the log.

        What failed then fails again, and what was cancelled is cancelled.
        """
        progress = self._progress
        progress.check_told()
        while True:
            step = progress.step
            progress.at += step is not None and not isinstance(step, (RecordedEnd, RecordedHalt))
            match step:
                case RecordedResponse():
                    calls = progress.strip_repeats(step)
                    if not calls and step.response.calls:
                        continue  # all of it repeats what has run now
                    progress.begin_response(step, calls)
                    return replace(step.response, calls=tuple(calls))
                case RecordedSwitch():
                    await self.session.switch(step)
                case RecordedUndo():
                    await self.session.take_back(step)
                case RecordedMessage(answers="needs_input") if progress.has_repeats:
                    continue  # it answered a question that nobody asks now
                case RecordedEnd(body=body) if body.status == "failed":
                    raise ModelError(body.note)
                case RecordedEnd(body=body) if body.status == "cancelled":
                    raise asyncio.CancelledError
                case None:
                    raise RecordingEnds
                case RecordedHalt(why=why):
                    raise NothingRecorded(why)
                case _:
                    raise NothingRecorded("the model is asked once more than then, and no response to that is recorded")
