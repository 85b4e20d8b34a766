"""What a log keeps of a session's state is checked against its events when it is verified."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable

import pytest

from foregate.assembly.home import Home
from foregate.evidence.state.session import SessionState
from foregate.evidence.state.snapshot import decode_state, encode_state
from foregate.schemas.judgement import Grant
from foregate.schemas.protocols import Snapshot
from foregate.telemetry.log.sqlite_log import SqliteLog
from tests.agent.session.test_snapshots import LEAST, write
from tests.cli.conftest import Cli

FALSE = f"what is kept of the state after event {LEAST} is not what the events lead to"
UNUSED = "what is kept of its state is not used, and its events are read instead: it is not as this log kept it"


def keep(change: Callable[[SqliteLog], object] = lambda log: None) -> None:
    """Write a session with a snapshot into the home, and change something."""

    async def run() -> None:
        log = Home.open().open_log()
        await write(log, LEAST + 20)
        if asyncio.iscoroutine(changing := change(log)):
            await changing
        log.close()

    asyncio.run(run())


async def give_leave(log: SqliteLog) -> None:
    """Put leave into the snapshot that nobody gave, as somebody could who runs as the same user."""
    kept = await log.read_snapshot("s")
    assert kept is not None
    state: SessionState = decode_state(kept.data, "s", kept.seq, kept.hash)
    state.grants.append(Grant("allowlist", "unknown_target", "changes"))
    lease = await log.claim("s")
    log.keep_snapshot(lease, Snapshot(kept.seq, kept.hash, kept.version, encode_state(state)))
    await log.release(lease)


def write_over(log: SqliteLog) -> None:
    """Write over the snapshot."""
    with sqlite3.connect(log.path) as file:
        file.execute("UPDATE snapshots SET data = zeroblob(9)")
    file.close()


@pytest.mark.parametrize(
    ("change", "code", "told", "remark"),
    [
        (lambda log: None, 0, "consistent: ", ""),
        (give_leave, 8, FALSE, ""),
        (write_over, 0, "consistent: ", UNUSED),
    ],
)
def test_verifying_compares_what_is_kept_of_the_state_with_the_events(
    cli: Cli, change: Callable[[SqliteLog], object], code: int, told: str, remark: str
) -> None:
    keep(change)
    found, out, err = cli("audit", "verify", "s")
    assert found == code
    assert told in out
    assert remark in out
    assert not err
