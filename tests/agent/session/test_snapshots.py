"""Snapshots as a session runs: opening it again reads what came after the newest one, and any doubt means all of it."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from foregate.agent.session.session_log import LEAST, SessionLog, find_false_snapshot, fold_session
from foregate.cli.keeping_reports import format_statistics
from foregate.evidence.state.lineage import begin_further
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import decode_state, encode_state, find_version
from foregate.schemas import strict_json
from foregate.schemas.errors import UnreadableSnapshot
from foregate.schemas.event import Draft, Event, ModelResponded
from foregate.schemas.event_body import Kind, TaskStarted
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Snapshot
from foregate.telemetry.log import snapshots as kept
from foregate.telemetry.log.snapshots import Unkept, find_key_file
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.log.temporary_file import FileBlobs
from foregate.telemetry.queries.backup import back_up, copy_sessions
from foregate.telemetry.queries.log_place import LogPlace
from foregate.telemetry.queries.log_statistics import KindSize, count_log
from foregate.telemetry.queries.used_blobs import compact_log
from tests.agent.session.test_state_from_log import plain
from tests.telemetry.log.test_parts import began
from tests.telemetry.made import NOW, said

POLICY = strict_json.digest({})


class Watched(SqliteLog):
    """A log that tells how many events were read of it."""

    events_read = 0

    async def read(
        self, session: str, *, after: int = 0, limit: int = 0, kinds: Sequence[Kind] = ()
    ) -> Sequence[Event]:
        """Read as ever."""
        found = await super().read(session, after=after, limit=limit, kinds=kinds)
        self.events_read += len(found)
        return found

    async def settle_snapshots(self) -> None:
        """Return when every snapshot handed over is written: settling waits for events alone."""
        await self._writer.run_job(lambda _: None)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Watched]:
    """An open log."""
    log = Watched(tmp_path / "events.db")
    yield log
    log.close()


async def write(log: SqliteLog, count: int, name: str = "s", *more: Draft) -> SessionState:
    """Write a session with that many messages of the user; return its state."""
    session = SessionLog(log, await log.claim(name, create=True), SessionState(), POLICY, lambda: (), lambda: NOW)
    await session.record(began(policy={}), Draft(TaskStarted(task=1, depth=0), "foregate"), *more)
    for number in range(count):
        await session.record(said(f"look at src/module_{number}.py"))
    await session.settle()
    await log.release(session.lease)
    return session.state


async def test_opening_a_session_reads_what_came_after_the_newest_snapshot(log: Watched) -> None:
    state = await write(log, LEAST + 20)
    assert plain(await fold_session(log, "s")) == plain(state)
    assert log.events_read == LEAST + 22 - LEAST


async def test_a_short_session_has_no_snapshot(log: Watched) -> None:
    await write(log, 100)
    assert await log.read_snapshot("s") is None


async def test_a_session_that_is_opened_again_and_again_gets_its_next_snapshot(log: Watched) -> None:
    await write(log, LEAST)
    first = await log.read_snapshot("s")
    for _ in range(3):
        state = await fold_session(log, "s")
        session = SessionLog(log, await log.claim("s"), state, POLICY, lambda: (), lambda: NOW)
        await session.record(*(said("more") for _ in range(LEAST * 2 // 5)))
        await session.settle()
        await log.release(session.lease)
    newest = await log.read_snapshot("s")
    assert (first and first.seq, newest and newest.seq) == (LEAST, LEAST + 3 * (LEAST * 2 // 5) + 2)


async def test_a_snapshot_may_be_of_a_response_in_hand(log: Watched) -> None:
    response = ModelResponded.of(ModelResponse("Let me see.", ()))
    state = await write(log, LEAST + 20, "s", Draft(response, "model"))
    assert state.open is not None
    assert plain(await fold_session(log, "s")) == plain(state)
    assert log.events_read == 23
    assert await find_false_snapshot(log, "s") == 0


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE snapshots SET data = x'00112233'",
        "UPDATE snapshots SET data = substr(data, 1, length(data) - 10)",
        "UPDATE snapshots SET version = '0.0.1'",
        "UPDATE snapshots SET seq = seq - 1",
        "UPDATE snapshots SET hash = replace(hash, substr(hash, 1, 1), 'z')",
        "UPDATE snapshots SET (seq, hash, version, data) = (SELECT seq, hash, version, data FROM snapshots "
        "WHERE session = 'other') WHERE session = 's'",
        "UPDATE snapshots SET data = (SELECT data FROM snapshots WHERE session = 'other') WHERE session = 's'",
        "DELETE FROM snapshots",
    ],
)
async def test_a_snapshot_that_does_not_fit_counts_as_none(log: Watched, change: str) -> None:
    state = await write(log, LEAST + 20)
    await write(log, LEAST + 20, "other")
    with sqlite3.connect(log.path) as file:
        file.execute(change)
    file.close()
    assert plain(await fold_session(log, "s")) == plain(state)
    assert log.events_read == LEAST + 22


async def forge(log: SqliteLog, data: bytes) -> None:
    """Put other bytes in the place of a snapshot's, as somebody would who can also read the key."""
    [(seq, hash_)] = log._fetch_rows("SELECT seq, hash FROM snapshots WHERE session = 's'", ())
    lease = await log.claim("s")
    log.keep_snapshot(lease, Snapshot(seq, hash_, find_version(), data))
    await log.release(lease)


