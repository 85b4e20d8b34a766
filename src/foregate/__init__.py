"""An agent loop that checks before it acts: a prelude of gates judges every model response before any tool runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foregate.schemas.version import __version__ as __version__

if TYPE_CHECKING:
    from foregate.agent.session.result import Outcome
    from foregate.agent.session.session import Session
    from foregate.agent.tools.python.python_tool import tool
    from foregate.api import Agent, run, run_sync
    from foregate.policy.policy import Policy
    from foregate.schemas.errors import ForegateError
    from foregate.telemetry.export.trajectory import Trajectory

__all__ = [
    "Agent",
    "ForegateError",
    "Outcome",
    "Policy",
    "Session",
    "Trajectory",
    "__version__",
    "run",
    "run_sync",
    "tool",
]

_HOMES = {
    "Agent": "foregate.api",
    "ForegateError": "foregate.schemas.errors",
    "Outcome": "foregate.agent.session.result",
    "Policy": "foregate.policy.policy",
    "Session": "foregate.agent.session.session",
    "Trajectory": "foregate.telemetry.export.trajectory",
    "run": "foregate.api",
    "run_sync": "foregate.api",
    "tool": "foregate.agent.tools.python.python_tool",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that `import foregate` stays cheap."""
    from importlib import import_module

    try:
        home = _HOMES[name]
    except KeyError:
        raise AttributeError(f"module `foregate` has no attribute `{name}`") from None
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted(__all__)
