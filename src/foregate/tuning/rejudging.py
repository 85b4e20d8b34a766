"""Every recorded turn judged again under its own policy and tools, to find a judgement that nobody gave so."""

from __future__ import annotations

import hmac
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType

import msgspec
from msgspec import Struct, field

from foregate.agent.session.prompts import PROMPTS_HASH, SYSTEM
from foregate.assembly.home import find_index_path
from foregate.evidence.ledger import LONGEST, fold_word, match_url
from foregate.evidence.state.recorded_turns import EventWindow, Lookup, RecordedTurn
from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.redecide import judge_any_turn
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.schemas import strict_json
from foregate.schemas.errors import LogError, PolicyError
from foregate.schemas.event_body import SessionStarted, ToolFinished, UserMessage
from foregate.schemas.judgement import Judgement, Need
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Atom, Origin, Survey
from foregate.schemas.tool_spec import build_catalogue
from foregate.schemas.version import __version__
from foregate.telemetry.log.snapshots import make_key, read_key
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import NAMED, Defect

# How many events a piece has is said there alone.
from foregate.tuning import pieces as cut
from foregate.tuning.piece_store import NAME, PieceStore, Warn, hash_code
from foregate.tuning.pieces import UNREADABLE, SessionPiece, read_turns, split_session, work_on_pieces


def find_other_versions(log: Readable, sessions: Sequence[str]) -> Iterator[str]:
    """Yield a sentence on the sessions that other versions of Foregate recorded, where there are any.

    Their turns were judged by other gates, so that not each difference is one of the policy.
    """
    begun = Counter(event.foregate for name in sessions if (event := next(log.events(name), None)) is not None)
    others = {version: count for version, count in begun.items() if version not in ("", __version__)}
    if others:
        named = ", ".join(f"{count} by {version}" for version, count in sorted(others.items()))
        told = f"recorded by another version of Foregate: {named}, of {len(sessions)} in all"
        yield f"{told}; this is {__version__}, whose gates may judge them otherwise"


_ASKED = "judged"
"""The question to which what is kept of a piece answers: how many of its turns came out as recorded."""


class JudgedCounts(Struct, frozen=True, array_like=True):
    """How many turns of a piece were judged, and how many of another version came out otherwise, by version."""

    turns: dict[str, int]
    otherwise: dict[str, int]


class _Mark(Struct, frozen=True, array_like=True):
    code: bytes
    counts: JudgedCounts


_MARKS = msgspec.msgpack.Decoder(_Mark)


class JudgedMarks:
    """The marks of a log that its `key` has signed. With `anew` none that was kept counts."""

    def __init__(self, kept: PieceStore, key: bytes, *, anew: bool = False) -> None:
        self._kept, self._key, self._anew = kept, key, anew

    def find(self, session: str, walked: Mapping[int, str]) -> dict[int, JudgedCounts]:
        """Return what is known of the pieces of a session, by the event behind which each begins.

        `walked` are the hashes of events as walking the chain found them, the last event's among them: what the file
        says of its own marks counts for nothing.
        """
        found, last = dict[int, JudgedCounts](), max(walked)
        bodies = self._kept.read(_ASKED, session, (last, walked[last]))[0] if not self._anew else []
        for number, body in enumerate(bodies):
            after, until = number * cut.EVENTS_PER_PIECE, min((number + 1) * cut.EVENTS_PER_PIECE, last)
            with suppress(msgspec.MsgspecError):
                mark = _MARKS.decode(body)
                wanted = self._sign(session, after, until, walked.get(until, ""), mark.counts)
                if until in walked and hmac.compare_digest(mark.code, wanted):
                    found[after] = mark.counts
        return found

    def keep(self, piece: SessionPiece, walked: Mapping[int, str], counts: JudgedCounts) -> None:
        """Keep that the turns of a piece came out as recorded, if the chain was walked to its last event."""
        if piece.until in walked:
            last = max(walked)
            code = self._sign(piece.session, piece.after, piece.until, walked[piece.until], counts)
            body = msgspec.msgpack.encode(_Mark(code, counts))
            with suppress(sqlite3.DatabaseError):
                self._kept.keep(_ASKED, piece, (last, walked[last]), body)

    def commit(self) -> None:
        """Write what was kept."""
        with suppress(sqlite3.DatabaseError):
            self._kept.commit()

    def _sign(self, session: str, after: int, until: int, hash_: str, counts: JudgedCounts) -> bytes:
        about: Json = [_ASKED, hash_code(), session, after, until, hash_, counts.turns, counts.otherwise]
        return hmac.new(self._key, b"judged again\0" + strict_json.canonical(about), "sha256").digest()


