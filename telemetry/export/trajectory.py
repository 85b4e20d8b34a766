"""A session as a trajectory: what every export format is written from, and what may be learned from it.

A reward is what a user's function says it is worth; a preference pair is a call that was held or denied, and the one
that would have been better in its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, SupportsFloat, SupportsIndex

from msgspec import Struct

from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event
from foregate.schemas.event_body import STATUSES, Kind, PauseReason, Status
from foregate.schemas.judgement import Remedy, Who
from foregate.schemas.model_response import Usage
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec
from foregate.telemetry.queries.decisions import DecisionPoint

Source = Literal["system", "user", "agent"]
OutcomeOfCall = Literal["finished", "failed", "unknown", "not_run", "open"]
TaskStanding = Literal["running"] | PauseReason | Status


class Action(Struct, frozen=True):
    """One call of a step, its ruling and its outcome.

    `arguments` is what strict parsing made of `raw`, None with a `defect` where it could not be read. `standing` is
    `allow`, `hold` or `deny`, "" where nobody judged the call; `gate`, `code` and `message` are those of the strictest
    ruling, and `remedy` the call it named as the cure. `outcome` is `finished` or `failed` (it ran, and the tool says
    so), `unknown` (nobody can vouch for it; `resolved` is what was found out later), `not_run` under `answer_code`, or
    `open`. `content` is what the tool showed or why the call did not run, `told` the whole answer as the model got it,
    "" for a call Foregate made itself. `undone` tells that the effect was taken back later, `child` names the session
    of a delegated task.
    """

    id: str
    name: str
    raw: str
    arguments: Mapping[str, Json] | None
    defect: str
    digest: str
    target: str = ""
    standing: str = ""
    gate: str = ""
    code: str = ""
    message: str = ""
    remedy: Remedy | None = None
    outcome: OutcomeOfCall = "open"
    answer_code: str = ""
    content: str = ""
    told: str = ""
    error: str = ""
    exit_code: int | None = None
    duration: int = 0
    resolved: str = ""
    undone: bool = False
    child: str = ""

    @property
    def call(self) -> ToolCall:
        """The call alone."""
        return ToolCall(self.id, self.id, self.name, self.raw, self.arguments, self.defect, self.digest)

    @property
    def has_run(self) -> bool:
        """Whether the call was allowed and its tool was started."""
        return self.outcome in ("finished", "failed", "unknown")


class GivenAnswer(Struct, frozen=True):
    """What somebody answered while a step was judged: `who` is `person`, `planner` or `critic`.

    `choice` and `text` are a person's; `value` is the whole answer, None where there was no usable one and `error` says
    why. `code` is what the gate asked under, `calls` what it asked about, and `by` the person who answered.
    """

    seq: int
    time: str
    who: Who
    gate: str
    code: str = ""
    calls: tuple[str, ...] = ()
    choice: str = ""
    text: str = ""
    value: Mapping[str, Json] | None = None
    error: str = ""
    usage: Usage = Usage()
    by: str = ""


class TrajectoryStep(Struct, frozen=True):
    """One step: a prompt or notice (`system`), a message (`user`), or what the agent did (`agent`).

    `kind` is the kind of the event it begins with and `actor` who made it: `model`, `planner` (a plan's own calls),
    `runner` and `postlude` (looks Foregate takes itself), `foregate`, `user`, `parent`, `person`. `asked` tells whether
    a model was asked for it, `tools` are the specifications in force. `task` and `turn` count from 1, 0 outside, and
    `cause` is the number of the event that led to a look of Foregate's own, `raw` what a model wrote where calls were
    read from its text. `events` are those the step stands for.
    """

    number: int
    seq: int
    time: str
    kind: Kind
    source: Source
    actor: str
    message: str
    task: int = 0
    turn: int = 0
    reasoning: str = ""
    raw: str = ""
    actions: tuple[Action, ...] = ()
    decisions: tuple[DecisionPoint, ...] = ()
    answers: tuple[GivenAnswer, ...] = ()
    asked: bool = False
    model: str = ""
    finish_reason: str = ""
    usage: Usage = Usage()
    cause: int = 0
    tools: tuple[ToolSpec, ...] = ()
    events: tuple[Event, ...] = ()

    @property
    def is_response(self) -> bool:
        """Whether this is a response: of a model, or of a plan in its place."""
        return self.kind == "model_response"


class TaskEnd(Struct, frozen=True):
    """A task: its number, the numbers of its first and last step, and its status: `running`, a pause, or its end."""

    number: int
    first: int
    last: int
    status: TaskStanding = "running"
    text: str = ""
    note: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the task is over."""
        return self.status in STATUSES


class Trajectory(Struct, frozen=True):
    """A session from its first event to its last, with those of the tasks it delegated in `children`.

    `tools` are the specifications that were offered first. `masked` lists the numbers of events that hold less here
    than in the log: what the policy in force at the export calls sensitive was masked in them.
    """

    session: str
    started: str
    last: str
    foregate: str
    model: str
    workspace: str
    depth: int
    parent: str
    ended: bool
    head: str
    tools: tuple[ToolSpec, ...]
    steps: tuple[TrajectoryStep, ...]
    tasks: tuple[TaskEnd, ...]
    masked: tuple[int, ...] = ()
    children: tuple[Trajectory, ...] = ()

    @property
    def responses(self) -> tuple[TrajectoryStep, ...]:
        """The steps that are responses; rewards count by them."""
        return tuple(step for step in self.steps if step.is_response)


Reward = Callable[[Trajectory], object]
"""Gives one number for the whole trajectory, or one for each of its `responses`."""


def compute_rewards(reward: Reward, trajectory: Trajectory) -> list[float]:
    """Return one reward for each response of a trajectory.

    A single number counts for the whole: the last response has it, those before have 0. Raises UsageError where the
    function raises, or gives what is no finite number or as many of them as there are responses.
    """
    count = len(trajectory.responses)
    try:
        given = reward(trajectory)
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {str(error)[:200]}"
        raise UsageError(f"the reward function failed on session `{trajectory.session}` ({why}); correct it") from None
    if isinstance(given, Sequence) and not isinstance(given, (str, bytes)):
        if len(given) != count:
            gave = f"the reward function gave {len(given)} numbers for session `{trajectory.session}`"
            raise UsageError(f"{gave}, which has {count} responses; give one for each, or a single number")
        return [_check_number(one, trajectory) for one in given]
    whole = _check_number(given, trajectory)
    return [*([0.0] * (count - 1)), whole] if count else []


def _check_number(value: object, trajectory: Trajectory) -> float:
    try:
        number = float(value) if isinstance(value, (SupportsFloat, SupportsIndex)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        gave = f"the reward function gave `{str(value)[:40]}` for session `{trajectory.session}`"
        raise UsageError(f"{gave}; give a finite number")
    return number


class Pair(Struct, frozen=True):
    """The held call with its step, and the better one with its own; `text` is what is said with the better one."""

    kind: Literal["remedy", "replacement"]
    step: TrajectoryStep
    held: Action
    better_step: TrajectoryStep
    better: Action
    text: str

    def to_json(self) -> dict[str, Json]:
        """Return where both calls stand in the trajectory, and under which ruling the one was held."""
        return {
            "kind": self.kind,
            "gate": self.held.gate,
            "code": self.held.code,
            "standing": self.held.standing,
            "non_preferred": {"step_id": self.step.number, "tool_call_id": self.held.id},
            "preferred": {"step_id": self.better_step.number, "tool_call_id": self.better.id},
        }


_WORDS = "narration_required"


def find_pairs(trajectory: Trajectory) -> Iterator[Pair]:
    """Yield the pairs of a trajectory in the order of the held calls, without those of its children.

    For each call of a model's response that was held or denied:

    1. where the ruling named a look as its cure (`remedy`): that look, when it ran and succeeded before the task's next
       response was over, whoever called for it;
    2. else (`replacement`): the first call of the task's next response that was allowed, ran, and has the same tool or
       the same target. The very same call counts only after `narration_required`, where words alone made the
       difference, and only under other words; after any other code something else had changed, and nothing about the
       call was better.

    None is given where a person said something in between beside an answer on a sheet: what was not known cannot be
    preferred. A call that was only cancelled, cut off or not reached was not ruled out. Shadow gates hold nothing.
    """
    for place, step in enumerate(trajectory.steps):
        if not (step.is_response and step.asked):
            continue
        until = _find_steps_until_next(trajectory.steps[place:])
        for held in step.actions:
            if held.standing in ("hold", "deny"):
                if held.remedy is None:
                    pair = _find_replacement_pair(step, held, until[-1])
                else:
                    pair = _find_remedy_pair(step, held, held.remedy, until)
                if pair is not None:
                    yield pair


def _find_steps_until_next(steps: tuple[TrajectoryStep, ...]) -> tuple[TrajectoryStep, ...]:
    """Return the steps from a response to the next of its task, or as far as it was not interrupted."""
    first = steps[0]
    for place, step in enumerate(steps[1:], start=1):
        if step.source == "user" or step.task != first.task:
            return steps[:place]
        if step.is_response:
            return steps[: place + 1]
    return steps


def _find_remedy_pair(
    step: TrajectoryStep, held: Action, cure: Remedy, until: tuple[TrajectoryStep, ...]
) -> Pair | None:
    digest = ToolCall.of(cure.tool, cure.arguments).digest
    for other in until:
        for better in other.actions:
            if better.digest == digest and better.outcome == "finished":
                return Pair("remedy", step, held, other, better, step.message)
    return None


def _find_replacement_pair(step: TrajectoryStep, held: Action, following: TrajectoryStep) -> Pair | None:
    if following is step or not (following.is_response and following.asked):
        return None
    for better in following.actions:
        alike = better.name == held.name or (held.target != "" and better.target == held.target)
        again = better.digest == held.digest
        new = (held.code == _WORDS and following.message != step.message) if again else alike
        if new and better.standing == "allow" and better.has_run:
            return Pair("replacement", step, held, following, better, following.message)
    return None
