"""Whether the review log can be trusted: its chain, and that its labels are about what the sessions' log holds."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec import Struct

from foregate.schemas.errors import ForegateError, LogError, TamperedLog
from foregate.schemas.protocols import Readable
from foregate.telemetry.log.sqlite_reader import SqliteReader
from foregate.telemetry.review.review_log import CHAIN, read_verified
from foregate.telemetry.review.reviews import Reviews
from foregate.telemetry.review.ruling import find_ruling, is_there


class VerifiedReviews(Struct, frozen=True):
    """What is true of a review log. `head` is number and hash of its last event, `defects` what does not hold.

    Of its `labels` some are `unchecked`, because their session is not in this log, or erased.
    """

    events: int = 0
    erased: int = 0
    labels: int = 0
    unchecked: int = 0
    head: str = ""
    defects: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether all of it holds."""
        return not self.defects

    @property
    def sentence(self) -> str:
        """All of it in one sentence."""
        if self.defects:
            return self.defects[0]
        if not self.events:
            return "there is no review log"
        about = [f"{self.events} events", *([f"{self.erased} of them erased"] if self.erased else [])]
        more = f"; {self.unchecked} labels are of sessions that are not here" if self.unchecked else ""
        return f"review log verified: {', '.join(about)}, {self.labels} labels{more}"


def verify_reviews(path: Path, sessions: Readable | None = None) -> VerifiedReviews:
    """Return what is true of the review log at `path`, and of its labels in the log of `sessions` where it is given.

    Raises LogError for a file that is no log of ours.
    """
    if not path.exists():
        return VerifiedReviews()
    with closing(SqliteReader(path)) as log:
        try:
            seq, hash_ = log.head_anchor(CHAIN)
        except LogError:  # it was made, and nothing written yet
            return VerifiedReviews()
        erased, head = len(log.list_erased(CHAIN)), f"{seq}:{hash_}"
        try:
            reviews = read_verified(log, path)
        except TamperedLog as error:
            return VerifiedReviews(seq, erased, head=head, defects=(str(error),))
    unchecked, defects = _check_labels(reviews, sessions) if sessions is not None else (0, [])
    return VerifiedReviews(seq, erased, len(reviews.given), unchecked, head, tuple(defects))


def _check_labels(reviews: Reviews, sessions: Readable) -> tuple[int, list[str]]:
    unchecked, defects = 0, []
    for given in reviews.given:
        ruled = given.body.ruled
        if not is_there(sessions, ruled):
            unchecked += 1
            continue
        try:
            found = find_ruling(sessions, ruled.session, ruled.seq, ruled.gate, ruled.call)
        except ForegateError as error:
            defects.append(f"label {given.seq} of the review log cannot be checked: {error}")
            continue
        if found != ruled:
            defects.append(f"label {given.seq} of the review log is about another `{ruled.address}` than the log holds")
    return unchecked, defects
