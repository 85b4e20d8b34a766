"""The session's own clock."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from foregate.agent.session.session_log import utc_now
from foregate.evidence.state.task import parse_time


def test_the_clock_tells_utc_to_the_microsecond() -> None:
    """The text names a moment between two readings of the system's clock and always has six digits of a second."""
    before = datetime.now(UTC)
    said = utc_now()
    after = datetime.now(UTC)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", said)
    assert before - timedelta(microseconds=1) <= parse_time(said) <= after