@contextmanager
def open_judged_marks(log: SqliteLog, *, anew: bool, warn: Warn = lambda why: None) -> Iterator[JudgedMarks | None]:
    """Yield the marks of a home's log, None where there can be none: all is judged, and `warn` is told why."""
    beside = find_index_path(log.path.parent, keeps_out=log.read_only)
    try:
        key = read_key(log.path) or (b"" if log.read_only else make_key(log.path))
        kept = PieceStore(log, beside.with_name(NAME), warn) if beside is not None and key else None
    except (OSError, sqlite3.Error, LogError) as error:
        warn(f"every turn is judged again, and that is not kept ({str(error)[:200]})")
        kept = None
    try:
        yield JudgedMarks(kept, key, anew=anew) if kept is not None else None
    finally:
        if kept is not None:
            kept.close()


# "read_file".
_PLAIN = compile_late(r"[!#-&(-\[\]-~]{2,}")
"""A name that stands unchanged in any text: no quotes, no backslashes, nothing that could be written otherwise."""


class SourceChecker:
    """Checks surveys of one session. `lookup` finds its events; what was found to hold is not looked for again."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._known: set[tuple[int, str, Origin]] = set()

    def find_unsaid(self, surveys: Iterable[Survey]) -> Iterator[Atom]:
        """Yield the names that are not in the event which is said to have brought them.

        Raises LookupError where there is no such event.
        """
        for atom in (atom for survey in surveys for atom in survey.atoms if atom.seq):
            key = atom.seq, atom.text, atom.origin
            if key in self._known:
                continue
            self._known.add(key)
            if not self._is_said(atom):
                yield atom

    def _is_said(self, atom: Atom) -> bool:
        """Whether the event holds the name, or a part that it counts as named by; any other kind of event may."""
        event = self._lookup(atom.seq)
        match event.body:
            case UserMessage(text=text):
                origin = Origin.USER if event.actor == "user" else Origin.NOBODY
            case ToolFinished(content=text, origin=origin):
                pass
            case _:
                return True
        if origin is not atom.origin:
            return False
        if len(atom.text) >= LONGEST or not _PLAIN.fullmatch(atom.text):
            return True
        heard = text.lower()
        return any(part.lower() in heard for part in _list_parts(fold_word(atom.text)))


def _list_parts(name: str) -> Iterator[str]:
    """Yield a name and what it counts as named by: the host of a URL, the folder and the last part of a path."""
    yield name
    if (url := match_url(name)) is not None:
        yield url.group(2)
    folder, _, last = name.strip("/").rpartition("/")
    yield from filter(None, (folder, last))


Progress = Callable[[int], object]
"""Is told how many further events were gone through."""


class Rejudgement(Struct):
    """What judging a session's turns again came to.

    `otherwise` counts the turns of other versions of Foregate that this one judges otherwise, by version, and `turns`
    all turns, by version; `earlier` counts those that an earlier run judged. A turn of this very version that comes out
    otherwise is a defect.
    """

    session: str = ""
    turns: Counter[str] = field(default_factory=Counter)
    otherwise: Counter[str] = field(default_factory=Counter)
    earlier: int = 0
    defects: list[Defect] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """What there is to say of it, a sentence for each other version whose turns come out otherwise."""
        told = ((version, self.otherwise[version], count) for version, count in self.turns.items())
        return [
            f"judged by Foregate {version}; {other} of {count} turns judged otherwise by this version, {__version__}"
            for version, other, count in told
            if other
        ]


def judge_sessions_again(
    log: Readable,
    sessions: Sequence[str],
    progress: Progress = lambda count: None,
    workers: int = 0,
    marks: JudgedMarks | None = None,
    walked: Mapping[str, Mapping[int, str]] = MappingProxyType({}),
) -> Iterator[Rejudgement]:
    """Yield for each session what judging its turns again came to; on all cores where that is worth it.

    Pieces with one of the `marks` are not judged: `walked` are by session the hashes of events that its chain led to.
    """
    planned = [one for session in sessions for one in _plan_session(log, session, marks, walked.get(session, {}))]
    new = [piece for piece, known in planned if known is None]
    judged = work_on_pieces(log, new, sum(piece.count_events() for piece in new), TurnJudge, workers)
    found: Rejudgement | None = None
    try:
        for piece, known in planned:
            if found is None or found.session != piece.session:
                if found is not None:
                    yield found
                found = Rejudgement(piece.session, defects=list(_check_prompts(log, piece.session)))
            if known is not None:
                more = Rejudgement(piece.session, Counter(known.turns), Counter(known.otherwise))
                found.earlier += more.turns.total()
            else:
                more = next(judged)[1]
                if marks is not None and not more.defects:
                    counts = JudgedCounts(dict(more.turns), dict(more.otherwise))
                    marks.keep(piece, walked.get(piece.session, {}), counts)
            found.turns.update(more.turns)
            found.otherwise.update(more.otherwise)
            found.defects += more.defects[: NAMED - len(found.defects)]
            progress(min(piece.until, log.head_anchor(piece.session)[0]) - piece.after)
        if found is not None:
            yield found
    finally:
        if marks is not None:
            marks.commit()


def _plan_session(
    log: Readable, session: str, marks: JudgedMarks | None, walked: Mapping[int, str]
) -> Iterator[tuple[SessionPiece, JudgedCounts | None]]:
    """Yield the pieces of a session with what is known of them."""
    known = marks.find(session, walked) if marks is not None and walked else {}
    for piece in split_session(log, session):
        yield piece, known.get(piece.after)


def _check_prompts(log: Readable, session: str) -> Iterator[Defect]:
    """Yield where a session's own prompt is not the one that goes with the hash of its prompts."""
    for event in log.events(session, until=1, kinds=("session_started",)):
        body = event.body
        if isinstance(body, SessionStarted) and body.prompts_hash == PROMPTS_HASH and body.system != SYSTEM:
            yield Defect(event.seq, "other_prompts", f"event {event.seq}: its prompt does not have the recorded hash")


