"""Two sessions side by side: the calls they share, and where judgements, policies and results differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from msgspec import Struct, field

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
from foregate.schemas.judgement import Judgement
from foregate.schemas.protocols import Readable
from foregate.schemas.strict_json import Json

_KINDS: tuple[Kind, ...] = (
    *("session_started", "task_started", "user_message", "model_response", "turn_judged"),
    *("tool_finished", "call_answered", "task_ended"),
)
COMPARED = 4000
"""Calls of each session that are matched, after those that both begin with."""


class GateRuling(Struct, frozen=True):
    """What a gate said about a call."""

    gate: str
    standing: str
    code: str


class ComparedCall(Struct):
    """A call of one session: where it was judged and how, and its result. `ok` is None where it did not run."""

    seq: int
    call: str
    tool: str
    digest: str
    standing: str
    gate: str
    code: str
    target: str = ""
    rulings: tuple[GateRuling, ...] = ()
    ok: bool | None = None
    exit_code: int | None = None
    content: str = ""

    @property
    def verdict(self) -> tuple[str, str, str]:
        """How the call was judged in the end."""
        return self.standing, self.gate, self.code

    @property
    def result(self) -> tuple[bool | None, int | None, str]:
        """How it ended."""
        return self.ok, self.exit_code, self.content

    def to_json(self) -> dict[str, Json]:
        """Return the call as JSON values, of its result only the hash."""
        found = strict_json.dump(self, exclude=frozenset({"content", "rulings"}))
        return found | {"result": strict_json.sha256(self.content.encode("utf-8", "replace")) if self.content else ""}


class ComparedTask(Struct):
    """A task of one session: what was asked, and how it ended."""

    asked: str = ""
    status: str = "open"


class _DiffSide(Struct):
    """One session, read."""

    tasks: list[ComparedTask] = field(default_factory=list)
    calls: list[ComparedCall] = field(default_factory=list)
    policy: Json = None


class CallPair(Struct, frozen=True):
    """A call of both sessions, or of one of them: None where the other has no such call there."""

    a: ComparedCall | None
    b: ComparedCall | None

    @property
    def is_judged_alike(self) -> bool:
        """Whether both have the call, and every gate said the same about it."""
        return self.a is not None and self.b is not None and self.a.rulings == self.b.rulings and self.has_same_verdict

    @property
    def has_same_verdict(self) -> bool:
        """Whether both have the call, and it was judged the same way in the end."""
        return self.a is not None and self.b is not None and self.a.verdict == self.b.verdict

    @property
    def has_other_result(self) -> bool:
        """Whether the call ran in both with different outcomes."""
        both = self.a is not None and self.b is not None and self.a.ok is not None and self.b.ok is not None
        return both and self.a is not None and self.b is not None and self.a.result != self.b.result

    def find_gates(self) -> tuple[GateRuling | None, GateRuling | None]:
        """Return what the first gate said that said something else about the call, in each session."""
        if self.a is not None and self.b is not None:
            for one, other in zip_longest(self.a.rulings, self.b.rulings):
                if one != other:
                    return one, other
        return None, None


class SessionDiff(Struct, frozen=True):
    """What two sessions share and where they differ; `first` is the place of the first call judged differently in
    `calls`, None where all are judged alike, `cut` says that not all calls were matched."""

    a: str
    b: str
    tasks: tuple[tuple[ComparedTask | None, ComparedTask | None], ...]
    calls: tuple[CallPair, ...]
    policy: dict[str, tuple[Json, Json]]
    first: int | None
    cut: bool = False

    def to_json(self) -> Json:
        """Return the difference as JSON values; of `policy` each key with both values."""
        calls: list[Json] = []
        for pair in self.calls:
            ruling, other = pair.find_gates()
            first = ruling or other
            told: dict[str, Json] = {"a": _dump_call(pair.a), "b": _dump_call(pair.b)}
            told |= {"same_verdict": pair.has_same_verdict, "same_result": not pair.has_other_result}
            calls.append(told | {"first_gate": first.gate if first is not None else None})
        tasks: list[Json] = [[None if side is None else strict_json.dump(side) for side in pair] for pair in self.tasks]
        policy: dict[str, Json] = {key: list(values) for key, values in self.policy.items()}
        found: dict[str, Json] = {"a": self.a, "b": self.b, "tasks": tasks, "calls": calls, "policy": policy}
        return found | {"first_difference": self.first, "cut": self.cut}


def _dump_call(call: ComparedCall | None) -> Json:
    return None if call is None else call.to_json()


def compare_sessions(log: Readable, a: str, b: str) -> SessionDiff:
    """Return where two sessions differ; raise LogError for one that cannot be read."""
    sides = [_read_side(log.events(name, kinds=_KINDS)) for name in (a, b)]
    one, other = sides
    pairs, cut = _match_calls(one.calls, other.calls)
    differing = (place for place, pair in enumerate(pairs) if pair.a and pair.b and not pair.is_judged_alike)
    policy = _compare_policies(one.policy, other.policy, a, b)
    tasks = tuple(zip_longest(one.tasks, other.tasks))
    return SessionDiff(a, b, tasks, tuple(pairs), policy, next(differing, None), cut)


def _read_side(events: Iterator[Event]) -> _DiffSide:
    side, names = _DiffSide(), dict[str, str]()
    calls: dict[str, ComparedCall] = {}
    for event in events:
        match event.body:
            case SessionStarted(policy=policy):
                side.policy = policy
            case TaskStarted():
                side.tasks.append(ComparedTask())
            case UserMessage(text=text) if side.tasks and not side.tasks[-1].asked:
                side.tasks[-1].asked = text
            case UserMessage(text=text) if not side.tasks or side.tasks[-1].status != "open":
                side.tasks.append(ComparedTask(text))
            case TaskEnded(status=status) if side.tasks:
                side.tasks[-1].status = status
            case ModelResponded() as body:
                names |= {recorded.id: recorded.name[:128] for recorded in body.calls}
            case TurnJudged(early=False) as body if body.turn.actor in ("model", "sandbox"):
                for call in _list_calls(event.seq, body.judgement, names):
                    if (known := calls.get(call.call)) is None:
                        calls[call.call] = call
                        side.calls.append(call)
                    else:
                        # What its program changed in its sandbox is judged once more.
                        known.standing, known.gate, known.code = call.verdict
                        known.rulings += call.rulings
            case ToolFinished(early=False) as body if found := calls.get(body.call):
                found.target, found.ok, found.exit_code, found.content = (
                    body.target,
                    body.ok,
                    body.exit_code,
                    body.content,
                )
            case CallAnswered(call=name, target=target) if found := calls.get(name):
                found.target = target
            case _:
                pass
    return side


def _list_calls(seq: int, judgement: Judgement, names: dict[str, str]) -> Iterator[ComparedCall]:
    for verdict in judgement.verdicts:
        rulings = []
        for row in judgement.rows:
            own = next((ruling for ruling in row.rulings if ruling.call == verdict.call), None)
            if own is not None:
                rulings.append(GateRuling(row.gate, own.standing.value, own.code))
        standing, code = verdict.standing.value, verdict.ruling.code
        name = names.get(verdict.call, "")
        yield ComparedCall(
            seq, verdict.call, name, verdict.digest, standing, verdict.gate, code, rulings=tuple(rulings)
        )


def _match_calls(one: Sequence[ComparedCall], other: Sequence[ComparedCall]) -> tuple[list[CallPair], bool]:
    """Return the calls of both in order, matched by what they are; and whether some are left out."""
    same = 0
    while same < min(len(one), len(other)) and one[same].digest == other[same].digest:
        same += 1
    pairs = [CallPair(a, b) for a, b in zip(one[:same], other[:same], strict=True)]
    a, b = one[same : same + COMPARED], other[same : same + COMPARED]
    matcher = SequenceMatcher(None, [call.digest for call in a], [call.digest for call in b], autojunk=False)
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
