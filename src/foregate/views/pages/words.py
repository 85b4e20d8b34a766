"""Foregate's own words on pages: how a call stands, what a gate's code means, who did something."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from foregate.schemas.codes import MEANINGS
from foregate.schemas.judgement import Standing
from foregate.views.pages.views import Tone

STANDING: Mapping[Standing, tuple[Tone, str]] = {
    Standing.ALLOW: ("allow", "let pass"),
    Standing.ASK: ("ask", "asks"),
    Standing.HOLD: ("hold", "held"),
    Standing.DENY: ("deny", "denied"),
}
STATE: Mapping[str, Tone] = {
    "completed": "allow",
    "blocked": "hold",
    "budget_exhausted": "hold",
    "cancelled": "quiet",
    "failed": "fail",
    "needs_input": "ask",
    "awaiting_approval": "ask",
    "paused": "ask",
    "open": "quiet",
}
"""How the state of a task or a session looks, by its public name."""
WHO: Mapping[str, str] = {
    "user": "person",
    "parent": "parent task",
    "model": "model",
    "runner": "Foregate looked for the model",
    "postlude": "Foregate checked the answer",
    "sandbox": "what it did in its sandbox",
}
YES = ("yes", "grant", "project", "wider", "anyway", "step", "edit")


def describe_code(code: str) -> str:
    """Return what a code says of any call, "" for one this version does not know."""
    return MEANINGS.get(code, ("", ""))[0]


def describe_remedy(code: str) -> str:
    """Return what cures what a code stopped, "" where nothing is to be cured or this version does not know it."""
    return MEANINGS.get(code, ("", ""))[1]


def describe_state(state: str) -> str:
    """Return a public name as words."""
    return state.replace("_", " ")


def count_seconds(since: str, until: str) -> int:
    """Return the seconds between two recorded times, -1 where one of them is none."""
    try:
        took = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    except (ValueError, TypeError):
        return -1
    return max(0, round(took.total_seconds()))


def describe_duration(seconds: int) -> str:
    """Return seconds as people say them: `40 s`, `3 min 5 s`, `2 h 10 min`."""
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"
