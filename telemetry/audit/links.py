"""Sessions that go on with an ended one: whether that one still ends as it did."""

from __future__ import annotations

from collections.abc import Iterator

from foregate.schemas.errors import LogError
from foregate.schemas.event import Event
from foregate.schemas.event_body import SessionStarted
from foregate.schemas.protocols import Readable
from foregate.telemetry.audit.agreement import Finding


def check_link(log: Readable, event: Event) -> Iterator[Finding]:
    """Yield what is wrong with the session that the first event of another one says it goes on with."""
    link = event.body.follows if isinstance(event.body, SessionStarted) else None
    if link is None:
        return
    try:
        ended = next(iter(log.events(link.session, after=link.seq - 1, until=link.seq)), None)
    except LogError:
        yield (
            "no_earlier_session",
            f"it goes on with session `{link.session[:80]}`, which is not in the log, or cannot be read",
        )
        return
    if ended is None or ended.hash != link.hash or ended.kind != "session_ended":
        yield "other_earlier_session", f"session `{link.session[:80]}`, which it goes on with, did not end so"
