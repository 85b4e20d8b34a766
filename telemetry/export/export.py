"""Exporting sessions: which ones, as what, and the outcome. One session at a time is held in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct, field

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, LogError, ModelError, TamperedLog
from foregate.schemas.event import Event
from foregate.schemas.protocols import Blobs, Readable
from foregate.schemas.strict_json import Json
from foregate.telemetry.export.atif import build_document, validate_document
from foregate.telemetry.export.fold import fold_trajectory
from foregate.telemetry.export.hiding import TextRemover, collect_patterns, mask_event
from foregate.telemetry.export.lines import (
    SentRequest,
    build_examples,
    build_preferences,
    build_rows,
    read_sent_requests,
)
from foregate.telemetry.export.trajectory import Reward, Trajectory, compute_rewards, find_pairs
from foregate.telemetry.log import chain
from foregate.telemetry.log.erasing import build_erased_error
from foregate.telemetry.log.masking import Hidden, mask_json

Format = Literal["atif", "sao", "openai"]
FORMATS: tuple[Format, ...] = ("atif", "sao", "openai")
_NEVER_PAST = datetime.max.replace(tzinfo=UTC)


class ExportOptions(Struct, frozen=True):
    """How sessions are written. `patterns` are masked beside those each session was recorded under.

    `pairs` writes preference pairs instead of conversations (`openai` only); without `content` no words are written
    (`atif` and `sao` only); `check` has each ATIF document checked by its published models.
    """

    format: Format = "atif"
    pairs: bool = False
    content: bool = True
    patterns: Hidden = ()
    reward: Reward | None = None
    check: bool = False


class ExportTally(Struct):
    """What was exported: sessions (children apart), responses, calls held, pairs, lines, events masked; and skipped."""

    sessions: int = 0
    children: int = 0
    responses: int = 0
    held: int = 0
    pairs: int = 0
    lines: int = 0
    masked: int = 0
    skipped: dict[str, str] = field(default_factory=dict)
    tampered: bool = False

    def count_trajectory(self, trajectory: Trajectory) -> None:
        """Take in a session and its children."""
        actions = [action for step in trajectory.steps for action in step.actions]
        self.responses += len(trajectory.responses)
        self.held += sum(action.standing in ("hold", "deny") for action in actions)
        self.pairs += sum(1 for _ in find_pairs(trajectory))
        self.masked += len(trajectory.masked)
        for child in trajectory.children:
            self.children += 1
            self.count_trajectory(child)


class _ExportedSession(Struct):
    """A session as it is written, with its events and those of its children."""

    trajectory: Trajectory
    events: Sequence[Event]
    children: Sequence[_ExportedSession]
    patterns: Hidden

    def walk_sessions(self) -> Iterator[_ExportedSession]:
        """Yield the session, then its children, each before its own."""
        yield self
        for child in self.children:
            yield from child.walk_sessions()


class Export:
    """Writes sessions of a log. A session that cannot be read is named in the tally, and the others are written."""

    def __init__(self, log: Readable, blobs: Blobs, wanted: ExportOptions) -> None:
        self._log, self._blobs, self._wanted = log, blobs, wanted
        self.tally = ExportTally()

    def export_family(self, family: SessionFamily) -> Iterator[Json]:
        """Yield the lines of the sessions of a family, in order; raise UsageError for a reward that is none."""
        for name in family.heads:
            try:
                session = self._read_session(name, family)
                found = list(self._format_session(session))
            except (LogError, InvalidJson) as error:
                self.tally.skipped[name] = str(error)
                self.tally.tampered = self.tally.tampered or isinstance(error, TamperedLog)
                continue
            except (LookupError, ModelError) as error:
                # Events that fit their chain and not each other.
                why = f"it cannot be exported ({str(error).partition('; ')[0]})"
                self.tally.skipped[name] = f"{why}; `foregate audit verify` tells what was changed"
                continue
            self.tally.sessions += 1
            self.tally.count_trajectory(session.trajectory)
            for line in found:
                self.tally.lines += 1
                yield line

    def _read_session(self, name: str, family: SessionFamily) -> _ExportedSession:
        """Return a session as it is to be written; raise LogError where it was erased or its chain does not hold."""
        for erasure in self._log.list_erased(name).values():
            raise build_erased_error(name, erasure)
        children = [self._read_session(child, family) for child in family.children.get(name, ())]
        events = list(chain.verify_lines(self._log.lines(name), name))
        patterns = collect_patterns(events, self._wanted.patterns)
        shown = [mask_event(event, patterns) for event in events]
        changed = [new.seq for new, old in zip(shown, events, strict=True) if new is not old]
        if not self._wanted.content:
            shown = list(map(TextRemover(), shown))
        trajectories = [child.trajectory for child in children]
        trajectory = fold_trajectory(shown, children=trajectories, masked=changed)
        return _ExportedSession(trajectory, shown, children, patterns)

    def _format_session(self, session: _ExportedSession) -> Iterator[Json]:
        wanted, rewards = self._wanted, None
        if wanted.reward is not None:
            whole = [one.trajectory for one in session.walk_sessions()]
            rewards = {one.session: compute_rewards(wanted.reward, one) for one in whole}
        if wanted.format == "atif":
            made = build_document(session.trajectory, rewards=rewards, content=wanted.content)
            if wanted.check:
                validate_document(made)
            yield made
            return
        for one in session.walk_sessions():
            states = self._read_states(one) if wanted.content else {}
            if wanted.format == "sao":
                given = rewards[one.trajectory.session] if rewards is not None else None
                yield from build_rows(one.trajectory, states, given, content=wanted.content)
            elif wanted.pairs:
                yield from build_preferences(one.trajectory, states)
            else:
                yield from build_examples(one.trajectory, states, one.events)

    def _read_states(self, session: _ExportedSession) -> Mapping[int, SentRequest]:
        def hide(data: bytes) -> bytes:
            return strict_json.canonical(mask_json(strict_json.decode_record(data.decode()), session.patterns))

        return {sent.seq: sent for sent in read_sent_requests(session.events, self._blobs, hide)}


class SessionFamily:
    """Sessions to export and, below each, those of the tasks it delegated: a child is written with its parent.

    `heads` are the sessions named, or all without a parent in the log, newest first.
    """

    def __init__(self, names: Iterable[str], chosen: Sequence[str] = ()) -> None:
        known = dict.fromkeys(names)
        self.children: dict[str, list[str]] = {}
        above = {name: _find_parent(name, known) for name in known}
        for name in reversed(known):
            if above[name]:
                self.children.setdefault(above[name], []).append(name)
        below = set[str]()
        for name in chosen:
            below |= set(self._list_below(name))
        wanted = list(dict.fromkeys(chosen)) or [name for name in known if not above[name]]
        self.heads = [name for name in wanted if name not in below]

    def keep_since(self, log: Readable, moment: datetime) -> None:
        """Keep the sessions in which something happened at that moment or later, in themselves or below."""
        self.heads = [name for name in self.heads if self._find_last_time(log, name) >= moment]

    def _find_last_time(self, log: Readable, name: str) -> datetime:
        """Return when something last happened; an end of time where that cannot be read, so that it is named."""
        try:
            count, _ = log.head_anchor(name)
            times = [datetime.fromisoformat(event.time) for event in log.events(name, after=count - 1)]
        except (LogError, ValueError):
            return _NEVER_PAST
        times += [self._find_last_time(log, child) for child in self.children.get(name, ())]
        return max(times, default=_NEVER_PAST)

    def _list_below(self, name: str) -> Iterator[str]:
        for child in self.children.get(name, ()):
            yield child
            yield from self._list_below(child)


def _find_parent(name: str, known: Collection[str]) -> str:
    """Return the session whose name with a call's id is this name, "" for none."""
    parts = name.split(".")
    return next((head for n in range(len(parts) - 1, 0, -1) if (head := ".".join(parts[:n])) in known), "")
