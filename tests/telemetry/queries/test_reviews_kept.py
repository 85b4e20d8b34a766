"""What reviewers said goes along with a copy, and is erased with its session."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from msgspec.structs import replace

from foregate.schemas.identity import Identity
from foregate.schemas.review import AnyReviewBody, LabelWithdrawn, QueueDrawn, SessionSignedOff
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.backup import back_up, copy_sessions
from foregate.telemetry.queries.erase import erase_sessions
from foregate.telemetry.queries.review_log import CHAIN, ReviewLog, verify_reviews
from foregate.telemetry.queries.reviews import Reviews
from tests.telemetry.queries.kept import Kept
from tests.telemetry.queries.made_reviews import HEAD, NOW, label, ruled
from tests.telemetry.queries.test_review_log import write

ANN = Identity("ann")


def build_queue(*sessions: str) -> QueueDrawn:
    items = tuple(ruled(1, session) for session in sessions)
    about = {"filter": {}, "sessions": len(items), "population": len(items), "population_hash": "", "by": ANN}
    return QueueDrawn(name="-".join(sessions), way="risk", items=items, **about)  # type: ignore[arg-type]


async def make(folder: Path) -> Kept:
    """Make a log of the sessions `a` and `b`, with a review of both."""
    kept = Kept(folder)
    kept.place = replace(kept.place, reviews=folder / "reviews" / "reviews.db")
    await kept.write("a", "hello", ended=NOW)
    await kept.write("b", "hello", ended=NOW)
    of_b = label(1, "right", comment="b is private")
    bodies: list[AnyReviewBody] = [build_queue("a"), build_queue("a", "b")]
    for body in (label(1, "too lax", comment="a is private"), of_b):
        bodies.append(type(body)(**{**_fields(body), "ruled": ruled(1, "b" if body is of_b else "a")}))
    bodies += [LabelWithdrawn(label=4, by=ANN), SessionSignedOff(session="b", head=HEAD, by=ANN)]
    assert kept.place.reviews is not None
    await write(kept.place.reviews, *bodies)
    return kept


def _fields(body: AnyReviewBody) -> dict[str, object]:
    return {name: getattr(body, name) for name in body.__struct_fields__}


async def read(path: Path) -> Reviews:
    with ReviewLog(path, read_only=True) as log:
        return await log.read()


async def test_a_backup_has_the_whole_review_log_while_somebody_reviews(tmp_path: Path) -> None:
    kept = await make(tmp_path / "home")
    assert kept.place.reviews is not None
    with closing(SqliteLog(kept.place.reviews)) as busy:
        await busy.claim(CHAIN)
        done = back_up(kept.place, kept.store, tmp_path / "copy")
    assert (done.is_sound, done.reviews) == (True, 6)
    copied = tmp_path / "copy" / "reviews" / "reviews.db"
    assert sorted(path.name for path in copied.parent.iterdir()) == ["reviews.db"]
    assert len((await read(copied)).given) == 2
    await write(copied, label(9, "right"))
    assert verify_reviews(copied).events == 7


async def test_a_copy_of_a_session_has_what_was_said_of_it_and_only_the_hashes_of_the_rest(tmp_path: Path) -> None:
    kept = await make(tmp_path / "home")
    done = copy_sessions(kept.place, kept.store, ["a"], tmp_path / "copy")
    assert done.is_sound
    copied = tmp_path / "copy" / "reviews" / "reviews.db"
    reviews = await read(copied)
    assert [one.body.comment for one in reviews.given] == ["a is private"]
    assert (list(reviews.queues), reviews.sign_offs) == (["a"], {})
    assert (verify_reviews(copied).events, verify_reviews(copied).erased) == (6, 3)
    assert b"b is private" not in copied.read_bytes()


async def test_what_reviewers_said_of_a_session_is_erased_with_it_and_the_chain_still_holds(tmp_path: Path) -> None:
    kept = await make(tmp_path / "home")
    done = await erase_sessions(kept.place, kept.store, ["b"], kinds=[], at=NOW, by="ann", why="asked for")
    assert done.reviews == 2
    assert kept.place.reviews is not None
    found = verify_reviews(kept.place.reviews)
    assert (found.ok, found.erased) == (True, 2)
    assert [one.body.comment for one in (await read(kept.place.reviews)).given] == ["a is private"]


async def test_a_copy_of_sessions_nobody_reviewed_has_no_review_log(tmp_path: Path) -> None:
    kept = Kept(tmp_path / "home")
    kept.place = replace(kept.place, reviews=tmp_path / "home" / "reviews" / "reviews.db")
    await kept.write("a", "hello", ended=NOW)
    done = back_up(kept.place, kept.store, tmp_path / "copy")
    assert (done.is_sound, done.reviews, (tmp_path / "copy" / "reviews").exists()) == (True, 0, False)
