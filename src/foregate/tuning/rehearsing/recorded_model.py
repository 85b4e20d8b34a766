"""A model that says again what was recorded, and stops where the log has no response to what it is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from msgspec.structs import replace

from foregate.schemas.errors import ModelError
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_steps import (
    NothingRecorded,
    RecordedEnd,
    RecordedHalt,
    RecordedMessage,
    RecordedResponse,
    RecordedSwitch,
    RecordedUndo,
)

T = TypeVar("T")
U = TypeVar("U")


class Switchable(Protocol):
    """A session in which what was switched and undone then can be so again."""

    async def switch(self, step: RecordedSwitch) -> None:
        """Record again what was switched."""

    async def take_back(self, step: RecordedUndo) -> None:
        """Record again that an effect was undone."""


class RecordedVoice:
    """Whoever says again what was recorded of them, in the order of the recording."""

    _unheard = "the model is asked once more than then, and no response to that is recorded"
    _fails_too = False

    def __init__(self, progress: Progress, name: str) -> None:
        self._progress, self.name = progress, name
        self.session: Switchable
        """The session that is played; set once it is there."""

    async def _find_next(self, kind: type[T], other: type[U] | None = None) -> T | U:
        """Return the next step, which is of one kind or another; raise NothingRecorded where another one comes next.

        What was switched before it is switched. Where the task failed or was cancelled then, the session's own model
        fails or is cancelled again.
        """
        progress = self._progress
        while True:
            step = progress.step
            progress.at += step is not None and not isinstance(step, (RecordedEnd, RecordedHalt))
            match step:
                case RecordedSwitch():
                    await self.session.switch(step)
                case RecordedUndo():
                    await self.session.take_back(step)
                case RecordedMessage(answers="needs_input") if progress.has_repeats:
                    continue  # it answered a question that nobody asks now
                case RecordedEnd(body=body) if body.status == "failed" and self._fails_too:
                    raise ModelError(body.note)
                case RecordedEnd(body=body) if body.status == "cancelled" and self._fails_too:
                    self._progress.cancel()
                case None:
                    progress.stop_at_end()
                case RecordedHalt(why=why):
                    raise NothingRecorded(why)
                case _ if isinstance(step, kind) or (other is not None and isinstance(step, other)):
                    return step
                case _:
                    progress.at -= not isinstance(step, RecordedEnd)
                    raise NothingRecorded(self._unheard)


class RecordedModel(RecordedVoice):
    """Gives the responses of a recording in order, without those that only repeat what is no longer held."""

    _fails_too = True

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next response; raise NothingRecorded where none follows from the log."""
        self._progress.check_told()
        while True:
            step = await self._find_next(RecordedResponse)
            if step.asked:
                self._progress.at -= 1
                raise NothingRecorded(self._unheard)
            calls = self._progress.strip_repeats(step)
            if calls or not step.response.calls:  # else all of it repeats what has run now
                self._progress.begin_response(step, calls)
                return replace(step.response, calls=tuple(calls))
