"""What of an answer that fills in a task may be used: calls of the tools that were offered, not too many, not again."""

from __future__ import annotations

from collections.abc import Container

from msgspec.structs import replace

from foregate.evidence.state.plan import StepState
from foregate.schemas.model_response import ModelResponse

_LONGEST = 200


def room(step: StepState, most: int) -> int:
    """Return how many calls a task may still be filled in with in this attempt, of `most` in all."""
    return max(0, most - sum(step.sent.values()))


def usable(
    response: ModelResponse, offered: Container[str], most: int, done: Container[str]
) -> tuple[ModelResponse, str]:
    """Return the answer, or the answer without its calls and why they are refused, "" where they are not.

    All are refused or none: half of what somebody meant is something else. Calls whose digest is in `done` took
    effect for this task already.
    """
    calls = response.calls
    strange = sorted({call.name for call in calls if call.name not in offered})
    again = sorted({call.name for call in calls if call.digest in done})
    if response.deferred:
        why = "calls that name each other's results; send the first, and the others once you know what it gave"
    elif strange:
        why = f"calls of tools this task was not offered: {', '.join(strange)}"
    elif len(calls) > most:
        why = f"{len(calls)} calls, and a task may have {most} more; send fewer"
    elif again:
        why = f"calls that took effect already, exactly as they are: {', '.join(again)}; send what is left, or say so"
    else:
        return response, ""
    return replace(response, calls=(), notes=(*response.notes, why[:_LONGEST])), why[:_LONGEST]
