"""`foregate policy what-if`: what recorded sessions would have been under another policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.policy import File, app, require_usable
from foregate.cli.terminal.exit_codes import run_async
from foregate.cli.terminal.progress import show_pieces

if TYPE_CHECKING:
    from foregate.audit.phases import Phases
    from foregate.audit.what_if import WhatIf


@app.command("what-if")
def what_if(
    file: File,
    sessions: options.SessionNames = None,
    assume: options.Assume = None,
    ray: options.OnRay = None,
    as_json: options.AsJson = False,
) -> None:
    """Judge recorded turns again as `foregate chat --policy FILE` would have, and show what comes out differently.

    With --assume, three lines count apart what is exact, what rests on the assumed answers, and what is an estimate.
    """
    from foregate.assembly.home import find_judged_sessions
    from foregate.audit.ray_crew import open_workers
    from foregate.audit.reach_index import open_reach_index
    from foregate.audit.versions import find_other_versions
    from foregate.audit.what_if import WhatIf
    from foregate.gates.replay.assumption import read_assumption

    layer = require_usable(file)
    assumed = read_assumption(assume) if assume is not None else None
    with open_home_log() as log:
        names = run_async(find_judged_sessions(log, sessions or ()))
        options.print_problems(find_other_versions(log, names))
        with (
            open_workers(ray) as workers,
            show_pieces("indexing the log") as tell,
            open_reach_index(log, names, tell, options.print_problem) as index,
        ):
            judged = WhatIf(log, layer, workers, index=index, assume=assumed, names_keys=as_json, keeps=True)
            print_changes(judged, names, layer.label, judged.phases if assumed else None, as_json=as_json)


def print_changes(
    judged: WhatIf, sessions: Sequence[str], file: str, phases: Phases | None = None, *, as_json: bool
) -> None:
    """Print what comes out differently under a file, as it is found, and where answers are assumed how sure that is."""
    from foregate.cli.commands.phase_reports import build_phases_json, format_phases
    from foregate.cli.commands.reports import build_summary_json, format_changes

    rows, tally = judged.find_changes(sessions), judged.tally
    if as_json:
        for row in rows:
            options.print_json(row.to_json())
        options.print_json(build_summary_json(tally, file))
        if phases is not None:
            options.print_json({"kind": "phases", **build_phases_json(phases)})
    else:
        for line in format_changes(rows, tally, file, judged.name_keys):
            options.print_folded(line)
        for line in format_phases(phases) if phases is not None else ():
            options.print_folded(line)