@pytest.mark.parametrize("data", [b"", b"\0" * 1000, encode_state(SessionState())])
async def test_what_is_no_state_of_its_event_counts_as_none(log: Watched, data: bytes) -> None:
    state = await write(log, LEAST + 20)
    await forge(log, data)
    assert plain(await fold_session(log, "s")) == plain(state)
    with pytest.raises(UnreadableSnapshot):
        await find_false_snapshot(log, "s")


async def test_without_the_key_beside_it_a_log_has_no_snapshots(log: Watched, tmp_path: Path) -> None:
    state = await write(log, LEAST + 20)
    key = find_key_file(log.path)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    key.chmod(0o644)
    assert await log.read_snapshot("s") is None
    key.unlink()
    key.symlink_to(tmp_path / "elsewhere")
    assert await log.read_snapshot("s") is None
    assert plain(await fold_session(log, "s")) == plain(state)
    assert await find_false_snapshot(log, "s") == 0


async def test_a_snapshot_that_another_version_kept_cannot_be_renamed_into_one_of_this(log: Watched) -> None:
    await write(log, LEAST + 20)
    kept = await log.read_snapshot("s")
    assert kept is not None
    lease = await log.claim("s")
    log.keep_snapshot(lease, Snapshot(kept.seq, kept.hash, "0.0.1", b"of another form"))
    await log.release(lease)
    assert await find_false_snapshot(log, "s") == 0
    with sqlite3.connect(log.path) as file:
        file.execute("UPDATE snapshots SET version = ?", (find_version(),))
    file.close()
    with pytest.raises(UnreadableSnapshot, match="it is not as this log kept it"):
        await log.read_snapshot("s")


async def test_a_snapshot_of_an_event_that_is_another_one_now_counts_as_none(log: Watched) -> None:
    await write(log, LEAST)
    with sqlite3.connect(log.path) as file:
        file.execute("UPDATE events SET hash = replace(hash, substr(hash, 1, 1), 'z') WHERE seq = ?", (LEAST,))
    file.close()
    assert await log.read_snapshot("s") is None


async def test_the_snapshots_of_a_log_from_elsewhere_count_as_none(log: Watched, tmp_path: Path) -> None:
    await write(log, LEAST + 20)
    (tmp_path / "here").mkdir()
    here = SqliteLog(tmp_path / "here" / "events.db")
    await write(here, LEAST)
    with sqlite3.connect(here.path) as file:
        file.execute("ATTACH ? AS other", (str(log.path),))
        for table in ("snapshots", "events", "leases", "parts", "cuts"):
            file.execute(f"DELETE FROM {table}")
            file.execute(f"INSERT INTO {table} SELECT * FROM other.{table}")
    file.close()
    with pytest.raises(UnreadableSnapshot, match="it is not as this log kept it"):
        await here.read_snapshot("s")
    assert plain(await fold_session(here, "s")) == plain(await fold_session(log, "s"))
    here.close()


async def test_checking_finds_a_snapshot_that_holds_what_its_events_do_not_lead_to(log: Watched) -> None:
    await write(log, LEAST + 20)
    assert await find_false_snapshot(log, "s") == 0
    kept = await log.read_snapshot("s")
    assert kept is not None
    state = decode_state(kept.data, "s", kept.seq, kept.hash)
    state.auto = True
    await forge(log, encode_state(state))
    assert (await fold_session(log, "s")).auto
    assert await find_false_snapshot(log, "s") == LEAST


async def test_what_a_further_session_knows_of_the_one_before_is_in_its_snapshot(log: Watched) -> None:
    await write(log, LEAST + 20)
    session = SessionLog(log, await log.claim("s-2", create=True), await goes_on(log), POLICY, lambda: (), lambda: NOW)
    for count in (20, LEAST):
        await session.record(began(policy={}), Draft(TaskStarted(task=1, depth=0), "foregate"))
        for number in range(count):
            await session.record(said(f"look at lib/module_{number}.py"))
        await session.settle()
        await log.settle_snapshots()
        log.events_read = 0
        assert plain(await fold_session(log, "s-2", ["s"])) == plain(session.state)
        assert log.events_read < LEAST
        assert await find_false_snapshot(log, "s-2", ["s"]) == 0
    with sqlite3.connect(log.path) as file:
        file.execute("DELETE FROM snapshots")
    file.close()
    assert plain(await fold_session(log, "s-2", ["s"])) == plain(session.state)
    await log.release(session.lease)


