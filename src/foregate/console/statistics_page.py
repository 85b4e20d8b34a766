"""The page of the statistics: what each gate asked and held, what that cost, and how often a person overrode it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from foregate.console.console import Console
from foregate.console.form import Query
from foregate.console.lists import TallySegment, lay_parts, scale_width
from foregate.schemas.codes import GATES
from foregate.telemetry.queries.audit_index import AuditIndex
from foregate.telemetry.queries.filters import DecisionFilter, SessionFilter
from foregate.telemetry.queries.reviews import count_by_gate
from foregate.telemetry.queries.statistics import GateStatistics, Statistics, count_prompts, count_selection


class GateRow(Struct, frozen=True):
    """A gate's figures, its bar, and what it cost: requests to a model or to a person, and seconds until the answers.

    `wrong` is the share of its labelled rulings that reviewers called too strict or too lax.
    """

    gate: str
    asked: int
    asked_person: int
    held: int
    denied: int
    overridden: int
    requests: str
    seconds: str
    wrong: str
    shadow: str
    width: int
    bar: tuple[TallySegment, ...]


class LabelRow(Struct, frozen=True):
    """How often reviewers said what of a gate's rulings; `wrong` is the share of those that are not unclear."""

    gate: str
    right: int
    too_strict: int
    too_lax: int
    unclear: int
    wrong: str


class Cost(Struct, frozen=True):
    """What the answers that a gate asked for cost; `requests` went to a model, or to a person."""

    requests: int
    seconds: float


async def show_statistics(console: Console, request: Request) -> Response:
    """Show the figures of all sessions, or of some days, one session or one folder."""
    query = Query(request.query_params)
    wanted = DecisionFilter(
        since=query.read_day("since"),
        until=query.read_day("until", end=True),
        sessions=query.list_words("session"),
        workspace=query.list_pattern("workspace"),
    )
    found = await console.index.ask(lambda index: count_selection(index, wanted))
    prompts = await console.index.ask(lambda index: count_prompts(index, wanted))
    reviews = await console.kept.read()
    sessions = await console.index.ask(lambda index: list_names(index, wanted)) if query.fields else None
    labels = list_labels(count_by_gate(reviews, sessions))
    return console.render(
        "statistics.html.j2",
        "statistics",
        follow=await console.follow_all(),
        query=query,
        tiles=list_tiles(found),
        gates=list_gates(found, labels),
        advice=[(who, cost.calls, cost.tokens, format_seconds(cost.seconds)) for who, cost in found.advice.items()],
        answers=list_answers(found),
        prompts=prompts,
        labels=labels,
        rules=sorted(found.rules.items(), key=lambda rule: (-rule[1], rule[0])),
    )


def list_names(index: AuditIndex, wanted: DecisionFilter) -> frozenset[str]:
    """Return the names of the sessions that are counted."""
    about = {name: getattr(wanted, name) for name in ("since", "until", "sessions", "workspace")}
    return frozenset(row.session for row in index.list_sessions(SessionFilter(**about)))


def list_tiles(found: Statistics) -> list[tuple[str, int]]:
    """Return the figures that come first."""
    names = ("sessions", "tasks", "turns", "calls", "held")
    return [("calls stopped" if name == "held" else name, int(getattr(found, name))) for name in names]


def list_gates(found: Statistics, labels: Iterable[LabelRow] = ()) -> list[GateRow]:
    """Return the figures of each gate that was asked, in the gates' order."""
    most = max((counts.asked for counts in found.gates.values()), default=0)
    wrong, costs = {row.gate: row.wrong for row in labels}, count_costs(found)
    return [
        _build_gate(gate, counts, most, costs.get(gate), wrong.get(gate, ""))
        for gate, counts in found.gates.items()
        if _is_used(counts)
    ]


def count_costs(found: Statistics) -> dict[str, Cost]:
    """Return what the gates cost that ask somebody: the plan its planner, the critique its critic, approval people."""
    asked = {"plan": found.advice["planner"], "critique": found.advice["critic"]}
    costs = {gate: Cost(advice.calls, advice.seconds) for gate, advice in asked.items()}
    waited = sum(seconds * count for seconds, count in found.waited.items())
    return {**costs, "approval": Cost(found.approvals["asked"], waited)}


def format_seconds(seconds: float) -> str:
    """Return seconds for a table: a tenth below ten, whole ones above."""
    return f"{seconds:,.1f} s" if 0 < seconds < 10 else f"{seconds:,.0f} s"


def _is_used(counts: GateStatistics) -> bool:
    return bool(counts.asked or counts.shadow_asked or counts.overridden)


def _build_gate(gate: str, counts: GateStatistics, most: int, cost: Cost | None, wrong: str) -> GateRow:
    fired = {"ask": counts.asked_person, "hold": counts.held, "deny": counts.denied}
    used = cost is not None and cost.requests
    return GateRow(
        gate=gate,
        asked=counts.asked,
        asked_person=counts.asked_person,
        held=counts.held,
        denied=counts.denied,
        overridden=counts.overridden,
        requests=f"{cost.requests:,}" if cost is not None and used else "",
        seconds=format_seconds(cost.seconds) if cost is not None and used else "",
        wrong=wrong,
        shadow=f"{counts.shadow_fired} of {counts.shadow_asked}" if counts.shadow_asked else "",
        width=scale_width(counts.asked, most),
        bar=tuple(lay_parts(fired, most)),
    )


def list_labels(counts: Mapping[str, Mapping[str, int]]) -> list[LabelRow]:
    """Return the labels of each gate, in the gates' order, those of wrong rulings laid out as a bar."""
    return [_build_labels(gate, counts[gate]) for gate in (*GATES, *sorted(set(counts) - {*GATES})) if gate in counts]


def _build_labels(gate: str, given: Mapping[str, int]) -> LabelRow:
    wrong, known = given["too strict"] + given["too lax"], sum(given.values()) - given["unclear"]
    share = f"{wrong} of {known}, {round(100 * wrong / known)} %" if known else "nobody could tell"
    return LabelRow(gate, given["right"], given["too strict"], given["too lax"], given["unclear"], share)


def list_answers(found: Statistics) -> list[tuple[str, str]]:
    """Return what was asked of people, and how they answered."""
    answers, held = found.approvals, found.questions
    rows = [("asked for a yes", str(answers["asked"])), ("answered", str(answers["answered"]))]
    if answers["answered"]:
        rows.append(("said yes", f"{answers['yes']}, {round(100 * answers['yes'] / answers['answered'])} %"))
    if (wait := found.median_wait) is not None:
        rows.append(("median wait", f"{wait} s"))
    if held["asked"]:
        named = ", ".join(f"{held[choice]} {word}" for choice, word in _HELD if held[choice])
        rows.append(("asked about a call held again", f"{held['asked']}{f': {named}' if named else ''}"))
    return rows


_HELD = (("anyway", 'with "do it anyway"'), ("stop", "stopped"), ("more", "with more words"))
