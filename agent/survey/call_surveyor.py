"""What a session needs of whoever looks at calls before they are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from foregate.evidence.state.session import SessionState
from foregate.schemas.tool_call import Survey, ToolCall


class CallSurveyor(Protocol):
    """Says what looking finds for calls, before each is judged."""

    def survey(self, calls: Sequence[ToolCall], state: SessionState) -> tuple[Survey, ...]:
        """Return what looking finds for each call."""

    def survey_call(self, call: ToolCall, state: SessionState, *, again: bool = False) -> Survey:
        """Return what looking finds for a call, in `problem` what prevents it; with `again` only what may change."""
