"""Models that say again what was recorded, of a session and of its plans, and stop where the log has no response."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from msgspec.structs import replace

from foregate.agent.planning.asking import ENDPOINT, MODEL
from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError, ModelUnreachable
from foregate.schemas.event import NeedAnswered
from foregate.schemas.message import Message, ModelRequest, write_messages
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.tuning.rehearsing.progress import Progress
from foregate.tuning.rehearsing.recorded_plan import RecordedFailure, RecordedRound
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
                    # It answered a question that nobody asks now.
                    continue
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
            # Else all of it repeats what has run now.
            if calls or not step.response.calls:
                self._progress.begin_response(step, calls)
                return replace(step.response, calls=tuple(calls))


_OTHER = "is told something else than then, so what it would have said is unknown (--assume model=same goes on)"


class RecordedPlanner(RecordedVoice):
    """Answers the questions of each recorded round in order."""

    _unheard = "the planning model is asked here, which it was not then"
    round: RecordedRound | None = None
    """The round in hand."""
    _given = 0

    @property
    def has_more(self) -> bool:
        """Whether the round in hand has further answers."""
        return self.round is not None and self._given < len(self.round.answers)

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next answer; raise NothingRecorded where none follows from the log, or for another question."""
        if not self.has_more:
            await self._begin_round(request)
        assert self.round is not None
        if not self.has_more:
            if isinstance(self._progress.step, RecordedEnd):
                self._progress.cancel()
            # The recording ends here: it says what comes instead.
            await self._find_next(RecordedRound)
            raise NothingRecorded(self._unheard)
        time, body = self.round.answers[self._given]
        self._given += 1
        self._progress.pass_time(time)
        return _build_response(body)

    async def _begin_round(self, request: ModelRequest) -> None:
        found = await self._find_next(RecordedRound)
        if found.gate != request.purpose:
            raise NothingRecorded(self._unheard)
        self._progress.begin_part(found.seq, found.time)
        self.round, self._given = found, 0
        self._progress.note_missing_changes()
        if strict_json.sha256(request.messages[-1].text.encode()) != found.request:
            self._progress.assume_same(f"the planning model {_OTHER}")


def _build_response(body: NeedAnswered) -> ModelResponse:
    """Return a response with which asking comes to an answer; one that could not be used is one without words."""
    answer, usage = body.answer, body.usage or Usage()
    if answer.value is not None:
        return ModelResponse(strict_json.canonical(answer.value).decode(), usage=usage)
    if answer.error.startswith(f"{ENDPOINT}: "):
        raise ModelUnreachable(answer.error.removeprefix(f"{ENDPOINT}: "))
    if answer.error.startswith(f"{MODEL}: "):
        raise ModelError(answer.error.removeprefix(f"{MODEL}: "))
    return ModelResponse(usage=usage)


class RecordedFiller(RecordedVoice):
    """Fills in the calls of tasks as they were filled in then."""

    _unheard = "the execution model is asked to fill in a task here, which it was not then"

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Return the next response to a task; raise NothingRecorded where none follows from the log."""
        progress = self._progress
        step = await self._find_next(RecordedFailure, RecordedResponse)
        if isinstance(step, RecordedFailure):
            progress.begin_part(step.seq, step.time)
            raise ModelError(step.why)
        progress.begin_part(step.seq, step.time)
        progress.note_missing_changes()
        if strict_json.sha256(write_messages(self._rename(request.messages))) != step.asked:
            progress.assume_same(f"the execution model {_OTHER}")
        progress.begin_response(step, step.response.calls)
        return step.response

    @property
    def refused(self) -> str:
        """Why the calls of the next response were refused, "" where they were not."""
        step = self._progress.step
        return step.refused if isinstance(step, RecordedResponse) else ""

    def _rename(self, messages: Sequence[Message]) -> list[Message]:
        """Return messages with calls under the ids they had then."""
        find = self._progress.find_recorded_name
        return [
            replace(
                one,
                calls=tuple(replace(call, id=find(call.id)) for call in one.calls),
                call=one.call and find(one.call),
            )
            for one in messages
        ]
