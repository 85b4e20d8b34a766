"""A moment as people type it: a date, a time, or how long ago."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from foregate.schemas.errors import UsageError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(text: str, now: datetime | None = None) -> datetime:
    """Return the moment: `2026-01-31`, `2026-01-31T08:00` (UTC unless it says otherwise), or `90m`, `12h`, `7d`, `2w`.

    Raises UsageError for anything else.
    """
    try:
        if ago := re.fullmatch(r"([0-9]{1,6})([mhdw])", text):
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"`{text[:60]}` is no moment; write a date (2026-01-31), a time (2026-01-31T08:00) or an age (7d, 12h)"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
