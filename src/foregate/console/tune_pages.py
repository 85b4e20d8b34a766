"""The pages of tuning: keys that have a dial, the dial of one, the calls that turn, and the change as a file."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from markupsafe import Markup
from msgspec import Struct, json
from starlette.requests import Request
from starlette.responses import Response

from foregate.assembly.choices import find_policy_file
from foregate.console.console import LINKS, Console
from foregate.console.form import Query
from foregate.console.review_pages import KEYS
from foregate.evidence.state.recorded_turns import EventWindow, rebuild_turn
from foregate.gates.replay.assumption import find_domain
from foregate.gates.replay.sweep_turn import find_numeric_key
from foregate.policy.source.comments import explain_key
from foregate.policy.source.edit import TextChange, format_suggestion
from foregate.policy.source.load import LoadedPolicy, load_policy_layers
from foregate.policy.source.strict_yaml import Path, format_path
from foregate.policy.source.values import list_values
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import TurnJudged
from foregate.schemas.review import RuledCall
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.reviews import Reviews
from foregate.tuning.cube import CubeView, TurnedCall
from foregate.tuning.pieces import UNREADABLE
from foregate.tuning.sweep import GateCounts, SweepPoint, SweepResult
from foregate.tuning.turn_figures import read_end
from foregate.views.terminal.event_rows import name_call

TUNING, PATCH = "/policy/tune", "/policy/tune/change.yaml"


class TurnedRow(Struct, frozen=True):
    """A call: what it is about, its arguments, what became of it, what would now, where its decision is shown, and the
    reviewer's label."""

    ruled: RuledCall
    about: str
    arguments: str
    then: str
    would: str
    time: str
    link: str
    label: str


def list_rows(log: SqliteLog, reviews: Reviews, reviewer: str, calls: Iterable[TurnedCall]) -> Iterator[TurnedRow]:
    """Yield a row for each call that the log still tells of."""
    for one in calls:
        try:
            row = _build_row(log, reviews, reviewer, one)
        except (*UNREADABLE, LogError):
            continue
        if row is not None:
            yield row


def _build_row(log: SqliteLog, reviews: Reviews, reviewer: str, one: TurnedCall) -> TurnedRow | None:
    near = EventWindow(log, one.session)
    event = near(one.seq)
    if not isinstance(event.body, TurnJudged):
        return None
    judgement, end = event.body.judgement, read_end(event.body, near)
    asked = any(one.call in question.calls for question in end.asked if question.who == "person")
    verdict = judgement.find_verdict(one.call)
    gates = [decision.gate for decision in judgement.decisions]
    gate = next(name for name in (one.gate, verdict.gate, *gates) if name in gates)
    ruled = RuledCall(one.session, one.seq, gate, one.call, event.hash, verdict.digest)
    held = next((name for call, name in end.stopped if call == one.call), "")
    then = f"held by {held}" if held else "asked about, and ran" if asked else "ran"
    given = reviews.find_label(ruled, reviewer)
    turn = rebuild_turn(event.body.turn, near)
    call = next(call for call in turn.calls if call.id == one.call)
    target = next((survey.target for survey in turn.surveys if survey.call == one.call), "")
    return TurnedRow(
        ruled,
        name_call(call.name, target),
        call.raw,
        then,
        describe_turn(one),
        event.time,
        LINKS.decision(one.session, one.seq, gate, one.call),
        given.body.label if given is not None else "",
    )


def describe_turn(one: TurnedCall) -> str:
    """Return what would become of a call that turns, compared with the value in force."""
    parts = []
    if one.held:
        parts.append(f"would be held by {one.gate}" if one.held > 0 else "would not be held")
    if one.asked:
        parts.append("would be asked about" if one.asked > 0 else "would not be asked about")
    return " and ".join(parts)


WIDTH, HEIGHT = 800, 96
"""Units of the histogram."""
PAGE = 50
"""Calls that turn that are shown at a time."""
_BARS = 100
_ROOM = 4
"""How many times as wide as what turns anything a scale may be before it is cut."""


class DialBar(Struct, frozen=True):
    """A bar of the histogram, and what it says."""

    x: int
    y: int
    width: int
    height: int
    says: str


class FigureRow(Struct, frozen=True):
    """A figure at the value in force and at another; `number` is its place among the figures of a point."""

    says: str
    number: int
    now: int
    there: int

    @property
    def change(self) -> str:
        """The difference, "" for none."""
        return f"{self.there - self.now:+,}".replace("-", "\u2212") if self.there != self.now else ""


