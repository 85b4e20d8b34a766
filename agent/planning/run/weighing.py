"""What came of a task, from its calls: whether they did what it is for, and whether one may be sent again; pure."""

from __future__ import annotations

from foregate.agent.effects.executor import RUNTIME_LOST
from foregate.evidence.state.plan import NOT_DONE, CallState, StepState
from foregate.schemas.tool_spec import Catalogue

RESENT = 2
"""Times one call is sent in an attempt: a hold whose remedy was performed, or whose question was answered, is cured."""

FILLED_IN = 2
"""Times a task is filled in, in an attempt: once more with the reason."""

ENDING = {"denied_by_rule": "was denied by a rule", RUNTIME_LOST: "lost the runtime its tools run in"}
"""Codes of calls that end the whole plan, and how the report names them."""

_LOOKED = "nothing but looks so far; send the call that makes the change now"
_NO_CALL = "the answer held no call that could be read, of a tool that was offered"


def may_go_again(call: CallState, step: StepState) -> bool:
    """Whether a call has done what it is for, or what held it is cured and it may be sent again."""
    cured = call.cured or call.code == "uncertainty_clarification"
    return call.settled or call.code == NOT_DONE or (cured and step.sent.get(call.position, 0) < RESENT)


def lacking(step: StepState, catalogue: Catalogue) -> str:
    """Return what an answer, all of whose calls ran well, lacks to fulfil its task, "" where it does.

    A task that names a tool that changes something wants a change, and words only where some of it was done before;
    any other is fulfilled by looks or by words.
    """
    if step.refused or not (step.newest or step.words.strip()):
        return step.refused or _NO_CALL
    if not changing(step.task.action, catalogue) or any(changing(call.tool, catalogue) for call in step.newest):
        return ""
    return _LOOKED if step.newest else "" if step.effects else _NO_CALL


def changing(tool: str, catalogue: Catalogue) -> bool:
    """Whether a tool is known to change something."""
    spec = catalogue.get(tool)
    return spec is not None and spec.effect.changes
