"""`foregate policy sweep`: what recorded decisions come to for every value of a key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import app
from foregate.cli.terminal.exit_codes import run_async
from foregate.cli.terminal.progress import show_pieces
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.audit.pieces import Progress, Workers
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.queries.reviews import Reviews
    from foregate.tuning.sweep import SweepResult

Names = Annotated[
    list[str],
    typer.Argument(
        metavar="KEY [KEY2] [SESSION]...",
        help="One or two numbers of the policy, such as `uncertainty.threshold`, and the sessions; all without any.",
    ),
]
Picture = Annotated[Path | None, take("--svg", "Write the chart to a file, too.", "FILE")]


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
    from foregate.cli.commands.audit_review import open_reviews
    from foregate.cli.commands.sweep_report import build_sweep_json, draw_sweep, format_sweep
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
