"""A sweep as a table with a bar for each range of values, as JSON, and as a picture."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from msgspec import to_builtins
from msgspec.structs import replace

from foregate.cli.terminal.layout import format_table, pluralise, shorten_text
from foregate.gates.replay.other_values import LARGEST
from foregate.schemas.strict_json import Json
from foregate.tuning.sweep import SweepPoint, SweepResult

SHOWN = 60
"""Ranges that are shown; all of them stand in the JSON."""
_BAR = 18
_WITH_BARS = 72
"""Columns from which on there is room for the bars."""
_CURVES = (("held", "#b45309"), ("prompts", "#1d4ed8"), ("requests", "#047857"))
_PLOT = (640, 300, 60, 30)
"""Width, height and margins of the picture: to the left and above, and to the right and below."""


def format_sweep(found: SweepResult, width: int) -> Iterator[str]:
    """Yield the table in `width` columns, and what it rests on, in sentences that may be longer."""
    points = join_alike(found.points)
    most = max((one.prompts + one.requests for one in points), default=0) or 1
    rows = [(" / ".join(found.keys), "held", "prompts", "requests", "agreed", "", " " * _BAR)]
    for one in points[:SHOWN]:
        bar = "#" * round(_BAR * (one.prompts + one.requests) / most)
        agreed = f"{100 * one.agreed // found.labels} %" if found.labels else "-"
        counts = str(one.held), str(one.prompts), str(one.requests)
        rows.append((describe_range(one), *counts, agreed, "*" if one.front else "", f"{bar:<{_BAR}}"))
    yield from format_table(rows if width >= _WITH_BARS else [row[:-1] for row in rows], width)
    if len(points) > SHOWN:
        yield f"... and {len(points) - SHOWN} more ranges; --json lists them all"
    yield from _format_remarks(found)


def _format_remarks(found: SweepResult) -> Iterator[str]:
    now = ", ".join("/".join(map(str, value)) for value in sorted(found.now))
    yield f"{found.turns} turns, recorded with {shorten_text(now, 40)}. Each range is exact, turn by turn."
    if found.judged < found.turns:
        yield f"{found.judged} of them were judged for this; of the others it is known how they come out."
    if found.others:
        yield f"Judged by another version of Foregate: {pluralise(found.others, 'turn')}. This one judges them here."
    if found.changed:
        yield f"Left out: {pluralise(found.changed, 'label')}, since what they are about was changed."
    what = "agree less with the labels" if found.labels else "hold less"
    yield f"* No other values ask for less and do not {what}."
    if not found.labels:
        yield "Nothing is labelled here (`foregate audit review`), so it is unknown what is right."


def join_alike(points: Sequence[SweepPoint]) -> list[SweepPoint]:
    """Return the points of one key with neighbours as one that differ only in which gate comes to what."""
    joined: list[SweepPoint] = []
    for one in points:
        plain = replace(one, gates=())
        if joined and len(one.low) == 1 and replace(joined[-1], high=one.high) == replace(plain, low=joined[-1].low):
            joined[-1] = replace(joined[-1], high=one.high)
        else:
            joined.append(plain)
    return joined


def describe_range(point: SweepPoint) -> str:
    """Return the values of a point, such as `0-549 / 3`."""
    return " / ".join(map(_describe_axis, point.low, point.high))


def _describe_axis(low: int, high: int) -> str:
    return f"{low}" if low == high else f"{low} or more" if high == LARGEST else f"{low}-{high}"


def build_sweep_json(found: SweepResult) -> Json:
    """Return a sweep as JSON values."""
    now: list[Json] = [{"values": list(value), "turns": count} for value, count in sorted(found.now.items())]
    told: dict[str, Json] = {
        "keys": list(found.keys),
        "turns": found.turns,
        "calls": found.calls,
        "labels": found.labels,
    }
    told |= {"judged": found.judged, "now": now}
    points: list[Json] = [to_builtins(one) for one in found.points]
    return told | {"points": points}


def draw_sweep(found: SweepResult) -> str:
    """Return the picture of a sweep of one key as SVG: steps of held calls, prompts and requests."""
    width, height, left, above = _PLOT
    points = join_alike(found.points)
    most = max((max(one.held, one.prompts, one.requests) for one in points), default=0) or 1
    step = (width - 2 * left) / max(1, len(points))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" font-family="sans-serif">',
        f"<title>{escape(' / '.join(found.keys))}</title>",
        f'<path d="M{left} {above}V{height - above}H{width - left}" fill="none" stroke="#888"/>',
        f'<text x="{left - 6}" y="{above + 4}" font-size="11" text-anchor="end">{most}</text>',
    ]
    for number, (name, colour) in enumerate(_CURVES):
        heights = [height - above - (height - 2 * above) * getattr(one, name) / most for one in points]
        parts.append(f'<path d="{_draw_steps(heights, left, step)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{left + 10 + 90 * number}" y="18" font-size="12" fill="{colour}">{name}</text>')
    every = max(1, len(points) // 8)
    for at in range(0, len(points), every):
        x, label = left + at * step, escape("/".join(map(str, points[at].low)))
        parts.append(f'<text x="{x:.1f}" y="{height - above + 14}" font-size="10">{label}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _draw_steps(heights: Sequence[float], left: int, step: float) -> str:
    ends = ((left + at * step, left + (at + 1) * step, y) for at, y in enumerate(heights))
    return "".join(f"{'L' if at else 'M'}{x:.1f} {y:.1f}H{end:.1f}" for at, (x, end, y) in enumerate(ends))
