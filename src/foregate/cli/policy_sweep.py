"""`foregate policy sweep` and `levers`: recorded decisions for every value of a key, and the keys that turn any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins
from msgspec.structs import replace

from foregate.assembly.home import open_home_log
from foregate.cli import options
from foregate.cli.options import take
from foregate.cli.policy import app
from foregate.schemas.errors import UsageError
from foregate.schemas.strict_json import Json
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.layout import fold_text, format_labelled, format_table, pluralise, shorten_text
from foregate.views.terminal.progress import show_pieces

if TYPE_CHECKING:
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.queries.reviews import Reviews
    from foregate.tuning.levers import Lever, LeverSearch
    from foregate.tuning.pieces import Progress, Workers
    from foregate.tuning.sweep import SweepPoint, SweepResult


Names = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY [KEY2] [SESSION]...",
        help="One or two numbers of the policy, such as `uncertainty.threshold`, and the sessions; all without any.",
    ),
]
Picture = Annotated[Path | None, take("--svg", "Write the chart to a file, too.", "FILE")]
_SHOWN = 30


@app.command("sweep")
def sweep(
    names: Names,
    svg: Picture = None,
    ray: options.OnRay = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge recorded turns again for every value of a number of the policy, with the recorded answers. For each range
    in which nothing turns it counts held calls, prompts, requests to planner and critic, and labels that are met. With
    `foregate[tuning]` the results are stored, so the next sweep judges only what is new.
    """
    from foregate.assembly.home import find_judged_sessions
    from foregate.cli.audit_review import open_reviews
    from foregate.policy.source.load import default_policy
    from foregate.policy.source.strict_yaml import format_path
    from foregate.policy.source.values import list_values
    from foregate.tuning.cube import has_libraries
    from foregate.tuning.ray_workers import open_workers
    from foregate.tuning.reach_index import open_reach_index
    from foregate.tuning.sweep import find_paths, sweep_sessions

    known = {format_path(path) for path in list_values(default_policy())}
    keys = names[: 2 if len(names) > 1 and names[1] in known else 1]
    find_paths(keys)
    with open_home_log() as log, open_reviews() as kept:
        sessions = run_async(find_judged_sessions(log, names[len(keys) :]))
        with open_workers(ray) as workers, show_pieces("judging the log") as tell:
            reviews = run_async(kept.read())
            found = sweep_by_cube(log, keys, sessions, reviews, workers, tell)
            if found is None:
                with open_reach_index(log, sessions, tell) as index:
                    found = sweep_sessions(log, sessions, keys, reviews, index, workers, tell)
    if svg is not None:
        try:
            svg.write_text(draw_sweep(found), encoding="utf-8")
        except OSError as error:
            raise UsageError(f"`{svg}` cannot be written ({error.strerror}); name another file for the chart") from None
    if as_json:
        options.print_json(build_sweep_json(found))
        return
    for line in format_sweep(found, options.measure_terminal() or 80):
        options.print_text(line)
    if len(keys) == 1 and not has_libraries():
        options.print_text("`pip install 'foregate[tuning]'` keeps what was found: the next sweep judges what is new.")


def sweep_by_cube(
    log: SqliteLog, keys: Sequence[str], sessions: Sequence[str], reviews: Reviews, workers: Workers, tell: Progress
) -> SweepResult | None:
    """Return the sweep of one key from the cube; None for two, and where there can be no cube."""
    from foregate.tuning.cube import CubeUnusable, has_libraries, open_cube

    if len(keys) > 1 or not has_libraries():
        return None
    try:
        with open_cube(log, workers, tell, warn=lambda words: options.print_problems([f"note: {words}"])) as cube:
            return cube.bring_up(keys[0], sessions).sweep(log, reviews)
    except CubeUnusable as problem:
        options.print_problems([f"warning: {problem}; without it all turns that rest on the key are judged"])
        return None


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
        yield "Nothing is labelled here (`foregate audit review`), so what is right is unknown."


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
    from foregate.gates.replay.assumption import LARGEST

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


