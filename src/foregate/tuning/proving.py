"""Verifying sessions as a whole: the chain and what events say of each other, stored bytes, every turn judged again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from foregate.agent.loop.stored_changes import load_changes
from foregate.agent.workspace.directory import list_hashes
from foregate.agent.workspace.path_state import is_adjusted
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.event import GENESIS, Event
from foregate.schemas.protocols import Blobs, Readable
from foregate.schemas.strict_json import Json, get_text
from foregate.telemetry.queries.checkpoints import SessionHead
from foregate.telemetry.queries.used_blobs import Holds, list_blobs
from foregate.telemetry.queries.verify import GONE, NAMED, Anchor, Defect, Verification, check_link, verify_session

# How many events a piece has is said there alone.
from foregate.tuning import pieces as cut
from foregate.tuning.rejudging import JudgedMarks, Rejudgement, judge_sessions_again


class BlobChecker:
    """Checks what events name as they go by, each once: `checked` counts it, `defects` are what is missing or changed,
    at most the first hundred.
    """

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: set[bytes] = set()
        self.checked = 0
        self.defects: list[Defect] = []

    def check_event(self, event: Event) -> None:
        """Check the stored bytes that an event names."""
        for hash_, holds in list_blobs(event):
            self._check(event.seq, hash_, holds)

    def _check(self, seq: int, hash_: str, holds: Holds) -> None:
        key = hash_.encode()
        if key in self._known:
            return
        self._known.add(key)
        self.checked += 1
        try:
            data = self._blobs.get(hash_)
            for inner in list(self._list_inner(hash_, data, holds)):
                self._check(seq, inner, "")
        except (ForegateError, ValueError) as error:
            if len(self.defects) < NAMED:
                why = str(error).splitlines()[0][:200]
                self.defects.append(
                    Defect(seq, "other_bytes", f"event {seq} names bytes that are gone or changed: {why}")
                )

    def _list_inner(self, hash_: str, data: bytes, holds: Holds) -> Iterator[str]:
        """Yield what stored bytes name in their turn."""
        if holds == "directory":
            yield from list_hashes(data)
        elif holds == "repository":
            yield from filter(None, [get_text(strict_json.parse(data.decode()), "index", "")])
        elif holds == "changes":
            kept = load_changes(self._blobs, hash_)
            # where only traits change, the content was never copied
            adjusted = {one.path for one in kept.changes if is_adjusted(one.before, one.after)} - kept.linked
            for image in kept.images:
                yield from filter(None, ["" if image.path in adjusted else image.hash, image.attributes])


Progress = Callable[[int], object]
"""Is told how many further events were gone through."""
_STEP = 1000


class SessionProof(Struct, frozen=True):
    """What proving a session came to: the verification with all that was found.

    `turns` counts what was judged again, `earlier` of them those that an earlier run judged, and `blobs` the stored
    bytes that were checked, None where nobody did; `remarks` are sentences on turns that another version of Foregate
    judged.
    """

    found: Verification
    turns: int | None = None
    blobs: int | None = None
    otherwise: int = 0
    remarks: tuple[str, ...] = ()
    earlier: int = 0

    @property
    def scope(self) -> str:
        """What was checked beside the chain, in words."""
        turns = f"{self.turns} turn{'s' * (self.turns != 1)} judged again"
        turns += f", {self.earlier} of them by an earlier run" if self.earlier else ""
        judged = turns if self.turns is not None else "no turn judged again"
        blobs = f"{self.blobs} stored file{'s' * (self.blobs != 1)} checked"
        return f"{judged}; {blobs if self.blobs is not None else 'no stored files checked'}"

    def to_json(self) -> dict[str, Json]:
        """Return the proof as JSON values."""
        found = self.found
        told: dict[str, Json] = {"ok": found.ok, "proven": found.proven, "state": found.state, "head": found.head}
        more: dict[str, Json] = {"turns": self.turns, "otherwise": self.otherwise, "blobs": self.blobs}
        more |= {"earlier": self.earlier}
        return {**told, **strict_json.dump(found), **more}


class SessionProver(Struct):
    """Proves sessions of a log. Without `blobs` no stored bytes are checked; `judges` says whether turns are judged.

    `heads` are events that somebody kept elsewhere, by session. `progress` is told of events gone through: each counts
    once for its chain, and once more where turns are judged. `marks` tell which turns need not be judged again; the
    chain is always walked.
    """

    log: Readable
    blobs: Blobs | None = None
    judges: bool = True
    heads: Mapping[str, Sequence[Anchor]] = field(default_factory=dict)
    progress: Progress = lambda count: None
    marks: JudgedMarks | None = None
    _walked: dict[str, dict[int, str]] = field(default_factory=dict)

    def prove(self, sessions: Sequence[str]) -> Iterator[SessionProof]:
        """Yield what proving each session comes to, in their order; judging begins when all chains are known."""
        proofs = {session: self._prove_chain(session) for session in sessions}
        whole = [session for session, proof in proofs.items() if self.judges and is_readable(proof.found)]
        judged = judge_sessions_again(self.log, whole, self.progress, 0, self.marks, self._walked) if whole else ()
        again = {one.session: one for one in judged}
        for session, proof in proofs.items():
            yield add_judged(proof, again[session]) if session in again else proof

    def _prove_chain(self, session: str) -> SessionProof:
        stored = BlobChecker(self.blobs) if self.blobs is not None else None
        passed = 0
        links: list[Defect] = []
        walked = self._walked[session] = {}

        def watch(event: Event) -> None:
            nonlocal passed
            passed += 1
            if event.seq == 1:
                links.extend(Defect(1, code, f"event 1: {why}") for code, why in check_link(self.log, event))
            if event.seq % cut.EVENTS_PER_PIECE == 0:
                walked[event.seq] = event.hash
            if passed % _STEP == 0:
                self.progress(_STEP)
            if stored is not None:
                stored.check_event(event)

        found = verify_session(self.log, session, heads=self.heads.get(session, ()), watch=watch)
        walked[found.events] = found.hash
        self.progress(passed % _STEP)
        if stored is None:
            return SessionProof(add_defects(found, links))
        return SessionProof(add_defects(found, [*links, *stored.defects]), blobs=stored.checked)


def prove_session(log: Readable, session: str, blobs: Blobs | None = None) -> SessionProof:
    """Return what proving one session comes to; raise LogError for one that the log does not hold."""
    (proof,) = SessionProver(log, blobs).prove([session])
    return proof


def is_readable(found: Verification) -> bool:
    """Whether a session's events are all there and can be read, so that its turns can be judged again."""
    return found.events > found.erased == 0 and not any(
        one.code in ("chain_broken", "malformed_event") for one in found.defects
    )


def add_judged(proof: SessionProof, judged: Rejudgement) -> SessionProof:
    """Return a proof with what judging the session's turns again came to."""
    return SessionProof(
        add_defects(proof.found, judged.defects),
        sum(judged.turns.values()),
        proof.blobs,
        sum(judged.otherwise.values()),
        tuple(judged.sentences),
        judged.earlier,
    )


def add_defects(found: Verification, more: Iterable[Defect]) -> Verification:
    """Return a verification with further defects, all in the order of their events."""
    defects = tuple(sorted((*found.defects, *more), key=lambda defect: defect.seq)[:NAMED])
    return replace(found, defects=defects, proven=found.proven and not defects)


def build_gone(session: str, last: tuple[int, SessionHead]) -> SessionProof:
    """Return the proof of a session that is not in the log and whose head a checkpoint holds."""
    number, head = last
    why = f"session `{session}` is not in the log; checkpoint {number} was over {head.seq} events of it"
    return SessionProof(Verification(session, 0, GENESIS, False, (Defect(1, GONE, why),)))