class Dial(Struct, frozen=True):
    """A key with its value in force (`now`), another `value`, and the scale from `low` to `end`.

    `before` and `after` are the nearest values at which anything turns, or `value` itself; `turned` are calls that come
    out otherwise at `value`: of `turned_count` those from place `start` on.
    """

    key: str
    now: int
    value: int
    low: int
    end: int
    high: int
    found: SweepResult
    bars: tuple[DialBar, ...]
    rows: tuple[FigureRow, ...]
    before: int
    after: int
    turned: tuple[TurnedRow, ...]
    turned_count: int
    start: int
    data: Markup

    @property
    def newer(self) -> int | None:
        """The place where the page of calls before this one begins, None for no such page."""
        return max(0, self.start - PAGE) if self.start else None

    @property
    def older(self) -> int | None:
        """The place where the next page of calls begins, None for no such page."""
        following = self.start + PAGE
        return following if following < self.turned_count else None

    def place(self, value: int) -> int:
        """Return where a value stands on the scale of the histogram."""
        return WIDTH * (min(max(value, self.low), self.end) - self.low) // max(1, self.end - self.low)


def build_dial(
    view: CubeView, log: SqliteLog, reviews: Reviews, reviewer: str, key: Path, now: int, value: int | None, start: int
) -> Dial:
    """Return the dial of a key; without a value at the one in force. `start` is a place among the calls that turn."""
    low, high = find_domain(key)
    value = now if value is None else min(max(value, low), high)
    found, name = view.sweep(log, reviews), ".".join(map(str, key))
    turning = {at: count for at, count in view.count_turning().items() if at > low}
    end = find_end(low, high, [now, value, *turning])
    calls, count = view.list_turned(now, value, PAGE, start)
    # Somebody has the address of a longer list.
    if start and not calls:
        start = 0
        calls, count = view.list_turned(now, value, PAGE)
    gates = list_gates(found.points)
    places = sorted({point.low[0] for point in found.points} - {low})
    at = bisect_right(places, value)
    return Dial(
        name,
        now,
        value,
        low,
        end,
        high,
        found,
        tuple(build_bars(turning, low, end)),
        tuple(list_figures(found, gates, now, value)),
        places[at - 1] - 1 if at else value,
        places[at] if at < len(places) else value,
        tuple(list_rows(log, reviews, reviewer, calls)),
        count,
        start,
        write_data(found, gates, now),
    )


