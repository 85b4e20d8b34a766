"""`foregate undo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.agent.effects.undo import UndoReport


def undo(
    session: options.SessionName,
    call: Annotated[
        str,
        typer.Option("--call", metavar="ID", help="The call to undo, as the chat's /history names it; else the last."),
    ] = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be undone.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Undo a change of a session from its before-images; refused where the world has moved on."""
    from foregate.cli.terminal.exit_codes import COMPLETED, ERROR
    from foregate.cli.terminal.layout import make_visible
    from foregate.cli.terminal.scripting import to_json_line
    from foregate.schemas import strict_json

    report = run_async(_undo_changes(session, call, preview))
    if as_json:
        typer.echo(to_json_line({"done": report.done} | strict_json.dump(report)))
    elif report.done:
        typer.echo(make_visible(f"{'would undo' if preview else 'undone'}: {report.call} {report.tool}"))
        for step in report.steps:
            typer.echo(f"  {make_visible(step)}")
    else:
        for sentence in report.sentences:
            typer.echo(f"foregate: {make_visible(sentence)}", err=True)
    raise typer.Exit(COMPLETED if report.done else ERROR)


async def _undo_changes(name: str, call: str, preview: bool) -> UndoReport:
    from foregate.agent.effects.undo import undo as undo_change
    from foregate.assembly.open import REHEARSAL, open_session
    from foregate.assembly.setting import SessionOptions

    opened = await open_session(SessionOptions(model=REHEARSAL, resume=name))
    try:
        return await undo_change(opened.session, call or None, preview)
    finally:
        await opened.close(end=False)
