"""`foregate policy shadow`: what gates in shadow would have held, asked or denied."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options, selecting
from foregate.cli.commands.options import take
from foregate.cli.commands.policy import app
from foregate.cli.commands.selecting import Selection

if TYPE_CHECKING:
    from foregate.telemetry.queries.statistics import ShadowReport

_SHOWN = 5


@app.command("shadow")
@selecting.takes_selection(selecting.OF_DECISIONS)
def shadow(
    selection: Selection,
    limit: Annotated[int, take("--limit", "Show so many of each gate's newest calls.", "NUMBER", min=0)] = _SHOWN,
    as_json: options.AsJson = False,
) -> None:
    """Report, gate by gate, what those in shadow would have held, asked about or denied, and the newest such calls."""
    from foregate.assembly.audit_index import open_home_index
    from foregate.telemetry.queries.statistics import report_shadows

    with open_home_index() as (_, index):
        found = report_shadows(index, selecting.select_decisions(selection, (), everything=True), limit)
    if as_json:
        options.print_json([report.to_json() for report in found])
        return
    for report in found:
        print_report(report)
    if not found:
        typer.echo("no gate was in shadow; `mode: shadow` has a gate record what it would do, and do nothing")


_DONE = {"asked": "asked about"}


def print_report(report: ShadowReport) -> None:
    """Print what one gate would have done, and some calls of it."""
    from foregate.cli.terminal.layout import pluralise, shorten_text

    would = [f"{_DONE.get(word, word)} {count}" for word, count in report.would.items() if count]
    calls = f"of {pluralise(report.decisions, 'decision')} in {pluralise(report.sessions, 'session')}"
    options.print_text(f"{report.gate:<12} {calls} it would have {', '.join(would) or 'done nothing'}")
    if report.also:
        options.print_text(f"{'':<12} {report.also} of them another gate held, denied or asked about all the same")
    for row in report.newest:
        what = f"{row.session}/{row.seq}.{row.gate}  {row.code}  {row.tool} {row.target}".rstrip()
        options.print_text(f"{'':<12} {shorten_text(what, 100)}")
