"""Reading an ATIF document of Foregate's back into the events it was written from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, UsageError
from foregate.schemas.event import FORMAT, GENESIS, Event
from foregate.schemas.strict_json import Json, as_object, get_int, get_list, get_object, get_text
from foregate.telemetry.audit.rebuild_turn import RecordedTurn, read_judged_turns
from foregate.telemetry.export.atif_events import LAYOUT, get_own_part, restore_body
from foregate.telemetry.log import chain

MAX_BYTES = 256 * 1024 * 1024
"""Of one document."""
_UNREADABLE = (LookupError, ValueError, InvalidJson, RecursionError)


class RestoredSession(Struct, frozen=True):
    """A session as a document holds it: its events, and the numbers of those that are not what was recorded.

    An event is `altered` when its bytes do not have the recorded hash: something in it was masked at the export, or
    somebody changed the document. With none altered and `whole` true the events are those of the log, byte by byte.
    """

    session: str
    events: tuple[Event, ...]
    altered: tuple[int, ...]
    whole: bool

    @property
    def is_same(self) -> bool:
        """Whether the session is as it was recorded, and nothing of it is missing."""
        return self.whole and not self.altered

    def read_turns(self) -> Iterator[RecordedTurn]:
        """Yield the judged turns, as they would be read from the log; raise UsageError where that cannot be done."""
        try:
            yield from read_judged_turns(self.events)
        except _UNREADABLE as error:
            raise UsageError(
                f"the turns of session `{self.session}` cannot be read ({_describe_error(error)})"
            ) from None


def parse_document(line: str) -> dict[str, Json]:
    """Return the document a line of JSON holds; raise UsageError for what is none."""
    try:
        found = strict_json.parse(line, max_bytes=MAX_BYTES, max_depth=strict_json.MAX_RECORD_DEPTH)
    except InvalidJson as error:
        raise UsageError(f"it holds no ATIF document ({error})") from None
    if not isinstance(found, dict):
        raise UsageError("it holds no ATIF document (a JSON object is wanted on each line)")
    return found


def restore_sessions(document: Mapping[str, Json]) -> Iterator[RestoredSession]:
    """Yield the session of a document, then those of its subagents.

    Raises UsageError for one that another program wrote, or that was exported without content: neither holds turns.
    """
    yield _restore_session(document)
    try:
        children = [as_object(child) for child in get_list(document, "subagent_trajectories")]
    except InvalidJson as error:
        raise UsageError(f"its subagents cannot be read ({error}); export the session again") from None
    for child in children:
        yield from restore_sessions(child)


def _restore_session(document: Mapping[str, Json]) -> RestoredSession:
    try:
        own = get_own_part(document)
    except InvalidJson:
        own = {}
    if "layout" not in own or "content" not in own:
        raise UsageError(
            "it holds nothing under `extra.foregate`: only what `foregate trajectories export` wrote can be read back"
        )
    if own["layout"] != LAYOUT or own.get("format") != FORMAT:
        raise UsageError(
            f"it was exported in layout {own['layout']}, which this version does not read; use the newer one"
        )
    if own["content"] is not True:
        raise UsageError("it was exported with `--content off` and holds no turns; export again with content")
    try:
        return _read_events(document, own)
    except _UNREADABLE as error:
        raise UsageError(f"its events cannot be read ({_describe_error(error)}); export the session again") from None


def _read_events(document: Mapping[str, Json], own: Mapping[str, Json]) -> RestoredSession:
    steps = [as_object(step) for step in _get_required_list(document, "steps")]
    rows = [(as_object(rest), step) for step in steps for rest in _get_required_list(get_own_part(step), "events")]
    rows.sort(key=lambda row: get_int(row[0], "seq"))
    session, wrote = get_text(document, "session_id"), get_text(get_object(document, "agent"), "version")
    events: list[Event] = []
    altered: list[int] = []
    prev = GENESIS
    for rest, step in rows:
        content: dict[str, Json] = {
            "v": FORMAT,
            "foregate": rest.get("foregate", wrote),
            **{name: rest.get(name) for name in ("seq", "time", "kind", "actor", "policy")},
            "session": session,
            "prev": prev,
            "body": restore_body(rest, step, document),
        }
        event = chain.read_event(content, get_text(rest, "hash"))
        if strict_json.sha256(strict_json.encode_record(chain.build_header(event))) != event.hash:
            altered.append(event.seq)
        events.append(event)
        prev = event.hash
    numbered = [event.seq for event in events] == list(range(1, len(events) + 1))
    whole = numbered and own.get("head") == f"{len(events)}:{prev}"
    return RestoredSession(session, tuple(events), tuple(altered), whole)


def _get_required_list(value: Mapping[str, Json], key: str) -> Sequence[Json]:
    if key not in value:
        raise InvalidJson(f"`{key}` is missing")
    return get_list(value, key)


def _describe_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}"
