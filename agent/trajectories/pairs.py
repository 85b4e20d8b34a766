"""Preference pairs: a call that was held or denied, and the one that would have been better in its place.

For each call of a response that was held or denied, the first of these that there is:

1. `remedy`: the look the ruling named as its cure, where Foregate took it or the next response of the task called for
   it, and it ran and succeeded;
2. `replacement`: the first call of the next response of the task that was allowed, ran, and has the same tool or the
   same target.

A call that ran in the next response exactly as it was held, under the same words, is no pair: nothing was better. A
call that was only cancelled, cut off or not reached was not ruled out, and makes none. Shadow gates hold nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from foregate.agent.trajectories.trajectory import Action, Step, Trajectory
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall


class Pair(Struct, frozen=True):
    """The held call with its step, and the better one with its own; `text` is what is said with the better one."""

    kind: Literal["remedy", "replacement"]
    step: Step
    held: Action
    better_step: Step
    better: Action
    text: str

    def to_json(self) -> Json:
        """Return where both calls stand in the trajectory, and under which ruling the one was held."""
        return {
            "kind": self.kind,
            "gate": self.held.gate,
            "code": self.held.code,
            "standing": self.held.standing,
            "non_preferred": {"step_id": self.step.number, "tool_call_id": self.held.id},
            "preferred": {"step_id": self.better_step.number, "tool_call_id": self.better.id},
        }


def pairs_of(trajectory: Trajectory) -> Iterator[Pair]:
    """Yield the pairs of a trajectory in the order of the held calls, without those of its children."""
    steps = trajectory.steps
    for place, step in enumerate(steps):
        if not (step.response and step.asked):
            continue
        later = steps[place + 1 :]
        following = next((other for other in later if other.response and other.task == step.task), None)
        for held in step.actions:
            if held.standing in ("hold", "deny"):
                pair = _remedied(step, held, later, following) or _replaced(step, held, following)
                if pair is not None:
                    yield pair


def _remedied(step: Step, held: Action, later: tuple[Step, ...], following: Step | None) -> Pair | None:
    if held.remedy is None:
        return None
    digest = ToolCall.of(held.remedy["tool"], held.remedy["arguments"]).digest
    until = following.number if following is not None else later[-1].number if later else 0
    for other in later:
        if other.number > until or (other.response and other is not following):
            break
        if other.task == step.task and (other.actor == "runner" or other is following):
            for better in other.actions:
                if better.digest == digest and better.outcome == "finished":
                    return Pair("remedy", step, held, other, better, step.message)
    return None


def _replaced(step: Step, held: Action, following: Step | None) -> Pair | None:
    if following is None or not following.asked:
        return None
    for better in following.actions:
        alike = better.name == held.name or (held.target != "" and better.target == held.target)
        same = better.digest == held.digest and following.message == step.message
        if better.standing == "allow" and better.ran and alike and not same:
            return Pair("replacement", step, held, following, better, following.message)
    return None
