"""`foregate undo`."""

from __future__ import annotations

from typing import Annotated

import typer

from foregate.cli import options
from foregate.cli.waiting import wait


def undo(
    session: options.SessionName,
    call: Annotated[
        str, typer.Option("--call", metavar="ID", help="The call to undo, as `audit show` names it; else the last.")
    ] = "",
    preview: Annotated[bool, typer.Option("--preview", help="Only show what would be undone.")] = False,
) -> None:
    """Undo a change of a session from its before-images; refused where the world has moved on."""
    wait(_undo(session, call, preview))


async def _undo(name: str, call: str, preview: bool) -> None:
    from foregate.cli.undoing import undo_one
    from foregate.cli.visible import visible
    from foregate.opening import REHEARSAL, Setting, open_session

    opened = await open_session(Setting(model=REHEARSAL, resume=name))
    try:
        for sentence in await undo_one(opened.session, call, preview=preview):
            typer.echo(visible(sentence, lines=True))
    finally:
        await opened.close(end=False)
