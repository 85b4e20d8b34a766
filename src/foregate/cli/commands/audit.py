"""`foregate audit`: what was decided, and whether the log can be trusted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.options import take
from foregate.cli.terminal.exit_codes import NOT_VERIFIED, run_async

if TYPE_CHECKING:
    from foregate.schemas.event import Event
    from foregate.schemas.event_body import Kind
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.log.sqlite_log import SqliteLog

app = options.build_group("Review the decisions of a session, and verify its log.", options.HomeGroup)
Names = list[str]


@app.command("list")
def list_sessions(as_json: options.AsJson = False) -> None:
    """List the sessions of the log, newest first."""
    from foregate.cli.commands.keeping_reports import format_missing
    from foregate.cli.commands.reports import format_sessions

    with open_home_log() as log:
        names = run_async(log.sessions())
        options.print_problems(format_missing(log.find_missing()))
        summaries = (_summarise_session(log, name) for name in names)
        if as_json:
            options.print_json_rows(summaries)
            return
        for line in format_sessions(summaries, max(map(len, names), default=0), options.measure_terminal()):
            typer.echo(line)
    if not names:
        typer.echo("there are no sessions yet; `foregate chat` begins one", err=True)


@app.command("show", short_help="Show the decision points of a session.")
def show(
    session: options.SessionName,
    gate: Annotated[Names | None, take("--gate", "Only this gate; may be repeated.")] = None,
    code: Annotated[Names | None, take("--code", "Only this code; may be repeated.")] = None,
    severity: Annotated[Names | None, take("--severity", "Only `info`, `warning` or `error`; may be repeated.")] = None,
    notes: Annotated[bool, take("--notes", "Show the replay notes instead of the decisions.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the decision points of a session, one line each; without a filter also switches, the dialect calls are read
    in, and what the model was not sent.
    """
    from rich.console import Console

    from foregate.assembly.home import find_session
    from foregate.cli.terminal.timeline import ASIDE, format_aside, format_decision
    from foregate.telemetry.audit.decisions import filter_decisions, read_decisions

    console = Console(highlight=False, emoji=False, markup=False)
    with open_home_log() as log:
        name = run_async(find_session(log, session))
        if notes:
            _print_notes(log, name, as_json)
            return
        width = console.width if console.is_terminal else 0
        filtered = bool(as_json or gate or code or severity)

        def print_aside(event: Event) -> Event:
            for row in () if filtered else format_aside(event, width):
                console.print(row, soft_wrap=True)
            return event

        points = read_decisions(map(print_aside, log.events(name, kinds=("turn_judged", *ASIDE))))
        for point in filter_decisions(points, gate=gate or (), code=code or (), severity=severity or ()):
            if as_json:
                options.print_json(point.to_json())
            else:
                console.print(format_decision(point, width), soft_wrap=True)


def _print_notes(log: SqliteLog, name: str, as_json: bool) -> None:
    from foregate.schemas import strict_json
    from foregate.telemetry.audit.decisions import build_session_notes

    found = build_session_notes(log.events(name))
    if as_json:
        options.print_json_rows(map(strict_json.dump, found))
        return
    for note in found:
        options.print_text(f"{note.category:<18} {'blocking' if note.blocking else '':<8} {note.summary}")


@app.command("verify", short_help="Verify a session's log.")
def verify(
    session: options.SessionName,
    head: Annotated[str, take("--head", "An event somebody kept elsewhere: its number and hash.", "N:HASH")] = "",
    as_json: options.AsJson = False,
) -> None:
    """Verify a session's log: the chain, that nothing ran without a permit, and its tail. Exit code 8 when it fails."""
    from foregate.assembly.home import find_session
    from foregate.schemas import strict_json
    from foregate.telemetry.audit.verify import parse_head, verify_session

    kept = parse_head(head) if head else None
    with open_home_log() as log:
        found = verify_session(log, run_async(find_session(log, session)), kept)
    if as_json:
        options.print_json({"ok": found.ok, "proven": found.proven, "head": found.head, **strict_json.dump(found)})
    else:
        options.print_text(found.sentence)
        typer.echo(f"head {found.head}")
        for defect in found.defects[1:]:
            options.print_text(defect.message, err=True)
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


@app.command("stats", short_help="Count what the gates did, and what that cost.")
def stats(sessions: options.SessionNames = None, as_json: options.AsJson = False) -> None:
    """Count over sessions how often gates were asked, fired and were overridden, what advice cost, who said yes."""
    from foregate.assembly.home import find_sessions
    from foregate.cli.commands.reports import format_statistics
    from foregate.telemetry.audit.decisions import KINDS, Statistics

    found = Statistics()
    with open_home_log() as log:
        for name in run_async(find_sessions(log, sessions or ())):
            found.add_session(name, log.events(name, kinds=KINDS))
    if as_json:
        options.print_json(found.to_json())
        return
    for line in format_statistics(found):
        typer.echo(line)


def _summarise_session(log: SqliteLog, name: str) -> dict[str, Json]:
    """Return what a list says of a session: events, state, first words, tasks and where it worked."""
    from foregate.schemas.event_body import (
        SessionEnded,
        SessionStarted,
        TaskEnded,
        TaskPaused,
        TaskStarted,
        UserMessage,
    )

    about: dict[str, Json] = {"session": name, "events": log.head_anchor(name)[0], "tasks": 0, "state": "open"}
    about |= {"asked": "", "started": "", "workspace": "", "model": ""}
    tasks = 0
    kinds: tuple[Kind, ...] = ("session_started", "user_message", "task_started", "task_paused", "task_ended")
    kinds = (*kinds, "session_ended")
    for event in log.events(name, kinds=kinds):
        match event.body:
            case SessionStarted(workspace=workspace, model=model, follows=follows):
                about |= {"started": event.time, "workspace": workspace, "model": model}
                about |= {"follows": follows.session} if follows is not None else {}
            case UserMessage(text=text):
                about["asked"] = about["asked"] or text
            case TaskStarted():
                tasks += 1
                about |= {"tasks": tasks, "state": "open"}
            case TaskPaused(reason=reason):
                about["state"] = reason
            case TaskEnded(status=status):
                about["state"] = status
            case SessionEnded() if not tasks:
                about["state"] = "ended" if about["started"] else "erased"
    if about["state"] == "open" and not about["started"]:
        about["state"] = "erased"
    return about
