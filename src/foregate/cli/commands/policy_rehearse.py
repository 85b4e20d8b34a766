"""`foregate policy rehearse`: recorded sessions played again through the loop, under another policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.policy import File, app, require_usable
from foregate.cli.terminal.exit_codes import run_async
from foregate.cli.terminal.progress import show_pieces

if TYPE_CHECKING:
    from foregate.agent.rehearsing.rehearse import Rehearsal
    from foregate.audit.rehearsing import RehearsalRun


@app.command("rehearse")
def rehearse(
    file: File, sessions: options.SessionNames = None, assume: options.Assume = None, as_json: options.AsJson = False
) -> None:
    """Play recorded sessions again under FILE with what was said, found and answered then; nothing runs.

    A session stops where its log holds no result: a call runs that had not, a question nobody answered, or a model that
    is told something else. Until there its counts are those of really playing it again.
    """
    from foregate.assembly.home import find_judged_sessions
    from foregate.audit.rehearsing import RehearsalRun
    from foregate.cli.commands.rehearsal_report import build_rehearsal_json, build_tally_json, format_rehearsals
    from foregate.gates.replay.assumption import NOTHING, read_assumption

    assumed, layer = NOTHING if assume is None else read_assumption(assume), require_usable(file)
    with open_home_log() as log:
        run = RehearsalRun(log, layer, assumed)
        played = follow_steps(run, run_async(find_judged_sessions(log, sessions or ())))
        if as_json:
            for one in played:
                options.print_json(build_rehearsal_json(one))
            options.print_json(build_tally_json(run.tally, layer.label, assumed.to_json()))
        else:
            for line in format_rehearsals(played, run.tally, layer.label, options.measure_terminal() or 80):
                options.print_folded(line)


def follow_steps(run: RehearsalRun, sessions: Sequence[str]) -> list[Rehearsal]:
    """Return the sessions as they were played, and show on a terminal how many are done."""
    played: list[Rehearsal] = []
    with show_pieces("playing sessions again") as tell:
        tell(0, len(sessions))
        for one in run.play(sessions):
            played.append(one)
            tell(len(played), len(sessions))
    return played