async def goes_on(log: SqliteLog) -> SessionState:
    """Return the state with which a session begins that goes on with `s`."""
    state = await fold_session(log, "s")
    begin_further(state)
    return state


async def test_events_that_go_on_from_another_one_than_the_snapshot_are_folded_from_the_first(log: Watched) -> None:
    state = await write(log, LEAST + 20)
    [(text,)] = log._fetch_rows("SELECT text FROM events WHERE seq = ?", (LEAST + 1,))
    prev = state.hash
    with sqlite3.connect(log.path) as file:
        changed = text.replace(text[text.index('"prev":"') + 8 :][:64], prev)
        file.execute("UPDATE events SET text = ? WHERE seq = ?", (changed, LEAST + 1))
    file.close()
    assert plain(await fold_session(log, "s")) == plain(state)
    assert log.events_read > LEAST


async def test_what_is_erased_is_in_no_snapshot_of_what_goes_on_with_it_either(log: Watched) -> None:
    names = ("s", "s-2", "s-2.c4.1", "other")
    for name in names:
        await write(log, LEAST + 20, name)
    assert None not in [await log.read_snapshot(name) for name in names]
    await log.erase("s", at=NOW, by="ann", why="")
    assert [await log.read_snapshot(name) is None for name in names] == [True, True, True, False]


async def test_no_snapshot_keeps_a_word_alive_that_is_erased_neither_the_newest_nor_one_before_it(
    log: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "_FASTEST", 0)  # what is packed stands there word for word
    secret = "the account 4711-0815"
    session = SessionLog(log, await log.claim("s", create=True), SessionState(), POLICY, lambda: (), lambda: NOW)
    await session.record(began(policy={}), Draft(TaskStarted(task=1, depth=0), "foregate"), said(secret))
    snapshots_of = []
    for _ in range(3):
        await session.record(*(said(f"look at src/module_{number}.py") for number in range(LEAST)))
        await log.settle_snapshots()
        found = await log.read_snapshot("s")
        snapshots_of.append(found and (found.seq, secret.encode() in found.data))
    assert snapshots_of == [(LEAST + 3, True), (2 * LEAST + 3, True), (3 * LEAST + 3, True)]
    await log.release(session.lease)
    assert any(secret.encode() in file.read_bytes() for file in log.path.parent.glob("events.db*"))
    await log.erase("s", at=NOW, by="ann", why="")
    assert not any(secret.encode() in file.read_bytes() for file in log.path.parent.glob("events.db*"))


async def test_a_session_that_goes_on_with_one_that_was_erased_meanwhile_keeps_no_snapshot(log: Watched) -> None:
    await write(log, 20)
    state = await goes_on(log)
    await log.erase("s", at=NOW, by="ann", why="")
    session = SessionLog(log, await log.claim("s-2", create=True), state, POLICY, lambda: (), lambda: NOW)
    await session.record(began(policy={}), Draft(TaskStarted(task=1, depth=0), "foregate"))
    await session.record(*(said("look") for _ in range(LEAST)))
    await log.settle_snapshots()
    assert log._fetch_rows("SELECT * FROM snapshots", ()) == []
    await log.release(session.lease)
    await write(log, LEAST, "other")
    assert await log.read_snapshot("other") is not None


async def test_a_copy_has_no_snapshots_and_compacting_leaves_them(log: Watched, tmp_path: Path) -> None:
    await write(log, LEAST + 20)
    place, store = LogPlace(log.path, tmp_path / "blobs"), FileBlobs(tmp_path / "blobs")
    compact_log(place, store)
    assert await log.read_snapshot("s") is not None
    copies = back_up(place, store, tmp_path / "all"), copy_sessions(place, store, ["s"], tmp_path / "one")
    for made in copies:
        assert made.is_sound
        copy = SqliteLog(Path(made.target, "events.db"), read_only=True)
        assert copy._fetch_rows("SELECT count(*) FROM snapshots", ()) == [(0,)]
        assert plain(await fold_session(copy, "s")) == plain(await fold_session(log, "s"))
        copy.close()


async def test_how_large_the_log_is_counts_snapshots_and_names_those_that_could_not_be_kept(
    log: Watched, tmp_path: Path
) -> None:
    await write(log, LEAST + 20)
    place, store = LogPlace(log.path, tmp_path / "blobs"), FileBlobs(tmp_path / "blobs")
    lease = await log.claim("s")
    log.note_unkept(lease, 512, "the disk is full of cats")
    await log.release(lease)
    found = count_log(place, store)
    [(size,)] = log._fetch_rows("SELECT length(data) FROM snapshots WHERE data != x''", ())
    assert found.snapshots == KindSize(1, size)
    assert found.unkept == (Unkept("s", 512, "the disk is full of cats"),)
    told = " ".join(" ".join(format_statistics(found)).split())
    assert told.endswith("warning no snapshot of session s was kept after event 512: the disk is full of cats")
    await log.erase("s", at=NOW, by="ann", why="")
    assert count_log(place, store).unkept == ()
