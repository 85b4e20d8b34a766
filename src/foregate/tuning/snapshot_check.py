"""Whether what a log keeps of a session's state is what the session's events lead to."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from foregate.agent.session.linked import list_before
from foregate.agent.session.session_log import find_false_snapshot
from foregate.schemas.errors import LogError, UnreadableSnapshot
from foregate.schemas.protocols import Blobs, Log
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import Defect
from foregate.tuning.proving import SessionProof, add_defects, is_readable, prove_session


async def prove_all(log: SqliteLog, session: str, blobs: Blobs | None = None) -> SessionProof:
    """Return what `foregate audit verify` finds of one session; raise LogError for one that the log does not hold."""
    return await add_snapshot_check(log, await asyncio.to_thread(prove_session, log, session, blobs))


async def add_snapshot_check(log: Log, proof: SessionProof) -> SessionProof:
    """Return a proof with what is wrong with what is kept of its session's state, where its events can be read."""
    if not is_readable(proof.found):
        return proof
    defects, remarks = await check_snapshot(log, proof.found.session)
    return replace(proof, found=add_defects(proof.found, defects), remarks=(*proof.remarks, *remarks))


async def check_snapshot(log: Log, session: str) -> tuple[list[Defect], list[str]]:
    """Return what is wrong with the snapshot of a session: defects, and remarks on one that is not used anyway.

    Of events that cannot be read nothing is said here: whoever verifies those says it.
    """
    try:
        false = await find_false_snapshot(log, session, await list_before(log, session))
    except UnreadableSnapshot as error:
        return [], [f"what is kept of its state is not used, and its events are read instead: {error}"]
    except LogError:
        return [], []
    why = f"what is kept of the state after event {false} is not what the events lead to"
    return ([Defect(false, "other_state", why)] if false else []), []
