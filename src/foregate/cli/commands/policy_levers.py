"""`foregate policy levers`: which keys would have turned recorded decisions, and which none."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.policy import app
from foregate.cli.terminal.exit_codes import run_async
from foregate.cli.terminal.progress import show_pieces

_SHOWN = 30


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
    from foregate.audit.versions import find_other_versions
    from foregate.cli.commands.levers_report import format_levers
    from foregate.schemas import strict_json
    from foregate.schemas.errors import LogError, UsageError
    from foregate.tuning.levers import LeverSearch
    from foregate.tuning.reach_index import ReachIndex, open_reach_index

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