class TurnJudge:
    """Judges the turns of pieces again; policies and gates are kept from one piece to the next."""

    def __init__(self, log: Readable) -> None:
        self._log = log
        self._benches: dict[tuple[str, str], tuple[Policy, Prelude]] = {}

    def __call__(self, piece: SessionPiece) -> Rejudgement:
        """Return what judging the turns of a piece again came to; it is never an error."""
        found, last = Rejudgement(piece.session), piece.after
        sources = SourceChecker(EventWindow(self._log, piece.session))
        try:
            for turn in read_turns(self._log, piece, early=True):
                last = turn.seq
                found.turns[turn.foregate] += 1
                for atom in sources.find_unsaid(turn.turn.surveys):
                    why = f"event {last}: `{atom.text[:80]}` is said to be named first in event {atom.seq}"
                    found.defects.append(Defect(last, "other_source", f"{why}, which does not name it so"))
                if self._is_same(turn):
                    continue
                if turn.foregate != __version__:
                    found.otherwise[turn.foregate] += 1
                else:
                    why = f"event {last}: judged again under its own policy and tools, it comes out otherwise"
                    found.defects.append(Defect(last, "other_judgement", why))
        except (*UNREADABLE, PolicyError) as error:
            why = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            found.defects.append(Defect(last, "not_judged", f"after event {last} no turn can be judged again ({why})"))
        return found

    def _is_same(self, recorded: RecordedTurn) -> bool:
        """Whether a turn judged again has the judgement it had; of another version, whether it has the verdicts."""
        policy, bench = self._find_bench(recorded)
        now = judge_any_turn(recorded.turn, policy, bench)
        if isinstance(now, Need):
            return False
        if recorded.foregate != __version__:
            return list(_list_outcomes(now)) == list(_list_outcomes(recorded.judgement))
        return now == recorded.judgement or strict_json.dump(now) == strict_json.dump(recorded.judgement)

    def _find_bench(self, recorded: RecordedTurn) -> tuple[Policy, Prelude]:
        key = recorded.in_force.policy_hash, recorded.turn.catalogue_hash
        if key not in self._benches:
            values, catalogue = recorded.in_force.require()
            policy = restore_policy(values)
            self._benches[key] = policy, build_prelude(policy, build_catalogue(catalogue))
        return self._benches[key]


def _list_outcomes(judgement: Judgement) -> Iterator[tuple[str, ...]]:
    """Yield what became of each call, and for an answer in words what was said of it."""
    for verdict in judgement.verdicts:
        yield verdict.call, verdict.standing.value, verdict.gate, verdict.ruling.code
    if not judgement.verdicts:
        yield tuple(decision.code for decision in judgement.decisions)