@app.command("levers")
def levers(
    sessions: options.SessionNames = None,
    every: Annotated[bool, options.take("--all", "List every change, not only the first 30.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank keys by how many recorded calls a change of them would turn, and name those that turn none. A number moves
    to the nearest value that turns something, a word to each other one; a rule is removed. Counts end at each session's
    first divergence. Keys that steer how a call is looked at are counted apart.
    """
    from foregate.assembly.home import find_judged_sessions
    from foregate.schemas import strict_json
    from foregate.schemas.errors import LogError, UsageError
    from foregate.tuning.levers import LeverSearch
    from foregate.tuning.reach_index import ReachIndex, open_reach_index
    from foregate.tuning.rejudging import find_other_versions

    with open_home_log() as log:
        names = run_async(find_judged_sessions(log, sessions or ()))
        options.print_problems(find_other_versions(log, names))
        with (
            show_pieces("indexing the log") as tell,
            open_reach_index(log, names, tell, options.print_problem) as kept,
            closing(kept or ReachIndex(log, None)) as index,
        ):
            if kept is None:
                index.catch_up(names, progress=tell)
            for name in index.unreadable:
                raise LogError(
                    f"session `{name}` cannot be read; `foregate audit verify {name}` tells what was changed"
                )
            with show_pieces("trying other values") as tell_tried:
                search = LeverSearch(log, names, index, progress=tell_tried)
                found = search.find_levers()
    if not found and not search.quiet:
        raise UsageError("no recorded turn can be judged again, so nothing is claimed; name other sessions")
    if as_json:
        beside = {"unread": search.unread, "beside": search.beside}
        for lever in found:
            options.print_json({"kind": "lever", **strict_json.dump(lever)})
        options.print_json({"kind": "summary", "sessions": len(names), "quiet": search.quiet, **beside})
        return
    width = options.measure_terminal() or 80
    for line in format_levers(found, len(found) if every else _SHOWN, search, width):
        options.print_text(line)


_VALUE = 30
"""Columns of a value at most."""


def format_levers(found: Sequence[Lever], most: int, search: LeverSearch, width: int) -> Iterator[str]:
    """Yield in `width` columns the table of at `most` so many, the keys that turned none, and those that recorded turns
    cannot tell of."""
    from foregate.policy.source.values import format_value

    told = [one for one in found if one.is_told]
    shown = told[:most]
    rows: list[tuple[str, ...]] = [("change", "calls", "held", "let go", "plans", "critics", "prompts")]
    for one in shown:
        after = "taken out" if one.after is None else format_value(one.after)
        counts = f"{one.turned} {one.held} {one.let_go} {one.plans:+} {one.critiques:+} {one.prompts:+}"
        rows.append((f"{one.key}: {shorten_text(after, _VALUE)}", *counts.split()))
    yield from format_table(rows, width)
    if len(told) > len(shown):
        yield f"... and {len(told) - len(shown)} more; --all lists them"
    still = [key for key in search.quiet if key not in search.unread]
    unseen = {one.key: f"{one.key} ({one.unseen})" for one in reversed(found)}
    for one in told:
        unseen.pop(one.key, None)
    for words, keys in (
        ("May turn calls that the log cannot tell of", [*unseen.values()]),
        ("Turned no recorded decision, whatever the value", still),
        ("Not tried, for no recorded turn has to do with them", search.unread),
    ):
        if keys:
            yield ""
            yield from fold_text(f"{words} ({pluralise(len(keys), 'key')}), by section:", width)
            yield from format_by_section(keys, width)
    if search.beside:
        sections = ", ".join(sorted({key.partition(".")[0] for key in search.beside}))
        number = f"{pluralise(len(search.beside), 'key')} of {sections}"
        yield ""
        yield from fold_text(f"Not judged by recorded turns, so not tried: {number} (--json names them).", width)


def format_by_section(keys: Sequence[str], width: int) -> Iterator[str]:
    """Yield keys by their sections, in `width` columns: each section once, and what of it follows."""
    sections: dict[str, list[str]] = {}
    for key in keys:
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(name or section)
    room = max(map(len, sections))
    for section in sorted(sections):
        for line in format_labelled(section, ", ".join(sections[section]), width, room=room + 1):
            yield line.plain.rstrip()
