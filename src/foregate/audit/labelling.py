"""Labelling one decision that is named by its address."""

from __future__ import annotations

from foregate.assembly.home import find_address
from foregate.schemas.errors import TamperedLog
from foregate.schemas.identity import Identity
from foregate.schemas.review import Label
from foregate.schemas.strict_json import scrub
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import ReviewLog, SaidLabel
from foregate.telemetry.queries.reviews import GivenLabel
from foregate.telemetry.queries.rulings import find_ruling


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
