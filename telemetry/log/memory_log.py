"""The log and stored bytes in memory: the same chain without a disk, for tests, benchmarks and demos."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, SessionHeld
from foregate.schemas.event import GENESIS, Draft, Event, NeedRaised
from foregate.schemas.event_body import Kind
from foregate.schemas.protocols import Erasure, Head, Lease
from foregate.schemas.question import AskedQuestion, follow_question
from foregate.telemetry.log import chain


class MemoryLog:
    """Events of any number of sessions in one process; gone when the process ends."""

    def __init__(self) -> None:
        self._lines: dict[str, list[tuple[Event, str]]] = {}
        self._held: dict[str, Lease] = {}
        self._fence = 0
        self._asked: dict[str, AskedQuestion | None] = {}
        self._kept: dict[tuple[str, int], str] = {}
        """The answers that wait to be taken, by session and event."""

    async def claim(self, session: str, *, create: bool = False) -> Lease:
        """Take the session; see Log."""
        if session in self._held:
            raise SessionHeld(f"session `{session}` is open elsewhere in this process; close it first")
        if session not in self._lines and not create:
            raise LogError(f"there is no session `{session}`; `foregate audit list` names those there are")
        self._lines.setdefault(session, [])
        self._fence += 1
        self._held[session] = Lease(session, "memory", self._fence)
        return self._held[session]

    async def append(self, lease: Lease, drafts: Sequence[Draft], *, policy: str, time: str) -> Sequence[Event]:
        """Number, chain and keep the drafts; see Log."""
        if self._held.get(lease.session) != lease:
            raise SessionHeld(f"session `{lease.session}` is no longer ours; nothing was written")
        lines = self._lines[lease.session]
        prev = lines[-1][0].hash if lines else GENESIS
        sealed = chain.seal_drafts(drafts, session=lease.session, after=len(lines), prev=prev, policy=policy, time=time)
        lines.extend(sealed)
        events = [event for event, _ in sealed]
        for event in events:
            if isinstance(event.body, NeedRaised) or self._asked.get(lease.session) is not None:
                self._asked[lease.session] = follow_question(self._asked.get(lease.session), event)
        return events

    async def list_asked(self) -> Sequence[tuple[str, int]]:
        """Return sessions and the events by which they wait for a person; see QuestionStore."""
        return [(session, asked.seq) for session, asked in sorted(self._asked.items()) if asked is not None]

    async def hand_in(self, session: str, seq: int, reply: str) -> str:
        """Keep an answer unless one is kept already; return the one that is kept. See QuestionStore."""
        asked = self._asked.get(session)
        return self._kept.setdefault((session, seq), reply) if asked is not None and asked.seq == seq else ""

    async def read_handed(self, session: str, seq: int) -> str:
        """Return the answer that is kept for a question, "" for none; see QuestionStore."""
        asked = self._asked.get(session)
        return self._kept.get((session, seq), "") if asked is not None and asked.seq == seq else ""

    async def find_holder(self, session: str) -> str:
        """Return which live process holds a session, "" for none."""
        return "this process" if session in self._held else ""

    async def settle(self, lease: Lease) -> None:
        """Nothing to wait for: memory is as durable as this log gets."""

    async def read(
        self, session: str, *, after: int = 0, limit: int = 0, kinds: Sequence[Kind] = ()
    ) -> Sequence[Event]:
        """Return events after a number; see Log."""
        return list(islice(self.events(session, after=after, kinds=kinds), limit or None))

    async def head(self, session: str) -> Head:
        """Return the last event's number and hash; see Log."""
        ended = any(event.kind == "session_ended" for event, _ in self._find_rows(session)[-1:])
        return Head(*self.head_anchor(session), ended)

    async def sessions(self) -> Sequence[str]:
        """Return the names of all sessions, newest first; one without an event is none."""
        return [name for name, lines in reversed(self._lines.items()) if lines]

    async def release(self, lease: Lease) -> None:
        """Give the session back."""
        if self._held.get(lease.session) == lease:
            del self._held[lease.session]

    def lines(self, session: str) -> Iterator[tuple[int, str, str]]:
        """Yield (number, canonical text, hash) of each event, for verification."""
        yield from ((event.seq, text, event.hash) for event, text in self._find_rows(session))

    def events(self, session: str, *, after: int = 0, until: int = 0, kinds: Sequence[Kind] = ()) -> Iterator[Event]:
        """Yield events after a number, up to another, of some kinds or of all, in order."""
        rows = self._find_rows(session)[max(after, 0) : until or None]
        yield from (event for event, _ in rows if not kinds or event.kind in kinds)

    def list_erased(self, session: str) -> Mapping[int, Erasure]:
        """Return none: nothing is erased in memory."""
        return {}

    def head_anchor(self, session: str) -> tuple[int, str]:
        """Return number and hash of the last event."""
        rows = self._find_rows(session)
        return (rows[-1][0].seq, rows[-1][0].hash) if rows else (0, GENESIS)

    def _find_rows(self, session: str) -> list[tuple[Event, str]]:
        if session not in self._lines:
            raise LogError(f"there is no session `{session}`")
        return self._lines[session]


class MemoryBlobs:
    """Bytes by their SHA-256; gone when the process ends."""

    def __init__(self) -> None:
        self._bytes: dict[str, bytes] = {}

    def put(self, data: bytes) -> str:
        """Keep `data` and return its SHA-256."""
        name = strict_json.sha256(data)
        self._bytes[name] = data
        return name

    def put_all(self, contents: Iterable[bytes]) -> list[str]:
        """Keep contents and return the SHA-256 of each."""
        return [self.put(data) for data in contents]

    def get(self, hash: str) -> bytes:  # noqa: A002
        """Return the bytes; raise LogError when there are none of that name."""
        if hash not in self._bytes:
            raise LogError(f"no stored bytes are named `{hash}`")
        return self._bytes[hash]
