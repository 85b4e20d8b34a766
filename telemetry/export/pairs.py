"""Preference pairs: a call that was held or denied, and the one that would have been better in its place.

For each call of a model's response that was held or denied:

1. where the ruling named a look as its cure (`remedy`): that look, when it ran and succeeded before the task's next
   response was over, whoever called for it;
2. else (`replacement`): the first call of the task's next response that was allowed, ran, and has the same tool or the
   same target. The very same call counts only after `narration_required`, where words alone made the difference, and
   only under other words; after any other code something else had changed, and nothing about the call was better.

There is none where a person said something in between beside an answer on a sheet: what was not known cannot be
preferred. A call that was only cancelled, cut off or not reached was not ruled out. Shadow gates hold nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from foregate.schemas.judgement import Remedy
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from foregate.telemetry.export.trajectory import Action, Trajectory, TrajectoryStep


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
    """Yield the pairs of a trajectory in the order of the held calls, without those of its children."""
    for place, step in enumerate(trajectory.steps):
        if not (step.is_response and step.asked):
            continue
        until = _find_steps_until_next(trajectory.steps[place:])
        for held in step.actions:
            if held.standing in ("hold", "deny"):
                cure = held.remedy
                pair = (
                    _find_replacement_pair(step, held, until[-1])
                    if cure is None
                    else _find_remedy_pair(step, held, cure, until)
                )
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
