"""The hash chain: each event's hash covers its header, its body and the hash before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, TamperedLog
from foregate.schemas.event import FORMAT, GENESIS, KINDS, Draft, Event
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__


def header(event: Event) -> Json:
    """Return everything of an event but its hash: what the hash covers."""
    return {
        "v": event.v,
        "foregate": event.foregate,
        "seq": event.seq,
        "session": event.session,
        "time": event.time,
        "kind": event.kind,
        "actor": event.actor,
        "policy": event.policy,
        "prev": event.prev,
        "body": event.body,
    }


def seal(
    drafts: Sequence[Draft], *, session: str, after: int, prev: str, policy: str, time: str
) -> list[tuple[Event, str]]:
    """Number and chain `drafts` behind event `after`; return each event with its canonical text.

    Raises InvalidJson when a body cannot be written as the log's JSON.
    """
    sealed: list[tuple[Event, str]] = []
    for seq, draft in enumerate(drafts, start=after + 1):
        content: dict[str, Json] = {
            "v": FORMAT,
            "foregate": __version__,
            "seq": seq,
            "session": session,
            "time": time,
            "kind": draft.kind,
            "actor": draft.actor,
            "policy": policy,
            "prev": prev,
            "body": draft.body,
        }
        try:
            data = strict_json.encode_record(content)
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidJson(f"an event of kind `{draft.kind}` cannot be written: {error}") from None
        prev = strict_json.sha256(data)
        sealed.append((Event(hash=prev, **content), data.decode("utf-8")))
    return sealed


def read(text: str, hash: str) -> Event:  # noqa: A002
    """Return the event a stored line holds, unverified; raise InvalidJson when it holds none."""
    content = strict_json.decode_record(text)
    try:
        event = Event(hash=hash, **content)
    except TypeError:
        raise InvalidJson("a stored line is not an event of this log's format") from None
    if event.v != FORMAT or event.kind not in KINDS:
        raise InvalidJson(f"format {event.v}, kind `{event.kind}` is not one this version reads")
    return event


def verified(lines: Iterable[tuple[int, str, str]], session: str) -> Iterator[Event]:
    """Yield the events of (number, canonical text, hash) rows while the chain holds.

    Raises TamperedLog with the number of the first event that does not fit.
    """
    prev, expected = GENESIS, 1
    for seq, text, stored in lines:
        if seq != expected:
            raise TamperedLog(f"event {expected} is missing or out of order (found {seq})", expected)
        if strict_json.sha256(text.encode("utf-8", "surrogatepass")) != stored:
            raise TamperedLog(f"event {seq} was changed: its hash does not match", seq)
        try:
            event = read(text, stored)
        except InvalidJson as error:
            raise TamperedLog(f"event {seq} cannot be read: {error}", seq) from None
        if event.seq != seq or event.session != session or event.prev != prev:
            raise TamperedLog(f"event {seq} does not continue the chain", seq)
        prev, expected = stored, seq + 1
        yield event
