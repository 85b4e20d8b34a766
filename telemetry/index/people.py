"""Who did something, as one text: the operating system's user and host where the events have them."""

from __future__ import annotations

from typing import Any

from foregate.schemas.event import NeedAnswered
from foregate.schemas.event_body import SessionStarted


def name_runner(body: SessionStarted) -> str:
    """Return who ran a session, "" where its log does not say; for a served one the agent it serves."""
    return _name_identity(getattr(body, "by", None)) or body.agent


def name_answerer(body: NeedAnswered) -> str:
    """Return who gave an answer: `person` where its log says no more."""
    said = (body.answer.value or {}).get("by")
    return _name_identity(getattr(body, "by", None)) or (said if isinstance(said, str) else "")


def name_followed(body: SessionStarted) -> str:
    """Return the session that this one goes on with, "" for none."""
    session = getattr(getattr(body, "follows", None), "session", "")
    return session if isinstance(session, str) else ""


def _name_identity(identity: Any) -> str:
    user, host = (getattr(identity, name, "") or "" for name in ("user", "host"))
    return f"{user}@{host}" if user and host else str(user)
