"""`foregate policy what-if`: what recorded sessions would have been under another policy."""

from __future__ import annotations

import typer

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.policy import File, app
from foregate.cli.terminal.exit_codes import USAGE, run_async


@app.command("what-if", short_help="Judge recorded sessions again under another policy file.")
def what_if(file: File, sessions: options.SessionNames = None, as_json: options.AsJson = False) -> None:
    """Judge recorded turns again as `foregate chat --policy FILE` would have, and show what comes out differently."""
    from foregate.assembly.home import find_sessions
    from foregate.audit.what_if import WhatIf
    from foregate.cli.commands.reports import build_summary_json, format_changes
    from foregate.policy.source.layers import read_layer
    from foregate.policy.source.load import check_policy_file, resolve_policy_file

    named = resolve_policy_file(file)
    if problems := check_policy_file(named):
        options.print_problems(problems)
        raise typer.Exit(USAGE)
    with open_home_log() as log:
        judged = WhatIf(log, read_layer(named, named.name, trusted=True))
        rows = judged.find_changes(run_async(find_sessions(log, sessions or ())))
        if as_json:
            for row in rows:
                options.print_json(row.to_json())
            options.print_json(build_summary_json(judged.tally, named.name))
        else:
            for line in format_changes(rows, judged.tally, named.name):
                typer.echo(line)
