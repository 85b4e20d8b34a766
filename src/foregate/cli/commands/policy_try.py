"""`foregate policy try`: what recorded sessions would have been under another policy; also by its two former names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import File, app, require_usable
from foregate.cli.terminal.exit_codes import run_async
from foregate.cli.terminal.progress import show_pieces
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.gates.replay.assumption import Assumption
    from foregate.policy.source.layers import Layer

Replay = Annotated[bool, take("--replay", "Play whole sessions again instead, from end to end; nothing runs.")]


@app.command("try")
def try_policy(
    file: File,
    sessions: options.SessionNames = None,
    replay: Replay = False,
    assume: options.Assume = None,
    ray: options.OnRay = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge recorded turns again as `foregate chat --policy FILE` would have, and show what comes out differently.

    With --assume, three lines count apart what is exact, what rests on assumed answers, and what is an estimate. With
    --replay, play each session with its recorded answers and count its costs, up to where the log holds no result.
    """
    from foregate.gates.replay.assumption import read_assumption

    layer = require_usable(file)
    if replay and ray is not None:
        raise UsageError("--replay plays sessions on this machine; leave --ray out")
    assumed = read_assumption(assume) if assume is not None else None
    if replay:
        _play_again(layer, assumed, sessions, as_json)
    else:
        _judge_again(layer, assumed, sessions, ray, as_json)


@app.command("what-if")
def what_if(
    file: File,
    sessions: options.SessionNames = None,
    assume: options.Assume = None,
    ray: options.OnRay = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge recorded turns again under FILE: the former name of `policy try`."""
    try_policy(file, sessions, False, assume, ray, as_json)


@app.command("rehearse")
def rehearse(
    file: File, sessions: options.SessionNames = None, assume: options.Assume = None, as_json: options.AsJson = False
) -> None:
    """Play recorded sessions again under FILE: the former name of `policy try --replay`."""
    try_policy(file, sessions, True, assume, None, as_json)


def _judge_again(
    layer: Layer, assumed: Assumption | None, sessions: list[str] | None, ray: str | None, as_json: bool
) -> None:
    """Print what comes out differently, once found, and where answers are assumed how sure that is."""
    from foregate.assembly.home import find_judged_sessions
    from foregate.audit.versions import find_other_versions
    from foregate.cli.commands.reports import build_summary_json, format_changes
    from foregate.cli.commands.try_report import build_phases_json, format_phases
    from foregate.tuning.ray_workers import open_workers
    from foregate.tuning.reach_index import open_reach_index
    from foregate.tuning.what_if import WhatIf

    with open_home_log() as log:
        names = run_async(find_judged_sessions(log, sessions or ()))
        options.print_problems(find_other_versions(log, names))
        with (
            open_workers(ray) as workers,
            show_pieces("indexing the log") as tell,
            open_reach_index(log, names, tell, options.print_problem) as index,
        ):
            judged = WhatIf(log, layer, workers, index=index, assume=assumed, names_keys=as_json, keeps=True)
            rows, tally = judged.find_changes(names), judged.tally
            if not as_json:
                for line in format_changes(rows, tally, layer.label, judged.name_keys):
                    options.print_folded(line)
                for line in format_phases(judged.phases) if assumed is not None else ():
                    options.print_folded(line)
                return
            options.print_json_rows(row.to_json() for row in rows)
            options.print_json(build_summary_json(tally, layer.label))
            if assumed is not None:
                options.print_json({"kind": "phases", **build_phases_json(judged.phases)})


def _play_again(layer: Layer, assumed: Assumption | None, sessions: list[str] | None, as_json: bool) -> None:
    """Print what each session costs when it is played again, and on a terminal how many were played so far."""
    from foregate.assembly.home import find_judged_sessions
    from foregate.cli.commands.try_report import build_rehearsal_json, build_tally_json, format_rehearsals
    from foregate.gates.replay.assumption import NOTHING
    from foregate.tuning.rehearsing.rehearsal_run import RehearsalRun
    from foregate.tuning.rehearsing.rehearse import Rehearsal

    assumed = assumed or NOTHING
    with open_home_log() as log:
        run, played = RehearsalRun(log, layer, assumed), list[Rehearsal]()
        names = run_async(find_judged_sessions(log, sessions or ()))
        with show_pieces("playing sessions again") as tell:
            tell(0, len(names))
            for one in run.play(names):
                played.append(one)
                tell(len(played), len(names))
    if as_json:
        options.print_json_rows(map(build_rehearsal_json, played))
        options.print_json(build_tally_json(run.tally, layer.label, assumed.to_json()))
        return
    for line in format_rehearsals(played, run.tally, layer.label, options.measure_terminal() or 80):
        options.print_folded(line)
