"""`foregate audit export`: one session as one file that opens without a network and verifies itself."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import audit, options
from foregate.cli.commands.options import take
from foregate.cli.terminal.exit_codes import NOT_VERIFIED, run_async
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.pages.export import ExportedPage


@audit.app.command("export", short_help="Write a session as one HTML file that verifies itself.")
def export(
    session: options.SessionName,
    html: Annotated[Path | None, take("--html", "The file to write.", "FILE")] = None,
    force: Annotated[bool, take("--force", "Replace FILE where it is there already.")] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Write a session as one HTML file with its timeline, diffs, decisions and events; it opens from disk without a
    network and verifies its chain in the browser.

    What the policy in force calls sensitive is masked. Exit code 8 where the log did not verify; the file says so too.
    """
    from foregate.assembly.home import Home, find_session
    from foregate.cli.commands.trajectories import find_hidden, open_new_file

    if html is None:
        raise UsageError("`--html FILE` is missing; name the file to write")
    _require_templates()
    from foregate.pages.export import export_page

    home = Home.open()
    with closing(home.open_log()) as log, open_new_file(html, replacing=force, flag="--force") as file:
        name = run_async(find_session(log, session))
        found = export_page(log, name, home.open_blobs(), find_hidden(policy, workspace))
        file.write(found.text)
    _print_result(found, html, as_json)
    if not found.verified.ok:
        raise typer.Exit(NOT_VERIFIED)


def _require_templates() -> None:
    """Raise UsageError where the library that fills in pages is not installed."""
    from importlib.util import find_spec

    if find_spec("jinja2") is None:
        raise UsageError("pages need the extra `console`; install `foregate[console]`")


def _print_result(found: ExportedPage, file: Path, as_json: bool) -> None:
    counted = {name: getattr(found, name) for name in ("events", "masked", "erased", "decisions")}
    verified = found.verified
    if as_json:
        options.print_json({"file": str(file), "head": verified.head, "ok": verified.ok, **counted})
        return
    hidden = "".join(f", {counted[how]} {how}" for how in ("masked", "erased") if counted[how])
    options.print_text(f"{file}: {counted['events']} events{hidden}, {counted['decisions']} decisions explained")
    options.print_text(f"{verified.sentence}; head {verified.head}")
