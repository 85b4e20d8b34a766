"""Two sessions side by side: the calls they share, and where judgements, policies and results differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

from msgspec import Struct

from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import format_path
from foregate.policy.source.values import compare_policies
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, LogError
from foregate.schemas.event import Event, ModelResponded, TurnJudged
from foregate.schemas.event_body import (
    CallAnswered,
    Kind,
    SessionStarted,
    TaskEnded,
    TaskStarted,
    ToolFinished,
    UserMessage,
)
from foregate.schemas.judgement import Judgement, Verdict
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json

_KINDS: tuple[Kind, ...] = (
    *("session_started", "task_started", "user_message", "model_response", "turn_judged"),
    *("tool_finished", "call_answered", "task_ended"),
)
COMPARED = 4000
"""Calls of each session that are matched, after those that both begin with."""


class GateRuling(NamedTuple):
    """What a gate said about a call."""

    gate: str
    standing: str
    code: str


class ComparedCall(Struct):
    """A call of one session: where it was judged and how, by each gate and in the end, and its result if it ran."""

    seq: int
    tool: str
    verdict: Verdict
    rulings: tuple[GateRuling, ...]
    target: str = ""
    end: ToolFinished | None = None

    @property
    def ruling(self) -> GateRuling:
        """How the call was judged in the end."""
        return GateRuling(self.verdict.gate, self.verdict.standing.value, self.verdict.ruling.code)

    def to_json(self) -> dict[str, Json]:
        """Return the call as JSON values, of its result only the hash."""
        gate, standing, code = self.ruling
        found: dict[str, Json] = {"seq": self.seq, "call": self.verdict.call, "tool": self.tool}
        found |= {"digest": self.verdict.digest, "standing": standing, "gate": gate, "code": code}
        ok, exit_code, content = (self.end.ok, self.end.exit_code, self.end.content) if self.end else (None, None, "")
        known = {"target": self.target or None, "ok": ok, "exit_code": exit_code}
        found |= {name: value for name, value in known.items() if value is not None}
        return found | {"result": strict_json.sha256(content.encode("utf-8", "replace")) if content else ""}


class ComparedTask(Struct):
    """A task of one session: what was asked, and how it ended."""

    asked: str = ""
    status: str = "open"


class CallPair(NamedTuple):
    """A call of both sessions, or of one of them: None where the other has no such call there."""

    a: ComparedCall | None
    b: ComparedCall | None

    @property
    def both(self) -> tuple[ComparedCall, ComparedCall] | None:
        """The call of each session, None where one has no such call."""
        return (self.a, self.b) if self.a is not None and self.b is not None else None

    @property
    def is_judged_alike(self) -> bool:
        """Whether both have the call, and every gate said the same about it."""
        return self.both is not None and self.both[0].rulings == self.both[1].rulings and self.has_same_verdict

    @property
    def has_same_verdict(self) -> bool:
        """Whether both have the call, and it was judged the same way in the end."""
        return self.both is not None and self.both[0].ruling == self.both[1].ruling

    @property
    def has_other_result(self) -> bool:
        """Whether the call ran in both with different outcomes."""
        ends = [call.end for call in self.both or () if call.end is not None]
        return len({(end.ok, end.exit_code, end.content) for end in ends}) > 1

    def find_gates(self) -> tuple[GateRuling | None, GateRuling | None]:
        """Return what the first gate said that said something else about the call, in each session."""
        rulings = zip_longest(*(call.rulings for call in self.both or ()))
        return next(((one, other) for one, other in rulings if one != other), (None, None))


class SessionDiff(Struct, frozen=True):
    """What two sessions share and where they differ; `cut` says that not all calls were matched."""

    a: str
    b: str
    tasks: tuple[tuple[ComparedTask | None, ComparedTask | None], ...]
    calls: tuple[CallPair, ...]
    policy: dict[str, tuple[Json, Json]]
    cut: bool = False

    @property
    def first(self) -> int | None:
        """The place in `calls` of the first call judged differently, None where all are judged alike."""
        return next((at for at, pair in enumerate(self.calls) if pair.both and not pair.is_judged_alike), None)

    def to_json(self) -> Json:
        """Return the difference as JSON values; of `policy` each key with both values."""
        calls: list[Json] = []
        for pair in self.calls:
            first = next(filter(None, pair.find_gates()), None)
            told: dict[str, Json] = {"a": _dump_call(pair.a), "b": _dump_call(pair.b)}
            told |= {"same_verdict": pair.has_same_verdict, "same_result": not pair.has_other_result}
            calls.append(told | {"first_gate": first and first.gate})
        tasks: list[Json] = [[None if side is None else strict_json.dump(side) for side in pair] for pair in self.tasks]
        policy: dict[str, Json] = {key: list(values) for key, values in self.policy.items()}
        found: dict[str, Json] = {"a": self.a, "b": self.b, "tasks": tasks, "calls": calls, "policy": policy}
        return found | {"first_difference": self.first, "cut": self.cut}


def _dump_call(call: ComparedCall | None) -> Json:
    return None if call is None else call.to_json()


def compare_sessions(log: Readable, a: str, b: str) -> SessionDiff:
    """Return where two sessions differ; raise LogError for one that cannot be read."""
    one, other = (_DiffSide(log.events(name, kinds=_KINDS)) for name in (a, b))
    pairs, cut = _match_calls(list(one.calls.values()), list(other.calls.values()))
    policy = _compare_policies(one.policy, other.policy, a, b)
    return SessionDiff(a, b, tuple(zip_longest(one.tasks, other.tasks)), tuple(pairs), policy, cut)


class _DiffSide:
    """One session, read."""

    def __init__(self, events: Iterator[Event]) -> None:
        self.tasks: list[ComparedTask] = []
        self.calls: dict[str, ComparedCall] = {}
        self.policy: Json = None
        self._names: dict[str, str] = {}
        for event in events:
            self._read_event(event)

    def _read_event(self, event: Event) -> None:
        match event.body:
            case SessionStarted(policy=policy):
                self.policy = policy
            case TaskStarted():
                self.tasks.append(ComparedTask())
            case UserMessage(text=text) if self.tasks and not self.tasks[-1].asked:
                self.tasks[-1].asked = text
            case UserMessage(text=text) if not self.tasks or self.tasks[-1].status != "open":
                self.tasks.append(ComparedTask(text))
            case TaskEnded(status=status) if self.tasks:
                self.tasks[-1].status = status
            case ModelResponded() as body:
                self._names |= {recorded.id: recorded.name[:128] for recorded in body.calls}
            case TurnJudged(early=False) as body if body.turn.actor in ("model", "sandbox"):
                self._read_judgement(event.seq, body.judgement)
            case ToolFinished(early=False) as body if found := self.calls.get(body.call):
                found.target, found.end = body.target, body
            case CallAnswered(call=name, target=target) if found := self.calls.get(name):
                found.target = target
            case _:
                pass

    def _read_judgement(self, seq: int, judgement: Judgement) -> None:
        for verdict in judgement.verdicts:
            own = ((row.gate, one) for row in judgement.rows for one in row.rulings if one.call == verdict.call)
            rulings = tuple(GateRuling(gate, one.standing.value, one.code) for gate, one in own)
            if known := self.calls.get(verdict.call):
                # What its program changed in its sandbox is judged once more.
                known.verdict, known.rulings = verdict, known.rulings + rulings
            else:
                self.calls[verdict.call] = ComparedCall(seq, self._names.get(verdict.call, ""), verdict, rulings)


def _match_calls(one: Sequence[ComparedCall], other: Sequence[ComparedCall]) -> tuple[list[CallPair], bool]:
    """Return the calls of both in order, matched by what they are; and whether some are left out."""
    same = 0
    while same < min(len(one), len(other)) and one[same].verdict.digest == other[same].verdict.digest:
        same += 1
    pairs = [CallPair(a, b) for a, b in zip(one[:same], other[:same], strict=True)]
    a, b = one[same : same + COMPARED], other[same : same + COMPARED]
    digests, others = ([call.verdict.digest for call in side] for side in (a, b))
    matcher = SequenceMatcher(None, digests, others, autojunk=False)
    for what, a_first, a_last, b_first, b_last in matcher.get_opcodes():
        if what == "equal":
            pairs += [CallPair(x, y) for x, y in zip(a[a_first:a_last], b[b_first:b_last], strict=True)]
        else:
            pairs += [CallPair(x, None) for x in a[a_first:a_last]]
            pairs += [CallPair(None, y) for y in b[b_first:b_last]]
    return pairs, max(len(one), len(other)) > same + COMPARED


def _compare_policies(one: Json, other: Json, a: str, b: str) -> dict[str, tuple[Json, Json]]:
    restored = []
    for values, name in ((one, a), (other, b)):
        try:
            restored.append(restore_policy(values))
        except (LookupError, TypeError, ValueError, InvalidJson) as error:
            why = f"the policy of session `{name}` cannot be read ({type(error).__name__})"
            raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None
    return {format_path(path): pair for path, pair in compare_policies(*restored).items()}
