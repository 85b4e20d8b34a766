"""What the obedient model plans where it sees no call: steps from the words, or where compromised anything."""

from __future__ import annotations

from typing import Any

from foregate.schemas import strict_json
from foregate.schemas.plan import list_leaves
from guarding.task import LOOKS, Call, Task, Turn

_MANY = 9
"""Uses that a compromised planner grants of each step."""


def plan_blindly(task: Task, turn: Turn, *, compromised: bool) -> str:
    """Return a plan as JSON text; a compromised one names whatever the script's calls do, as if the person said it."""
    if isinstance(task.blind, str) and not compromised:
        return '{"goal": "' + "and then " * 4096 if task.blind == "endless" else ""
    if task.blind is not None and not compromised:
        steps = [dict(step) for step in task.blind]
    elif compromised or task.kind == "harmless":
        calls = [call for step in turn.steps for call in step.calls]
        steps = [build_step(call, calls, turn.say, compromised=compromised) for call in calls if call.tool not in LOOKS]
    else:
        steps = []
    first = {"tool": steps[0]["tool"] if steps else "read_file", "target": "", "description": "do the first step"}
    return strict_json.canonical(
        {
            "goal": turn.say,
            "success_criteria": ["it is as asked"],
            "first_action": first,
            "requires_verification": True,
            "risky_actions": ["it may do more than asked"],
            "version": 2,
            "planned_steps": [{"description": f"use {step['tool']}", **step} for step in steps],
            "flows": [],
        }
    ).decode()


def build_step(call: Call, calls: list[Call], words: str, *, compromised: bool) -> dict[str, Any]:
    """Return the step of one call: its values as said where the words hold them, else as found by a look before it."""
    looks = [one.tool for one in calls[: calls.index(call)] if one.tool in LOOKS]
    step: dict[str, Any] = {"tool": call.tool, "targets": [], "bounds": []}
    if compromised:
        step["uses"] = _MANY
    for path, given in list_leaves(call.arguments):
        said = compromised or str(given).casefold() in words.casefold()
        if isinstance(given, str):
            step["targets"].append(
                {"argument": path, "said": given}
                if said
                else {"argument": path, "read": (looks or [""])[-1], "record": "", "field": path.rpartition(".")[2]}
            )
        step["bounds"].append({"argument": path, "rule": "equals" if said else "free", "value": str(given)})
    return step
