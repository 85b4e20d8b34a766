"""The tuning index: what each recorded judgement rests on, stored beside the log and made from it at any time."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from foregate.assembly.home import find_index_path
from foregate.evidence.state.recorded_turns import InForce
from foregate.gates.replay.reach import CallTraits, Followed, ReachReader
from foregate.policy.followed import Condition
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, PolicyError
from foregate.schemas.judgement import Who
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import build_catalogue
from foregate.schemas.turn import Turn
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.tuning.phases import list_asked
from foregate.tuning.piece_store import NAME, PieceStore, Warn
from foregate.tuning.pieces import UNREADABLE, Progress, SessionPiece, keep_reader, read_turns, work_on_pieces

FrameKey = tuple[str, str, str]
"""Under what a turn was judged: the hashes of its policy, of what was recorded of its layers, and of its tools."""


class IndexedTurn(Struct, frozen=True, array_like=True):
    """A turn as the index knows it: its calls' digests, who was asked, whether it comes out as recorded under its own
    policy, and the numbers of its page's frame, of the conditions it rests on, and of its calls' traits."""

    seq: int
    task: int
    digests: tuple[str, ...]
    asked: tuple[Who, ...]
    is_same: bool
    frame: int
    conditions: tuple[int, ...]
    calls: tuple[int, ...]


class PageFrame(Struct, frozen=True, array_like=True):
    """Under what turns of a page were judged: the conditions they rest on, by number, and which of them all rest on."""

    key: FrameKey
    conditions: dict[int, str]
    built: tuple[int, ...]

    def is_built_on_any(self, conditions: Set[int]) -> bool:
        """Whether all turns rest on one of some conditions."""
        return not conditions.isdisjoint(self.built)


class ReachPage(Struct, frozen=True, array_like=True):
    """The turns of a piece of a session, in order. Conditions stand as their JSON."""

    frames: tuple[PageFrame, ...]
    traits: tuple[CallTraits, ...]
    turns: tuple[IndexedTurn, ...]

    def list_conditions(self) -> Iterator[str]:
        """Yield the conditions of all frames."""
        for frame in self.frames:
            yield from frame.conditions.values()

    def list_frames(self) -> list[FrameKey]:
        """Return what the turns were judged under, in their order."""
        return [self.frames[number].key for number in dict.fromkeys(turn.frame for turn in self.turns)]


class PageWriter:
    """Puts a page together, turn by turn."""

    def __init__(self) -> None:
        self._frames: dict[FrameKey, tuple[int, ReachReader, set[int]]] = {}
        self._traits: dict[CallTraits, int] = {}
        self._turns: list[IndexedTurn] = []

    def add(
        self, seq: int, turn: Turn, frame: FrameKey, reader: ReachReader, followed: Followed, is_same: bool
    ) -> None:
        """Add a turn that was judged under a frame."""
        if frame not in self._frames:
            self._frames[frame] = len(self._frames), reader, set(reader.built)
        number, _, used = self._frames[frame]
        used.update(followed.conditions)
        calls = tuple([self._traits.setdefault(one, len(self._traits)) for one in followed.calls])
        # An answer in words counts as one.
        digests = tuple([call.digest for call in turn.calls]) or ("",)
        rests_on = tuple(followed.conditions), calls
        self._turns.append(IndexedTurn(seq, turn.task, digests, list_asked(turn), is_same, number, *rests_on))

    def finish(self) -> bytes:
        """Return the page."""
        frames = [
            PageFrame(key, {one: write_condition(reader.conditions[one]) for one in used}, reader.built)
            for key, (_, reader, used) in self._frames.items()
        ]
        return msgspec.msgpack.encode(ReachPage(tuple(frames), tuple(self._traits), tuple(self._turns)))


_PAGES = msgspec.msgpack.Decoder(ReachPage)


def read_page(data: bytes) -> ReachPage:
    """Return a page; raise ValueError for what is none."""
    return _PAGES.decode(data)


@lru_cache(maxsize=65536)
def write_condition(condition: Condition) -> str:
    """Return a condition as JSON."""
    return msgspec.json.encode(condition).decode()


@lru_cache(maxsize=65536)
def read_condition(text: str) -> Condition:
    """Return a condition from its JSON."""
    return cast(Condition, freeze(msgspec.json.decode(text)))


def freeze(value: Any) -> Any:
    """Return a value of JSON with tuples for its lists."""
    return tuple(map(freeze, value)) if isinstance(value, list) else value


_ASKED = "reach"
"""The question that the index answers of each piece: what its turns rest on."""
_AT_ONCE = 64
"""Pages that are written in one transaction."""


@contextmanager
def open_reach_index(
    log: SqliteLog, sessions: Sequence[str], progress: Progress | None = None, warn: Warn = lambda why: None
) -> Iterator[ReachIndex | None]:
    """Yield the tuning index of a home's log, which has caught up with these sessions; None where there can be none.

    It lies beside the log, or in the person's cache where nothing may be written there. `warn` is told in one sentence
    why what was kept is not used.
    """
    beside = find_index_path(log.path.parent, keeps_out=log.read_only)
    path = beside.with_name(NAME) if beside is not None else None
    try:
        index = ReachIndex(log, path, warn)
    except (OSError, sqlite3.Error, LogError) as error:
        warn(f"{path} cannot be used ({str(error)[:200]}), so nothing kept is read and nothing is kept")
        yield None
        return
    with closing(index):
        # What is not in it is judged.
        with suppress(sqlite3.Error):
            index.catch_up(sessions, progress=progress)
        yield index


class Frame(NamedTuple):
    """A policy that turns were judged under, and what was recorded of its layers."""

    policy: Policy
    layers: Mapping[str, Json]


def find_frame_key(holds: InForce, catalogue: str) -> FrameKey:
    """Return under what a turn was judged."""
    return holds.policy_hash, strict_json.digest(holds.layers or {}), catalogue


class PageReader:
    """Makes pages of pieces of sessions."""

    def __init__(self, log: Readable) -> None:
        self._log = log
        self._readers: dict[FrameKey, ReachReader] = {}

    def __call__(self, piece: SessionPiece) -> tuple[bytes, list[tuple[str, str, str, str]]] | None:
        """Return a page and the frames it names as rows; None for a piece that cannot be read, and is judged whole."""
        page, frames = PageWriter(), list[tuple[str, str, str, str]]()
        holds, key = None, ("", "", "")
        try:
            for turn in read_turns(self._log, piece):
                if turn.in_force is not holds:
                    holds, key = turn.in_force, find_frame_key(turn.in_force, turn.turn.catalogue_hash)
                    if key not in self._readers:
                        policy, catalogue = holds.require()
                        self._readers[key] = ReachReader(restore_policy(policy), build_catalogue(catalogue))
                        values, said = (strict_json.canonical(what or {}).decode() for what in (policy, holds.layers))
                        frames.append((*key[:2], values, said))
                reader = self._readers[key]
                page.add(turn.seq, turn.turn, key, reader, *reader.read(turn.turn, turn.judgement))
        except (*UNREADABLE, LogError, PolicyError):
            return None
        return page.finish(), frames


class ReachIndex:
    """The tuning index of `log` in the file at `path`, or in memory with None; `kept` is that file. Close it when done.

    What cannot be read of it counts as not there, and is judged.
    """

    def __init__(self, log: Readable, path: Path | None, warn: Warn = lambda why: None) -> None:
        self._log, self.kept = log, PieceStore(log, path, warn)
        self._frames: dict[tuple[str, str], Frame | None] = {}
        self._pages: dict[str, tuple[tuple[int, str], list[ReachPage]]] = {}
        self.unreadable: dict[str, None] = {}
        """The sessions that could not be read as a whole when the index last caught up, in their order."""

    def close(self) -> None:
        """Close the index; doing it twice is harmless."""
        self.kept.close()

    def catch_up(
        self,
        sessions: Sequence[str],
        workers: int = 0,
        progress: Progress | None = None,
    ) -> None:
        """Read what was written since of each of these sessions; on all cores where that is worth it.

        `progress` is told how many pieces of sessions are read, and of how many.
        """
        with keep_reader(self._log):
            heads = {session: self._log.head_anchor(session) for session in sessions}
            pieces = [one for name in sessions for one in self.kept.list_missing(_ASKED, name, heads[name])]
            events = sum(min(piece.until, heads[piece.session][0]) - piece.after for piece in pieces)
            try:
                found = work_on_pieces(self._log, pieces, events, PageReader, workers)
                for count, (piece, page) in enumerate(found, start=1):
                    if page is not None:
                        body, frames = page
                        self.kept.keep(_ASKED, piece, heads[piece.session], body)
                        self.kept.connection.executemany("INSERT OR IGNORE INTO frames VALUES (?, ?, ?, ?)", frames)
                    else:
                        self.unreadable[piece.session] = None
                    if count % _AT_ONCE == 0:
                        self.kept.commit()
                    if progress is not None:
                        progress(count, len(pieces))
            finally:
                self.kept.commit()

    def find_pages(self, session: str) -> list[ReachPage] | None:
        """Return what is known of a session, in order; None where that is not all of it, or cannot be read."""
        with suppress(sqlite3.DatabaseError, ValueError):
            head = self._log.head_anchor(session)
            if session in self._pages and self._pages[session][0] == head:
                return self._pages[session][1]
            bodies, end = self.kept.read(_ASKED, session, head)
            if bodies and end == head[0]:
                pages = [read_page(body) for body in bodies]
                known = all(self.find_frame(frame.key) is not None for page in pages for frame in page.frames)
                if known:
                    self._pages[session] = head, pages
                return pages if known else None
        return None

    def get_head(self, session: str) -> tuple[int, str]:
        """Return number and hash of the event up to which the pages that were found of a session go."""
        return self._pages[session][0]

    def find_frame(self, key: FrameKey) -> Frame | None:
        """Return what turns were judged under, None where it is not known or is not what its hashes say."""
        name = key[:2]
        if name not in self._frames:
            self._frames[name] = self._read_frame(*name)
        return self._frames[name]

    def get_frame(self, key: FrameKey) -> Frame:
        """Return what the turns of a page that was found were judged under."""
        frame = self.find_frame(key)
        assert frame is not None, "a page whose frames are not known counts as none"
        return frame

    def _read_frame(self, policy: str, layers: str) -> Frame | None:
        query = "SELECT value, said FROM frames WHERE policy = ? AND layers = ?"
        with suppress(sqlite3.DatabaseError, ValueError, PolicyError, LookupError):
            for value, said in self.kept.connection.execute(query, (policy, layers)):
                if [strict_json.sha256(text.encode()) for text in (value, said)] == [policy, layers]:
                    return Frame(restore_policy(msgspec.json.decode(value)), msgspec.json.decode(said))
        return None
