"""What playing a recorded session again takes its way through: what was said, answered, switched, done and ended."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field

from foregate.evidence.state.recorded_turns import InForce
from foregate.schemas.event import Actor, NeedAnswered
from foregate.schemas.event_body import (
    CallAnswered,
    CatalogChanged,
    Checkpoint,
    EffectUndone,
    OutcomeUnknown,
    PolicyChanged,
    SandboxEnded,
    TaskEnded,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.model_response import ModelResponse
from foregate.tuning.rehearsing.recorded_plan import PlanStep


class RecordingEnds(BaseException):
    """The session was left here with something open: it has been played as far as it went.

    As with NothingRecorded, it is no error: nothing that handles errors of a call may stop it.
    """


class NothingRecorded(BaseException):
    """The log holds nothing for what is asked now: the session cannot be played further. Says why in one sentence."""


class RecordedAnswer(Struct):
    """A question and its answer; `sandboxed` is set where it was about what a sandbox had changed."""

    seq: int
    time: str
    need: Need
    body: NeedAnswered
    sandboxed: bool = False

    @property
    def answer(self) -> Answer:
        return self.body.answer


class RecordedFate(Struct):
    """What became of a call: how it was started and ended, what its sandbox held, or why it did not run."""

    started: ToolStarted | None = None
    sandbox: SandboxEnded | None = None
    applied: ToolStarted | None = None
    end: ToolFinished | OutcomeUnknown | None = None
    answered: CallAnswered | None = None
    time: str = ""

    @property
    def code(self) -> str:
        """What the model was told: `ran`, or the code by which the call did not run; "" for nothing."""
        return self.answered.code if self.answered is not None else "ran" if self.end is not None else ""


class RecordedResponse(Struct):
    """A response of the model, whole, with the ids its calls had then, and what was answered about them.

    `asked` is the hash of what it was asked where it fills in a task of a plan, `refused` why its calls were not taken.
    """

    seq: int
    time: str
    task: int
    response: ModelResponse
    asked: str = ""
    refused: str = ""
    answers: list[RecordedAnswer] = field(default_factory=list)


class RecordedMessage(Struct, frozen=True):
    """A message that somebody sent; `answers` what the task had paused for, "" for nothing."""

    seq: int
    time: str
    text: str
    answers: str


class RecordedSwitch(Struct, frozen=True):
    """Something that a person switched, or other tools."""

    seq: int
    body: PolicyChanged | CatalogChanged
    actor: Actor
    in_force: InForce


class RecordedUndo(Struct, frozen=True):
    """A step of taking back what a call changed, and by whom."""

    seq: int
    body: EffectUndone | Checkpoint
    actor: Actor

    @property
    def call(self) -> str:
        """The id of that call; one of a session that this one resumes has that session's name before it."""
        return self.body.undo if isinstance(self.body, Checkpoint) else self.body.call


class RecordedEnd(Struct, frozen=True):
    """How a task ended."""

    seq: int
    body: TaskEnded


class RecordedHalt(Struct, frozen=True):
    """From here on the session is not played: why, in one sentence."""

    seq: int
    why: str


Step: TypeAlias = (
    RecordedMessage | RecordedResponse | RecordedSwitch | RecordedUndo | RecordedEnd | RecordedHalt | PlanStep
)
