"""The hash chain: each event's hash covers its header, its body and the hash before it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import get_args

import msgspec
from msgspec.structs import astuple

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, TamperedLog
from foregate.schemas.event import FORMAT, GENESIS, Actor, Body, Draft, Event
from foregate.schemas.event_body import KINDS, Kind, get_kind
from foregate.schemas.noun_bytes import encode_noun
from foregate.schemas.strict_json import Json
from foregate.schemas.version import __version__

_find_kind = cache(get_kind)


def build_header(event: Event) -> dict[str, Json]:
    """Return everything of an event but its hash, as JSON: what the hash covers."""
    header = {name: getattr(event, name) for name in _Header.__struct_fields__}
    return {**header, "body": strict_json.dump(event.body)}


def encode_event(event: Event) -> bytes:
    """Return the canonical bytes that the hash of an event covers."""
    return _encode_fields(*astuple(event)[:-1])


def _encode_fields(
    v: int, foregate: str, seq: int, session: str, time: str, actor: Actor, policy: str, prev: str, body: Body
) -> bytes:
    """Return the canonical bytes of an event of these fields.

    Raises TypeError, ValueError or RecursionError for a body that JSON cannot say.
    """
    kind, written = _find_kind(type(body)), msgspec.Raw(encode_noun(body))
    return _LINE.encode(_Line(v, foregate, seq, session, time, kind, actor, policy, prev, written))


def is_unchanged(event: Event) -> bool:
    """Whether an event is the one its hash was made of; the events around it are not looked at."""
    return strict_json.sha256(encode_event(event)) == event.hash


def seal_drafts(
    drafts: Sequence[Draft], *, session: str, after: int, prev: str, policy: str, time: str
) -> list[tuple[Event, str]]:
    """Number and chain `drafts` behind event `after`; return each event with its canonical text.

    Raises InvalidJson when a body cannot be written as the log's JSON.
    """
    sealed: list[tuple[Event, str]] = []
    for seq, draft in enumerate(drafts, start=after + 1):
        fields = (FORMAT, __version__, seq, session, time, draft.actor, policy, prev, draft.body)
        try:
            data = _encode_fields(*fields)
        except (TypeError, ValueError, RecursionError, OverflowError) as error:
            raise InvalidJson(f"an event of kind `{draft.kind}` cannot be written: {error}") from None
        prev = strict_json.sha256(data)
        sealed.append((Event(*fields, prev), data.decode("utf-8")))
    return sealed


def read_line(text: str, hash: str) -> Event:  # noqa: A002
    """Return the event a stored line holds, unverified; raise InvalidJson when it holds none."""
    large = len(text) > _LARGE
    if large or not strict_json.is_too_deep(text):
        try:
            line = _LINES.decode(text)
            # its own name is in the header; only a second one may be that of a field of the body
            named = text.count(f'"{line.kind}"') > 1 and _NAMED.decode(line.body).kind is not None
            if line.v == FORMAT and not named:
                body: Body = _read_large(line) if large else _get_decoder(line.kind).decode(line.body)
                header = (line.v, line.foregate, line.seq, line.session, line.time, line.actor, line.policy, line.prev)
                return Event(*header, body, hash)
        except (msgspec.DecodeError, ValueError, RecursionError):
            # The slow way below says in words what is wrong.
            pass
    return read_event(strict_json.decode_record(text), hash)


_LARGE = 16_384
_REPEATED: tuple[Kind, ...] = ("session_started", "policy_changed", "catalog_changed")
"""Kinds whose large bodies, policies and tools, are mostly those of the session before."""


def _read_large(line: _Line) -> Body:
    read = _read_repeated if line.kind in _REPEATED else _read_body
    return read(line.kind, bytes(line.body))


def _read_body(kind: Kind, body: bytes) -> Body:
    """Return what a body holds; raise ValueError where it is nested too deep."""
    if strict_json.is_too_deep(body.decode("utf-8", "surrogatepass")):
        raise ValueError("nested too deep")
    return _get_decoder(kind).decode(body)


_read_repeated = lru_cache(maxsize=32)(_read_body)
"""The same for what is read again and again, and never changed: in a log of short sessions it is most of the text."""


class UnreadableBody(InvalidJson):
    """A stored line of this log's format whose header can be read, and whose body cannot."""


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    """A stored line without its body."""

    v: int
    foregate: str
    seq: int
    session: str
    time: str
    kind: Kind
    actor: Actor
    policy: str
    prev: str


