"""The steps of a recorded session: what was said, answered, planned, switched, undone and ended, in their order."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.evidence.state.recorded_turns import InForce
from foregate.schemas.event import Event, NeedAnswered
from foregate.schemas.event_body import (
    CallAnswered,
    Checkpoint,
    EffectUndone,
    OutcomeUnknown,
    SandboxEnded,
    TaskEnded,
    ToolFinished,
    ToolStarted,
)
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.task_plan import PlanProposed, RecordedConfiguration


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


class RecordedStep(Struct):
    """A step of the session's way: the event with which it begins, and its time as UTC text."""

    seq: int
    time: str


class RecordedResponse(RecordedStep):
    """A response of the model, whole, with the ids its calls had then, and what was answered about them.

    `asked` is the hash of what it was asked where it fills in a task of a plan, `refused` why its calls were not taken.
    """

    response: ModelResponse
    asked: str = ""
    refused: str = ""
    answers: list[RecordedAnswer] = field(default_factory=list)


class RecordedMessage(RecordedStep):
    """A message that somebody sent; `answers` what the task had paused for, "" for nothing."""

    text: str
    answers: str


class RecordedSwitch(RecordedStep):
    """Something that a person switched, or other tools: the event, and what is in force from it on."""

    event: Event
    in_force: InForce


class RecordedHalt(RecordedStep):
    """From here on the session is not played: why, in one sentence."""

    why: str


class RecordedRound(RecordedStep):
    """One round of questions to the planning model, with the look at the workspace before it and what it proposed.

    `request` is the hash of the first question: the others follow from it and the answers.
    """

    gate: str
    look: str
    request: str
    answers: list[tuple[str, NeedAnswered]] = field(default_factory=list)
    proposal: PlanProposed | None = None


class RecordedExecution(RecordedStep):
    """Somebody had the plan that waited carried out, with a yes beforehand or with a question before each task.

    One that `resumes` resumed a plan that had paused.
    """

    resumes: bool = False
    unseen: bool = False
    step: bool = False
    configuration: RecordedConfiguration | None = None


class RecordedRetry(RecordedStep):
    """Somebody had tasks of an ended plan tried again, of all that had failed."""

    failed: frozenset[int]
    tasks: list[int]


class RecordedFailure(RecordedStep):
    """The execution model gave no answer: why."""

    why: str


Step: TypeAlias = (
    RecordedMessage
    | RecordedResponse
    | RecordedSwitch
    | RecordedHalt
    | RecordedRound
    | RecordedExecution
    | RecordedRetry
    | RecordedFailure
    | Event
)
"""An event is a step by itself where a call was undone, a task ended, a person brought a plan along, or what a task of
an ended plan had done was undone."""


def find_end(step: Step | None) -> TaskEnded | None:
    """Return how the task ended where that is the step, else None."""
    return step.body if isinstance(step, Event) and isinstance(step.body, TaskEnded) else None


def find_undone_call(body: EffectUndone | Checkpoint) -> str:
    """Return the call that a step of undoing is about; one of a resumed session has that session's name before it."""
    return body.undo if isinstance(body, Checkpoint) else body.call


def name_undone_call(body: EffectUndone | Checkpoint, call: str) -> EffectUndone | Checkpoint:
    """Return the same step of undoing about the call that has this id now."""
    return replace(body, undo=call) if isinstance(body, Checkpoint) else replace(body, call=call)
