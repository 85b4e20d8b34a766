"""The pages that list: sessions, and decisions of all of them, by what is asked for in the address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from foregate.console.console import Console
from foregate.console.form import Query
from foregate.schemas.codes import GATES
from foregate.schemas.judgement import Severity, Standing
from foregate.telemetry.queries.audit_index import AuditIndex
from foregate.telemetry.queries.filters import DecisionFilter, SessionFilter
from foregate.telemetry.queries.rows import DecisionRow, SessionRow
from foregate.views.pages.texts import STATE, describe_state
from foregate.views.terminal.audit_lists import DECISIONS, SESSIONS
from foregate.views.terminal.exit_codes import STATUS

WIDTH = 360
"""Units of a bar's width; the page stretches it."""
_LEAST = 8
PAGE = 100
"""Rows of a page."""
STATES = ("open", *STATUS)
STANDINGS = tuple(standing.value for standing in Standing)
ALL_GATES = (*GATES, "postlude")
ORIGINS = ("user", "workspace", "external", "nobody")
FURTHER = ("code", "target", "rule", "key", "policy", "approver", "origin", "risk", "who", "session")
"""Fields of the list of decisions that are shown where one of them is used."""


class TallySegment(Struct, frozen=True):
    """A part of a bar: where it begins, how wide it is, and what it stands for."""

    x: int
    width: int
    kind: str


def lay_segments(counts: Mapping[str, int]) -> Iterator[TallySegment]:
    """Yield the parts of a bar that stand for counts, in their order; those of nothing are left out.

    >>> [(one.x, one.width, one.kind) for one in lay_segments({"allow": 3, "ask": 0, "hold": 1})]
    [(0, 270, 'allow'), (270, 90, 'hold')]
    """
    there = {kind: count for kind, count in counts.items() if count > 0}
    whole = sum(there.values())
    spare = WIDTH - _LEAST * len(there)
    x = seen = 0
    for number, (kind, count) in enumerate(there.items(), start=1):
        seen += count
        end = WIDTH if number == len(there) else _LEAST * number + spare * seen // whole
        yield TallySegment(x, end - x, kind)
        x = end


def lay_parts(counts: Mapping[str, int], most: int) -> Iterator[TallySegment]:
    """Yield parts one behind the other in a bar whose whole width stands for `most`; those of nothing are left out.

    >>> [(one.x, one.width, one.kind) for one in lay_parts({"ask": 10, "hold": 0, "deny": 20}, 120)]
    [(0, 30, 'ask'), (30, 60, 'deny')]
    """
    x = 0
    for kind, count in counts.items():
        if width := scale_width(count, most):
            yield TallySegment(x, width, kind)
            x += width


def scale_width(count: int, most: int, width: int = WIDTH) -> int:
    """Return how wide a bar is that stands for a count where the widest stands for `most`; one at least for any."""
    return max(2, width * count // most) if count > 0 and most > 0 else 0


class ListedSession(Struct, frozen=True):
    """A session in the list: `tone` and `state` say how it stands, `strip` how its calls were judged."""

    row: SessionRow
    tone: str
    state: str
    strip: tuple[TallySegment, ...]
    says: str


async def show_sessions(console: Console, request: Request) -> Response:
    """Show the sessions, newest first."""
    query = Query(request.query_params)
    wanted = SessionFilter(
        state=query.choose("state", STATES),
        since=query.read_day("since"),
        until=query.read_day("until", end=True),
        text=query.list_words("text"),
        who=query.list_pattern("who"),
        workspace=query.list_pattern("workspace"),
        waiting=bool(query.get("waiting")),
    )
    start = query.read_number("from") or 0
    rows = await console.index.ask(lambda index: index.list_sessions(wanted, limit=start + PAGE + 1))
    later = query.build_address("/sessions", **{"from": start + PAGE}) if len(rows) > start + PAGE else ""
    sessions = [build_session(row) for row in rows[start : start + PAGE]]
    states = [(state, describe_state(state)) for state in STATES]
    about: dict[str, Any] = {"query": query, "states": states, "later": later, "describe_row": SESSIONS.describe_row}
    follow = await console.follow_all()
    return console.render("sessions.html.j2", "sessions", follow=follow, sessions=sessions, start=start, **about)


def build_session(row: SessionRow) -> ListedSession:
    """Return a session as the list shows it."""
    counts = {"allow": row.allowed, "hold": row.held, "deny": row.denied}
    words = (("allow", "let pass"), ("hold", "held"), ("deny", "denied"))
    says = ", ".join(f"{counts[tone]} {word}" for tone, word in words if counts[tone]) or "no call was judged"
    says += f"; a person was asked about {row.asked_about}" if row.asked_about else ""
    tone = STATE.get(row.state, "quiet")
    return ListedSession(row, tone, describe_state(row.state), tuple(lay_segments(counts)), says)


async def show_decisions(console: Console, request: Request) -> Response:
    """Show decisions of all sessions, newest first; what only passed is left out unless it is asked for."""
    query = Query(request.query_params)
    choices = {"gate": ALL_GATES, "standing": STANDINGS, "severity": get_args(Severity), "origin": ORIGINS}
    fields: dict[str, Any] = {name: query.choose(name, known) for name, known in choices.items()}
    fields |= {name: query.list_words(name) for name in ("code", "policy", "text")}
    fields |= {name: query.list_pattern(name) for name in ("target", "rule", "key", "approver", "who", "tool")}
    wanted = DecisionFilter(
        **fields,
        risk=(risk, 1000) if (risk := query.read_number("risk")) is not None else None,
        since=query.read_day("since"),
        until=query.read_day("until", end=True),
        sessions=query.list_words("session"),
        passed=bool(query.get("passed")) or fields["standing"] == ("allow",),
    )
    after = query.read_number("after")

    def find(index: AuditIndex) -> list[DecisionRow]:
        return index.find_decisions(wanted, after=after, limit=PAGE + 1)

    rows = await console.index.ask(find)
    later = query.build_address("/decisions", after=rows[PAGE - 1].id) if len(rows) > PAGE else ""
    about: dict[str, Any] = {"query": query, "gates": ALL_GATES, "standings": STANDINGS, "later": later}
    about |= {"describe_row": DECISIONS.describe_row, "origins": ORIGINS, "is_open": any(map(query.get, FURTHER))}
    follow = await console.follow_all() if after is None else ""
    return console.render("decisions.html.j2", "decisions", follow=follow, rows=rows[:PAGE], **about)
