"""What a reviewer says for good: the label of one decision, and that a session is signed off."""

from __future__ import annotations

from foregate.assembly.home import find_address
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, TamperedLog, UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.protocols import Blobs, Readable
from foregate.schemas.review import Label, SessionSignedOff
from foregate.schemas.strict_json import Json, scrub
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import ReviewLog, SaidLabel, format_head
from foregate.telemetry.queries.reviews import GivenLabel
from foregate.telemetry.queries.rulings import find_ruling


async def read_sign_offs(log: Readable, kept: ReviewLog) -> dict[str, dict[str, Json]]:
    """Return by session who signed it off, when, up to what event, and whether it is void: the session has grown."""
    found: dict[str, dict[str, Json]] = {}
    for session, signed in (await kept.read()).sign_offs.items():
        body = signed.body
        try:
            void = signed.is_void(format_head(log, session))
        except LogError:
            # The session is not in this log any more.
            void = True
        about: dict[str, Json] = {"by": strict_json.dump(body.by), "at": signed.time, "head": body.head}
        found[session] = {**about, "comment": body.comment, "void": void}
    return found


async def sign_session_off(
    log: SqliteLog,
    kept: ReviewLog,
    session: str,
    *,
    by: Identity,
    now: str,
    comment: str = "",
    blobs: Blobs | None = None,
) -> SessionSignedOff:
    """Verify a session and record that somebody signs it off as it stands, at a UTC time; return what was recorded.

    Raises UsageError for a session that does not verify, and LogError for one that is not there.
    """
    # Who only lists sessions judges nothing again.
    from foregate.tuning.snapshot_check import prove_all

    found = (await prove_all(log, session, blobs)).found
    if not found.ok:
        raise UsageError(f"session `{session}` does not verify, so it was not signed off: {found.sentence}")
    event = await kept.sign_off(log, session, by=by, now=now, comment=scrub(comment))
    assert isinstance(event.body, SessionSignedOff)
    return event.body


async def label_decision(
    log: SqliteLog,
    kept: ReviewLog,
    decision: str,
    label: Label,
    *,
    by: Identity,
    now: str,
    comment: str = "",
    seconds: int = 0,
    event: str = "",
) -> GivenLabel:
    """Label the ruling at `SESSION/SEQ.GATE[:CALL]`, at a UTC time; return the label.

    `event` is the hash of the event as the reviewer was shown it, "" where nobody kept it. Raises UsageError for a
    ruling that is not there, and TamperedLog for one that is another than was shown; then nothing is written.
    """
    ruled = find_ruling(log, *await find_address(log, decision))
    if event and event != ruled.event:
        raise TamperedLog(f"`{ruled.address}` is not what you were shown, so nothing was written", ruled.seq)
    reviews = await kept.read()
    said = SaidLabel(label, scrub(comment), seconds, blind=not reviews.may_see_others(ruled, by.user))
    await kept.label(log, ruled, said, by, now)
    given = (await kept.read()).find_label(ruled, by.user)
    assert given is not None
    return given
