"""`foregate audit`: what was decided, and whether the log can be trusted."""

from __future__ import annotations

from typing import Annotated

import typer

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.terminal.exit_codes import NOT_VERIFIED, run_async

app = options.build_group("Review the decisions of a session, and verify its log.", options.HomeGroup)


@app.command("verify", short_help="Verify a session's log.")
def verify(
    session: options.SessionName,
    head: Annotated[str, take("--head", "An event somebody kept elsewhere: its number and hash.", "N:HASH")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Verify a session's log: the chain, that nothing ran without a permit, what is kept of its state, and its tail.
    Exit code 8 when it fails.
    """
    from msgspec.structs import replace

    from foregate.assembly.home import find_session
    from foregate.audit.kept_state import check_kept_state
    from foregate.schemas import strict_json
    from foregate.telemetry.audit.verify import parse_head, verify_session

    kept = parse_head(head) if head else None
    with open_home_log() as log:
        found = verify_session(log, name := run_async(find_session(log, session)), kept)
        defects, remarks = run_async(check_kept_state(log, name))
    if defects:
        found = replace(found, defects=(*found.defects, *defects), proven=False)
    if as_json:
        options.print_json({"ok": found.ok, "proven": found.proven, "head": found.head, **strict_json.dump(found)})
    else:
        options.print_text(found.sentence)
        typer.echo(f"head {found.head}")
        for message in (*(defect.message for defect in found.defects[1:]), *remarks):
            options.print_text(message, err=True)
    if not found.ok:
        raise typer.Exit(NOT_VERIFIED)


@app.command("explain", short_help="Explain one decision, and what would have changed it.")
def explain(
    decision: Annotated[
        str, typer.Argument(metavar="DECISION", help="SESSION/SEQ.GATE, or SEQ.GATE of the newest session.")
    ],
    as_json: options.AsJson = False,
) -> None:
    """Explain a decision: what was asked, the ruling, its numbers, what would have changed it, and what came next."""
    from rich.console import Console

    from foregate.audit.explanation import explain as explain_decision
    from foregate.audit.explanation import find_decision
    from foregate.cli.commands.reports import format_explanation

    console = Console(highlight=False, emoji=False, markup=False)
    with open_home_log() as log:
        found = explain_decision(log, *run_async(find_decision(log, decision)))
    if as_json:
        options.print_json(found.to_json())
        return
    for line in format_explanation(found, min(console.width, 100) if console.is_terminal else 80):
        typer.echo(line)
