"""What went wrong in a session with changes, and is not settled."""

from __future__ import annotations

from foregate.evidence.state.conversation import UNKNOWN
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.task import WHY
from foregate.evidence.state.truncate import format_line


def describe_open_trouble(state: SessionState) -> list[str]:
    """Return a line for each failure, hold and unknown outcome of a change that nothing has settled since."""
    found = {(one.tool, one.target): f"{UNKNOWN}: {one.reason}" for one in state.parked.values()}
    if state.task is not None:
        found.update({key: f"{what}: {state.task.why[key]}" for key, what in state.task.trouble.items()})
    return [format_line(f"open: `{' '.join(key).strip()}` {what}", 2 * WHY) for key, what in found.items()]
