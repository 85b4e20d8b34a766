"""`foregate audit export`: one session as one file that opens without a network and verifies itself."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import audit, options
from foregate.cli.options import take
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import NOT_VERIFIED, run_async

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.queries.verify import Verification


@audit.app.command("export")
def export(
    session: options.SessionName,
    html: Annotated[Path | None, take("--html", "Write a page that verifies itself.", "FILE")] = None,
    markdown: Annotated[Path | None, take("--markdown", "Write the same rows as text, for a report.", "FILE")] = None,
    force: Annotated[bool, take("--force", "Replace FILE where it is there already.")] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Write a session as one file: HTML that opens from disk and verifies its chain in the browser, or its timeline as
    Markdown. What the policy calls sensitive is masked. Exit code 8 where the log does not verify.
    """
    from foregate.assembly.home import Home, find_session
    from foregate.cli.new_file import open_new_file
    from foregate.cli.trajectories import find_hidden

    if (html is None) == (markdown is None):
        raise UsageError("name one file to write: `--html FILE` or `--markdown FILE`")
    _require_templates()
    from foregate.views.pages.export import export_markdown, export_page

    home = Home.open_to_read()
    path = html or markdown or Path()
    with closing(home.open_log()) as log, open_new_file(path, replacing=force, flag="--force") as file:
        about = log, run_async(find_session(log, session)), home.open_blobs(), find_hidden(policy, workspace)
        if html is None:
            text, verified = export_markdown(*about)
            counted = {}
        else:
            found = export_page(*about)
            text, verified = found.text, found.verified
            counted = {name: getattr(found, name) for name in ("masked", "erased", "decisions")}
        file.write(text)
    _print_result(path, verified, counted, as_json)
    if not verified.ok:
        raise typer.Exit(NOT_VERIFIED)


def _require_templates() -> None:
    """Raise UsageError where the library that fills in pages is not installed."""
    from importlib.util import find_spec

    if find_spec("jinja2") is None:
        raise UsageError("pages need the extra `console`; install `foregate[console]`")


def _print_result(file: Path, verified: Verification, counted: dict[str, int], as_json: bool) -> None:
    if as_json:
        told: dict[str, Json] = {"file": str(file), "events": verified.events, "head": verified.head, "ok": verified.ok}
        options.print_json({**told, **counted})
        return
    hidden = "".join(f", {counted[how]} {how}" for how in ("masked", "erased") if counted.get(how))
    explained = f", {counted['decisions']} decisions explained" if "decisions" in counted else ""
    options.print_text(f"{file}: {verified.events} events{hidden}{explained}")
    options.print_text(f"{verified.sentence}; head {verified.head}")
