"""A user's function that says what a trajectory is worth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import SupportsFloat, SupportsIndex

from foregate.schemas.errors import UsageError
from foregate.telemetry.export.trajectory import Trajectory

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
            raise UsageError(
                f"the reward function gave {len(given)} numbers for session `{trajectory.session}`, which has {count} "
                "responses; give one for each, or a single number"
            )
        return [_check_number(one, trajectory) for one in given]
    whole = _check_number(given, trajectory)
    return [*([0.0] * (count - 1)), whole] if count else []


def _check_number(value: object, trajectory: Trajectory) -> float:
    try:
        number = float(value) if isinstance(value, (SupportsFloat, SupportsIndex)) else math.nan
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(
            f"the reward function gave `{str(value)[:40]}` for session `{trajectory.session}`; give a finite number"
        )
    return number
