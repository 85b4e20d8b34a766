"""The proof of one event: its text, and what is needed to check that a signed checkpoint was over it."""

from __future__ import annotations

from foregate.schemas import strict_json
from foregate.schemas.errors import TamperedLog, UsageError
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.telemetry.audit.checkpoints import CheckpointFile, find_tree, read_hashes
from foregate.telemetry.audit.merkle import find_path, hash_leaf


def build_proof(log: Readable, session: str, seq: int, checkpoints: CheckpointFile) -> dict[str, Json]:
    """Return the proof of an event, by the newest checkpoint: what `verify_proof.py` reads, as JSON.

    It takes a few hashes, however long the session is, and says nothing of other events and sessions. Raises UsageError
    for an event that no checkpoint is over, and TamperedLog where the log is not the one that was signed.
    """
    head = checkpoints.heads.get(session)
    if head is None or seq > head.seq:
        advice = "`foregate audit checkpoint` writes one that is"
        raise UsageError(f"no checkpoint of `{checkpoints.path}` is over event {seq} of `{session}`; {advice}")
    if seq < 1:
        raise UsageError(f"there is no event {seq}; a session's first is 1")
    hashes = read_hashes(log, session)[: head.seq]
    if len(hashes) < head.seq or hashes[-1] != head.hash or find_tree(hashes) != head.tree:
        advice = "`foregate audit verify --checkpoint` tells more"
        raise TamperedLog(f"session `{session}` is not the one that the checkpoint is over; {advice}", seq)
    assert checkpoints.newest is not None
    names = sorted(checkpoints.heads)
    index = names.index(session)
    leaves = [checkpoints.heads[name].leaf for name in names]
    events = [hash_leaf(bytes.fromhex(one)) for one in hashes]
    text = next(text for number, text, _ in log.lines(session) if number == seq)
    return {
        "v": 1,
        "kind": "foregate proof",
        "session": session,
        "seq": seq,
        "event": text,
        "hash": hashes[seq - 1],
        "events": [one.hex() for one in find_path(events, seq - 1)],
        "head": head.to_json(),
        "sessions": {"index": index, "path": [one.hex() for one in find_path(leaves, index)]},
        "checkpoint": {"body": strict_json.dump(checkpoints.newest.body), "signature": checkpoints.newest.signature},
    }