class _Line(_Header):
    """A stored line whose body is not read yet: decoding each body straight into its class halves the time."""

    body: msgspec.Raw


class _Named(msgspec.Struct):
    """A body as far as it has a field named as the tag of its class, which would pass for that tag."""

    kind: Json = None


_LINE = msgspec.json.Encoder(order="sorted")
_LINES, _NAMED = msgspec.json.Decoder(_Line), msgspec.json.Decoder(_Named)


@cache
def _get_decoder(kind: Kind) -> msgspec.json.Decoder[Body]:
    found = next(body for body in get_args(Body) if get_kind(body) == kind)
    return msgspec.json.Decoder(found, dec_hook=strict_json.read_model)


def read_event(content: Json, hash: str) -> Event:  # noqa: A002
    """Return the event that an object of header and body describes, unverified.

    Raises InvalidJson, naming the kind, the field and the version that wrote it, for what this version does not know:
    UnreadableBody where only the body holds that.
    """
    if not isinstance(content, Mapping) or "body" not in content:
        raise InvalidJson("a stored line is not an event of this log's format")
    wrote = str(content.get("foregate"))[:40]
    writer = f"; Foregate {wrote} wrote it and can read it" if wrote != __version__ else ""
    if content.get("v") != FORMAT or content.get("kind") not in KINDS:
        what = f"format {content.get('v')}, kind `{str(content.get('kind'))[:40]}`"
        raise InvalidJson(f"{what} is not one this version reads{writer}")
    body = content["body"]
    header = {name: value for name, value in content.items() if name != "body"}
    defect: type[InvalidJson] = InvalidJson
    try:
        line = msgspec.convert(header, _Header)
        defect = UnreadableBody
        # The kind of the header becomes the tag of the body below; one in the body would take its place.
        if isinstance(body, Mapping) and "kind" in body:
            raise ValueError("Object contains unknown field `kind` - at `$.body`")
        tagged = {**header, "body": {**body, "kind": line.kind} if isinstance(body, Mapping) else body, "hash": hash}
        del tagged["kind"]
        return msgspec.convert(tagged, Event, dec_hook=strict_json.read_model)
    except (msgspec.ValidationError, ValueError) as error:
        raise defect(f"its {content['kind']} cannot be read: {error}{writer}") from None


def verify_lines(lines: Iterable[tuple[int, str, str]], session: str) -> Iterator[Event]:
    """Yield the events of (number, canonical text, hash) rows while the chain holds.

    Raises TamperedLog with the number of the first event that does not fit.
    """
    return (event for _, _, event in verify_rows(lines, session, ()) if event is not None)


def verify_rows(
    lines: Iterable[tuple[int, str, str]], session: str, erased: Collection[int]
) -> Iterator[tuple[int, str, Event | None]]:
    """Yield number and hash of rows, and their events, None for an erased one, while the chain holds; see above.

    The hash of an erased event is vouched for by the event after it, and where that was erased too, by the first that
    was not; the hash of the last one by nothing in these rows.
    """
    prev, expected = GENESIS, 1
    for seq, text, stored in lines:
        if seq != expected:
            raise TamperedLog(f"event {expected} is missing or out of order (found {seq})", expected)
        event = None if not text and seq in erased else _verify_event(seq, text, stored, session, prev)
        prev, expected = stored, seq + 1
        yield seq, stored, event


def _verify_event(seq: int, text: str, stored: str, session: str, prev: str) -> Event:
    """Return the event of a row; raise TamperedLog where it is not the one that was written there."""
    if not text:
        raise TamperedLog(f"event {seq} has no text, and nothing says that it was erased", seq)
    if strict_json.sha256(text.encode("utf-8", "surrogatepass")) != stored:
        raise TamperedLog(f"event {seq} was changed: its hash does not match", seq)
    try:
        event = read_line(text, stored)
    except InvalidJson as error:
        raise TamperedLog(f"event {seq} cannot be read: {error}", seq) from None
    # A whole row that was copied from elsewhere has a hash that fits; its number, session or chain does not.
    if event.seq != seq or event.session != session or event.prev != prev:
        raise TamperedLog(f"event {seq} does not continue the chain", seq)
    return event
