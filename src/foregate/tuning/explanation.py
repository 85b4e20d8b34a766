"""One decision explained: what was asked, the ruling, its numbers, what would have changed it, and what followed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from foregate.evidence.state.recorded_turns import (
    JUDGING,
    KINDS,
    LAYING,
    CallHistoryEntry,
    EventWindow,
    InForce,
    RecordedTurn,
    find_body,
    find_event,
    read_call_history,
    read_judged_turns,
)
from foregate.gates.replay.counterfactuals import NO_CALL, Counterfactual, CounterfactualSearch
from foregate.gates.support.questions import find_first_origin
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy, describe_origin, restore_policy
from foregate.policy.source.strict_yaml import format_path
from foregate.policy.source.values import list_values
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, LogError, UsageError
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.judgement import Remedy, Standing
from foregate.schemas.protocols import Readable
from foregate.schemas.sources import explain_mandate
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import CallFacts, ToolCall
from foregate.schemas.tool_spec import build_catalogue
from foregate.telemetry.queries.decisions import DecisionPoint, read_decisions

_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, InvalidJson)


class ExplainedCall(Struct, frozen=True):
    """The call a decision is about: as judged, what it would do, and who said its target first, at which event.

    `more` counts the other calls of the response the gate was asked about. `sent` are the arguments as the model sent
    them where results of earlier steps were put into them, behind the tool's name where it sent another; "" for the
    same.
    """

    tool: str = ""
    target: str = ""
    arguments: str = ""
    effect: str = ""
    said_first: str = ""
    said_at: int = 0
    more: int = 0
    sent: str = ""


class Beside(Struct, frozen=True):
    """Another call of the same response that the gate did not just let pass."""

    tool: str
    target: str
    standing: str
    code: str
    message: str


class Measured(Struct, frozen=True):
    """A number of the ruling against its bound, the bound's policy key, and where that value comes from."""

    name: str
    value: int
    bound: int
    key: str
    origin: str


class Explanation(Struct, frozen=True):
    """Everything a person asks about one decision. `standing` is the ruling's, `mode` what the policy says of the gate,
    `rules` the origins of its rules, `mandate` who asked for the call, "" where it wants nobody."""

    session: str
    point: DecisionPoint
    standing: str = ""
    asked: ExplainedCall = ExplainedCall()
    mandate: str = ""
    numbers: tuple[Measured, ...] = ()
    mode: str = ""
    mode_from: str = ""
    rules: Mapping[str, str] = {}
    remedy: Remedy | None = None
    beside: tuple[Beside, ...] = ()
    levers: tuple[Counterfactual, ...] = ()
    next: tuple[CallHistoryEntry, ...] = ()

    def to_json(self) -> Json:
        """Return the explanation as JSON values, every column present; `by` only where somebody is known to answer, and
        `mandate` only where the log says who asked."""
        found: dict[str, Json] = to_builtins(self)
        if not self.mandate:
            del found["mandate"]
        entries = [
            {key: value for key, value in to_builtins(entry).items() if value is not None}
            | ({"by": asdict(entry.by)} if entry.by is not None else {})
            for entry in self.next
        ]
        return {**found, "point": self.point.to_json(), "next": entries}


def explain(log: Readable, session: str, seq: int, gate: str, call: str = "") -> Explanation:
    """Return the explanation of a decision, of its ruling on `call` where one is named by its id.

    Raises UsageError for a missing one, LogError for a damaged log.
    """
    event = find_event(log, session, seq)
    if event is None or event.kind != "turn_judged":
        lists = f"`foregate audit show {session}` lists decisions"
        raise UsageError(f"event {seq} of session `{session}` is no judged turn; {lists}")
    points = {point.gate: point for point in read_decisions([event])}
    if gate not in points:
        raise UsageError(f"`{gate}` was not asked about event {seq}; asked were {', '.join(points) or 'none'}")
    try:
        return _build_explanation(log, session, event, points[gate], call)
    except _UNREADABLE as error:
        why = f"event {seq} of session `{session}` cannot be explained ({type(error).__name__}: {error})"
        raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None


