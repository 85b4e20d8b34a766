"""Plans made without a look at any call, as planners write them, and turns over calls with values that bind."""

from __future__ import annotations

from typing import Any


def blind_plan(*steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the JSON of a plan with these steps."""
    return {
        "goal": "do what was asked",
        "success_criteria": [{"text": "it is done", "check": None, "target": None, "expected": None}],
        "first_action": {
            "tool": (steps[0]["tool"] if steps else None) or "read_file",
            "target": "",
            "description": "x",
        },
        "requires_verification": True,
        "risky_actions": ["the wrong one"],
        "version": 2,
        "planned_steps": list(steps),
        "flows": [],
    } | changes


def blind_step(
    tool: str | None, *targets: Any, uses: int | None = None, effect: Any = None, **bounds: Any
) -> dict[str, Any]:
    """Return a step; a target is a text, or `(argument, text)`, and a bound `argument=(rule, value)`."""
    named = [target if isinstance(target, tuple) else (None, target) for target in targets]
    return {
        "tool": tool,
        "effect": effect,
        "uses": uses,
        "targets": [
            {"argument": argument, "said": said, "read": None, "record": None, "field": None}
            for argument, said in named
        ],
        "bounds": [{"argument": name, "rule": rule, "value": value} for name, (rule, value) in bounds.items()],
        "description": "do it",
    }
