"""Whether a review log can be trusted, and what of it is erased."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from foregate.schemas.errors import TamperedLog
from foregate.schemas.event import Draft
from foregate.schemas.review import AnyReviewBody
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.review_log import CHAIN, ReviewLog, verify_reviews
from tests.telemetry.queries.made_reviews import NOW, label, ruled


async def write(path: Path, *bodies: AnyReviewBody) -> None:
    """Write a review log that says this."""
    with closing(SqliteLog(path)) as log:
        lease = await log.claim(CHAIN, create=True, despite_erased=True)
        await log.append(lease, [Draft(body, "person") for body in bodies], policy="", time=NOW)
        await log.release(lease)


async def test_a_review_log_is_verified_to_its_end_and_one_that_is_not_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "reviews.db"
    assert verify_reviews(path).sentence == "there is no review log"
    await write(path, label(1, "right"), label(2, "too lax"))
    found = verify_reviews(path)
    assert (found.ok, found.events, found.labels, found.head.partition(":")[0]) == (True, 2, 2, "2")
    assert found.sentence == "review log verified: 2 events, 2 labels"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("UPDATE events SET text = replace(text, 'too lax', 'too strict')", "event 2 was changed"),
        ("DELETE FROM events WHERE seq = 1", "event 1 is missing"),
        ("DELETE FROM events WHERE seq = 2", "ends too early"),
        ("UPDATE events SET text = '' WHERE seq = 1", "nothing says that it was erased"),
    ],
)
async def test_a_review_log_that_was_changed_is_not_believed_by_anybody(
    tmp_path: Path, change: str, sentence: str
) -> None:
    path = tmp_path / "reviews.db"
    await write(path, label(1, "right"), label(2, "too lax"))
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(change)
    found = verify_reviews(path)
    assert (found.ok, sentence in found.sentence) == (False, True), found.sentence
    with ReviewLog(path) as kept, pytest.raises(TamperedLog, match=sentence):
        await kept.read()


async def test_labels_that_were_erased_are_gone_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "reviews.db"
    await write(path, label(1, "right", comment="a secret"), label(2, "too lax"))
    with ReviewLog(path) as kept:
        assert len((await kept.read()).given) == 2
        with closing(SqliteLog(path)) as log:
            assert await log.erase(CHAIN, at=NOW, by="ann", why="asked for", seqs=[1]) == 1
        await write(path, label(3, "unclear"))
        reviews = await kept.read()
    assert ([one.seq for one in reviews.given], reviews.list_labels(ruled(1))) == ([2, 3], [])
    found = verify_reviews(path)
    assert found.sentence == "review log verified: 3 events, 1 of them erased, 2 labels"
    assert b"a secret" not in path.read_bytes()