def _build_explanation(log: Readable, session: str, event: Event, point: DecisionPoint, wanted: str) -> Explanation:
    turn = read_turn(log, session, event)
    values, tools = turn.in_force.require()
    policy, catalogue = restore_policy(values), build_catalogue(tools)
    judgement, rows = turn.judgement, turn.judgement.rows
    decision = next(row for row in rows if row.gate == point.gate)
    call = choose_call(turn, point, wanted)
    after = log.events(session, after=turn.turn.response - 1, kinds=KINDS)
    mine, default = (_index_by_key(one) for one in (policy, default_policy()))

    def describe(key: str) -> str:
        return describe_origin(key, turn.in_force.layers, mine.get(key) == default.get(key))

    ruled = CounterfactualSearch(turn.turn, rows, decision, call or NO_CALL, policy, catalogue)
    mode = getattr(getattr(policy, point.gate, None), "mode", "")
    found = Explanation(
        session,
        point,
        numbers=tuple(Measured(n.name, n.value, n.bound, n.path, describe(n.path)) for n in point.numbers),
        mode=mode,
        mode_from=describe(f"{point.gate}.mode") if mode else "",
        levers=tuple(ruled.find_counterfactuals()),
        next=tuple(read_call_history(after, event.seq, point.gate, call)),
    )
    if call is None:
        return found
    verdict, asked = judgement.find_verdict(call.id), _describe_call(ruled.facts[call.id], call)
    sent = _find_sent_arguments(log, session, turn, call)
    return replace(
        found,
        point=_narrow_point(point, call),
        mandate=explain_mandate(strict_json.dump(told)) if (told := judgement.mandate.get(call.id)) else "",
        standing=next((r.standing.value for r in point.rulings if r.call == call.id), "allow"),
        asked=replace(asked, more=len(turn.turn.calls) - 1, sent=sent),
        rules={rule: describe(f"rules.list.{rule}") for rule in point.rules},
        remedy=verdict.ruling.remedy if verdict.gate == point.gate else None,
        beside=tuple(_find_other_calls(ruled, point, call)),
    )


def _find_other_calls(ruled: CounterfactualSearch, point: DecisionPoint, call: ToolCall) -> Iterator[Beside]:
    """Yield the gate's rulings on the other calls, and what its question held along with them."""
    rulings = {ruling.call: ruling for ruling in point.rulings}
    for other in ruled.turn.calls:
        if other.id in rulings and other.id != call.id:
            ruling, target = rulings[other.id], ruled.facts[other.id].target
            yield Beside(other.name[:128], target, ruling.standing.value, ruling.code, ruling.message)


def _narrow_point(point: DecisionPoint, call: ToolCall) -> DecisionPoint:
    """Return a decision as it concerns one call, where that was ruled on otherwise than the call that gave the code."""
    ruling = next((one for one in point.rulings if one.call == call.id), None)
    if ruling is None or ruling.code == point.code:
        return point
    return replace(point, code=ruling.code, summary=ruling.message)


def read_turn(log: Readable, session: str, event: Event) -> RecordedTurn:
    """Return the turn that an event judged, with what was in force; raise LookupError where an event is missing."""
    start = InForce.of(log.events(session, until=event.seq, kinds=LAYING))
    near = EventWindow(log, session)
    events = log.events(session, after=event.seq - 1, until=event.seq, kinds=JUDGING)
    for turn in read_judged_turns(events, near, start):
        return turn
    raise LookupError(f"event {event.seq} is not there")


def choose_call(turn: RecordedTurn, point: DecisionPoint, wanted: str = "") -> ToolCall | None:
    """Return the call a decision is about: that of the id `wanted`, or the first of its strictest rulings, else the
    first that still stood; raise UsageError for an id the turn has no call of."""
    calls = {call.id: call for call in turn.turn.calls}
    if wanted:
        if wanted not in calls:
            raise UsageError(f"event {turn.seq} judged no call `{wanted[:80]}`; leave the call out")
        return calls[wanted]
    for decision in turn.judgement.rows:
        if decision.gate == point.gate:
            break
        held = [r.call for r in decision.rulings if r.standing.rank >= Standing.HOLD.rank and decision.mode != "shadow"]
        for call in held:
            calls.pop(call, None)
    order = sorted(point.rulings, key=lambda ruling: -ruling.standing.rank)
    return next((calls[ruling.call] for ruling in order if ruling.call in calls), next(iter(calls.values()), None))


def _describe_call(facts: CallFacts, call: ToolCall) -> ExplainedCall:
    origin = find_first_origin(facts)
    named = {resource.id for resource in facts.resources}
    at = next((atom.seq for atom in facts.survey.atoms if atom.text in named and atom.origin.value == origin), 0)
    return ExplainedCall(call.name[:128], facts.target, call.raw, facts.effect.value, origin, at)


def _find_sent_arguments(log: Readable, session: str, turn: RecordedTurn, call: ToolCall) -> str:
    """Return the arguments of a call as sent, where they were renamed or results were put in before it was judged."""
    if call.sent is not None:
        return f"{call.sent.name[:128]} {call.sent.arguments}"
    if turn.turn.actor != "model" or not turn.turn.cause:
        return ""
    program = find_body(turn.turn.cause, ModelResponded, EventWindow(log, session)).program
    calls = program.calls if program is not None else ()
    sent = next((recorded.arguments for recorded in calls if recorded.id == call.id), "")
    return sent if sent != call.raw else ""


def _index_by_key(policy: Policy) -> dict[str, Json]:
    return {format_path(path): value for path, value in list_values(policy).items()}