def find_end(low: int, high: int, values: Sequence[int]) -> int:
    """Return where a scale ends: at the largest value, unless that is far beyond everything that turns anything."""
    most = max(values)
    return high if high - low <= _ROOM * (most - low) or high - low <= 1000 else min(high, most + (most - low) // 4 + 1)


def build_bars(turning: dict[int, int], low: int, end: int) -> Iterator[DialBar]:
    """Yield the bars that say how many calls turn between two values."""
    step = max(1, -(-(end - low + 1) // _BARS))
    counts: dict[int, int] = {}
    for at, count in turning.items():
        counts[(at - low) // step] = counts.get((at - low) // step, 0) + count
    most, width = max(counts.values(), default=1), max(2, WIDTH * step // max(1, end - low + 1))
    for number, count in sorted(counts.items()):
        first, last, height = (
            low + number * step,
            min(end, low + (number + 1) * step - 1),
            max(3, HEIGHT * count // most),
        )
        where = f"at {first}" if first == last else f"from {first} to {last}"
        says = f"{count} {'call turns' if count == 1 else 'calls turn'} {where}"
        yield DialBar(
            min(WIDTH - width, WIDTH * (first - low) // max(1, end - low)), HEIGHT - height, width, height, says
        )


def list_gates(points: Sequence[SweepPoint]) -> list[str]:
    """Return the gates that come to anything at any value, in the order of their names."""
    return sorted({one.gate for point in points for one in point.gates})


def find_point(points: Sequence[SweepPoint], value: int) -> SweepPoint:
    """Return the point a value belongs to."""
    return points[bisect_right(points, value, key=lambda point: point.low[0]) - 1]


def flatten_point(point: SweepPoint, gates: Sequence[str]) -> list[int]:
    """Return the figures of a point one after the other: of all gates, and then of each."""
    known = {one.gate: one for one in point.gates}
    each = (known.get(gate, GateCounts(gate)) for gate in gates)
    return [
        point.held,
        point.prompts,
        point.requests,
        point.agreed,
        *(n for one in each for n in (one.held, one.prompts, one.requests)),
    ]


def list_figures(found: SweepResult, gates: Sequence[str], now: int, value: int) -> Iterator[FigureRow]:
    """Yield the figures that are not 0 at every value."""
    if not found.points:
        return
    before, there = (flatten_point(find_point(found.points, one), gates) for one in (now, value))
    whats = ("held or denied", "prompts", "requests for advice")
    says = ["calls held or denied", "prompts", "requests for advice", "labels that are met"]
    says += [f"{gate}: {what}" for gate in gates for what in whats]
    every = [flatten_point(point, gates) for point in found.points]
    for number, words in enumerate(says):
        wanted = number < 3 or any(point[number] for point in every) or (number == 3 and found.labels > 0)
        if wanted:
            yield FigureRow(words, number, before[number], there[number])


def write_data(found: SweepResult, gates: Sequence[str], now: int) -> Markup:
    """Return the points as JSON for the page's own script: nothing in it can end the element it stands in."""
    points: list[Any] = [[point.low[0], flatten_point(point, gates)] for point in found.points]
    assert all(one[0] < two[0] for one, two in pairwise(points))
    text = json.encode({"now": now, "points": points}).decode()
    return Markup(text.replace("<", "\\u003c"))  # noqa: S704 - numbers and fixed names, and no `<`


class TunableKey(Struct, frozen=True):
    """A key that has a dial: its value in force, where that comes from, and what it does."""

    name: str
    value: int
    origin: str
    does: str


async def show_tuning(console: Console, request: Request) -> Response:
    """Show the dial of a key, or without one all keys that have a dial."""
    query = Query(request.query_params)
    loaded = await asyncio.to_thread(load_policy_layers, find_policy_file(None, console.environ), console.workspace)
    if not query.get("key"):
        return console.render("tuning.html.j2", "policy", keys=list_keys(loaded), tuning=TUNING)
    path, now = find_numeric_key(query.get("key"), loaded.policy)
    about: dict[str, Any] = {"key": format_path(path), "does": explain_key(path), "tuning": TUNING}
    about["origin"] = loaded.provenance.get(format_path(path), "default")
    dial = await find_dial(console, path, now, query.read_number("value"), query.read_number("from") or 0)
    if dial is None:
        worker, again = console.tuning, query.build_address(TUNING)
        return console.render("tuning_wait.html.j2", "policy", again=again, done=worker.done, all=worker.all, **about)
    given = Query({"key": dial.key, "value": str(dial.value)})
    about |= {"dial": dial, "query": given, "labels": KEYS, "time": int(time.time()), "size": (WIDTH, HEIGHT)}
    return console.render("dial.html.j2", "policy", patch=given.build_address(PATCH), **about)


async def find_dial(console: Console, path: Path, now: int, value: int | None, start: int = 0) -> Dial | None:
    """Return the dial of a key, with the calls that turn from a place on; None while what it needs is worked out."""
    reviews, reviewer = await console.kept.read(), console.me.user
    key = format_path(path)
    wanted = (console.log, reviews, reviewer, path, now, value, start)
    return await console.tuning.ask(key, f"{key} {value} {start}", lambda view: build_dial(view, *wanted))


async def send_patch(console: Console, request: Request) -> Response:
    """Send a change of one key as a part of a policy, with what it comes to in the comment above it."""
    query = Query(request.query_params)
    loaded = await asyncio.to_thread(load_policy_layers, find_policy_file(None, console.environ), console.workspace)
    path, now = find_numeric_key(query.get("key"), loaded.policy)
    value = query.read_number("value")
    low, high = find_domain(path)
    if value is None or not low <= value <= high:
        raise UsageError(f"say which value `{format_path(path)}` is to have, from {low} to {high}")
    dial = await find_dial(console, path, now, value)
    if dial is None:
        raise UsageError("what this comes to is still being worked out; try again in a minute")
    text = format_suggestion([describe_dial(dial)], [TextChange(path, value)])
    about = {"Content-Disposition": f'attachment; filename="{dial.key}-{value}.yaml"'}
    return Response(text, media_type="application/yaml", headers=about)


def list_keys(loaded: LoadedPolicy) -> list[TunableKey]:
    """Return the keys that can be swept, with their values in force."""
    found = []
    for path in list_values(loaded.policy):
        key = format_path(path)
        try:
            _, value = find_numeric_key(key, loaded.policy)
        except UsageError:
            continue
        found.append(TunableKey(key, value, loaded.provenance.get(key, "default"), explain_key(path)))
    return found


def describe_dial(dial: Dial) -> str:
    """Return in a sentence what a value comes to."""
    if not dial.found.points:
        return f"`{dial.key}` from {dial.now} to {dial.value}; no turn with a call is recorded."
    before, there = (find_point(dial.found.points, value) for value in (dial.now, dial.value))
    counts = (("calls held or denied", "held"), ("prompts", "prompts"), ("requests for advice", "requests"))
    changes = ", ".join(f"{getattr(before, name)} -> {getattr(there, name)} {words}" for words, name in counts)
    rests = f"{dial.found.turns} recorded turns, each judged by itself with the answers of then"
    agreed = f", {before.agreed} -> {there.agreed} of {dial.found.labels} labels met" if dial.found.labels else ""
    return f"`{dial.key}` from {dial.now} to {dial.value}. Over {rests}: {changes}{agreed}."
