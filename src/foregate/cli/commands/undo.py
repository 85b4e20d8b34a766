"""`foregate undo`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.terminal.waiting import wait

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
    from foregate.cli.terminal.scripting import one_line
    from foregate.cli.terminal.visible import visible
    from foregate.schemas import codec

    report = wait(_undo(session, call, preview))
    if as_json:
        typer.echo(one_line({"done": report.done} | codec.dump(report)))
    elif report.done:
        typer.echo(visible(f"{'would undo' if preview else 'undone'}: {report.call} {report.tool}"))
        for step in report.steps:
            typer.echo(f"  {visible(step)}")
    else:
        for sentence in report.sentences:
            typer.echo(f"foregate: {visible(sentence)}", err=True)
    raise typer.Exit(COMPLETED if report.done else ERROR)


async def _undo(name: str, call: str, preview: bool) -> UndoReport:
    from foregate.agent.effects.undo import undo as take_back
    from foregate.assembly.open import REHEARSAL, open_session
    from foregate.assembly.setting import Setting

    opened = await open_session(Setting(model=REHEARSAL, resume=name))
    try:
        return await take_back(opened.session, call or None, preview)
    finally:
        await opened.close(end=False)
