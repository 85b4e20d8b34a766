"""Who did something, as one text: the operating system's user and host where the events have them."""

from __future__ import annotations

from foregate.schemas.event import NeedAnswered
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.identity import Identity


def name_runner(body: SessionStarted) -> str:
    """Return who ran a session, "" where its log does not say; for a served one the agent it serves."""
    return _name_identity(body.by) or body.agent


def name_answerer(body: NeedAnswered) -> str:
    """Return who gave an answer: `person` where its log says no more."""
    said = (body.answer.value or {}).get("by")
    return _name_identity(body.by) or (said if isinstance(said, str) else "")


def name_followed(body: SessionStarted) -> str:
    """Return the session that this one goes on with, "" for none."""
    return body.follows.session if body.follows is not None else ""


def _name_identity(by: Identity | None) -> str:
    if by is None:
        return ""
    return f"{by.user}@{by.host}" if by.user and by.host else by.user
