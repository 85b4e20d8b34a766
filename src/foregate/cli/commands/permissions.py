"""`foregate permissions`: what a person permits from now on in a workspace, given at a sheet with `p`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.agent.session.permissions import Permissions

app = options.build_group("What you permit in a workspace without being asked again.")
_IDS = "Permissions by their ids, as `list` prints them."


@app.command("list")
def list_permissions(workspace: options.WorkspaceFolder = Path(), as_json: options.AsJson = False) -> None:
    """List what you permit in a workspace. It holds while its tool, its command and its rule stay as they were."""
    from foregate.schemas import strict_json

    given = _read_permissions(workspace).list_given()
    if as_json:
        options.print_json_rows(map(strict_json.dump, given))
        return
    for one in given:
        options.print_text(f"{one.id:<10} {one.at[:10]}  {one.words}")
    if not given:
        typer.echo("nothing is permitted here; answer a sheet with `p` to permit something", err=True)


@app.command("show")
def show(
    name: Annotated[str, typer.Argument(metavar="PERMISSION", help="A permission's id.")],
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Show a permission whole: what it covers, who gave it, when, and at which event."""
    from foregate.schemas import strict_json

    given = {one.id: one for one in _read_permissions(workspace).list_given()}
    if name not in given:
        known = ", ".join(given) or "none is given here"
        raise UsageError(f"there is no permission `{name[:40]}`; there are: {known}")
    found = given[name]
    if as_json:
        options.print_json(strict_json.dump(found))
        return
    rows = {
        "permission": found.id,
        "permits": found.words,
        "by": found.by,
        "at": found.at,
        "until": found.until or "revoked",
        "decision": f"session {found.session}, event {found.seq}",
        "spares": ", ".join(found.reasons),
        "tool": f"{found.tool} ({found.effect}), while its definition stays {found.definition[:12]}",
    }
    for label, said in rows.items():
        options.print_text(f"{label:<11} {said}")


@app.command("revoke")
def revoke(
    names: Annotated[list[str], typer.Argument(metavar="PERMISSION...", help=_IDS)],
    workspace: options.WorkspaceFolder = Path(),
) -> None:
    """Take permissions away. Sessions that run ask again from their next response on."""
    for one in _read_permissions(workspace).revoke(names):
        options.print_text(f"revoked {one.id}: {one.words}")


def _read_permissions(workspace: Path) -> Permissions:
    """Return what is permitted in a workspace; raise UsageError for a file that permits nothing as it is."""
    from foregate.assembly.home import Home

    found = Home.open().open_permissions(workspace)
    found.list_given()
    if found.problem:
        raise UsageError(found.problem)
    return found
