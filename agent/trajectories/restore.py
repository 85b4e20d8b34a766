"""Reading an ATIF document of Foregate's back into the events it was written from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from foregate.agent.trajectories import atif_events
from foregate.agent.trajectories.atif import LAYOUT
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.event import FORMAT, GENESIS, Event
from foregate.schemas.strict_json import Json
from foregate.telemetry import chain
from foregate.telemetry.turns import RecordedTurn, recorded

MAX_BYTES = 256 * 1024 * 1024
"""Of one document."""
_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, InvalidJson, AssertionError, RecursionError)


class Restored(Struct, frozen=True):
    """A session as a document holds it: its events, and the numbers of those that are not what was recorded.

    An event is `altered` when its bytes do not have the recorded hash: something in it was masked at the export, or
    somebody changed the document. With none altered and `whole` true the events are those of the log, byte by byte.
    """

    session: str
    events: tuple[Event, ...]
    altered: tuple[int, ...]
    whole: bool

    def turns(self) -> Iterator[RecordedTurn]:
        """Yield the judged turns, as they would be read from the log; raise UsageError where that cannot be done."""
        try:
            yield from recorded(self.events)
        except _UNREADABLE as error:
            raise UsageError(f"the turns of session `{self.session}` cannot be read ({_why(error)})") from None


def read(line: str) -> dict[str, Json]:
    """Return the document a line of JSON holds; raise UsageError for what is none."""
    try:
        found = strict_json.parse(line, max_bytes=MAX_BYTES, max_depth=strict_json.MAX_RECORD_DEPTH)
    except InvalidJson as error:
        raise UsageError(f"it holds no ATIF document ({error})") from None
    if not isinstance(found, dict):
        raise UsageError("it holds no ATIF document (a JSON object is wanted on each line)")
    return found


def restored(document: Mapping[str, Json]) -> Iterator[Restored]:
    """Yield the session of a document, then those of its subagents.

    Raises UsageError for one that another program wrote, or that was exported without content: neither holds turns.
    """
    yield _restored(document)
    for child in document.get("subagent_trajectories") or ():
        yield from restored(child)


def _restored(document: Mapping[str, Json]) -> Restored:
    try:
        own = document["extra"]["foregate"]
        layout, has_content = own["layout"], own["content"]
    except _UNREADABLE:
        raise UsageError(
            "it holds nothing under `extra.foregate`: only what `foregate trajectories export` wrote can be read back"
        ) from None
    if layout != LAYOUT or own.get("format") != FORMAT:
        raise UsageError(f"it was exported in layout {layout}, which this version does not read; use the newer one")
    if has_content is not True:
        raise UsageError("it was exported with `--content off` and holds no turns; export again with content")
    try:
        return _read(document, own)
    except _UNREADABLE as error:
        raise UsageError(f"its events cannot be read ({_why(error)}); export the session again") from None


def _read(document: Mapping[str, Json], own: Mapping[str, Json]) -> Restored:
    rows = [(rest, step) for step in document["steps"] for rest in step["extra"]["foregate"]["events"]]
    rows.sort(key=lambda row: row[0]["seq"])
    session, wrote = document["session_id"], document["agent"]["version"]
    events: list[Event] = []
    altered: list[int] = []
    prev = GENESIS
    for rest, step in rows:
        content: dict[str, Any] = {
            "v": FORMAT,
            "foregate": rest.get("foregate", wrote),
            "seq": rest["seq"],
            "session": session,
            "time": rest["time"],
            "kind": rest["kind"],
            "actor": rest["actor"],
            "policy": rest["policy"],
            "prev": prev,
            "body": atif_events.whole(rest, step, document),
            "hash": rest["hash"],
        }
        event = msgspec.convert(content, Event)
        if strict_json.sha256(strict_json.encode_record(chain.header(event))) != event.hash:
            altered.append(event.seq)
        events.append(event)
        prev = event.hash
    numbered = [event.seq for event in events] == list(range(1, len(events) + 1))
    whole = numbered and own["head"] == f"{len(events)}:{prev}"
    return Restored(session, tuple(events), tuple(altered), whole)


def _why(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
