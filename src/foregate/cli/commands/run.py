"""`foregate run`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import opens_session
from foregate.cli.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.agent.session.result import RunResult
    from foregate.assembly.open import OpenSession
    from foregate.assembly.setting import SessionOptions
    from foregate.cli.terminal.screen import Screen
    from foregate.schemas.strict_json import Json


@opens_session()
def run(
    setting: SessionOptions,
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to do; `-` reads it from standard input.")],
    dry_run: options.DryRun = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print every event as a line of JSON.")] = False,
) -> None:
    """Do one task without a person: what would need one is denied and reported. The exit code tells the status."""
    from foregate.cli.terminal.exit_codes import STATUS
    from foregate.schemas.errors import UsageError

    if as_json and events:
        raise UsageError("--json and --events exclude each other; choose one")
    text = sys.stdin.read() if task == "-" else task
    if not text.strip():
        raise UsageError("the task is empty; say what to do")
    setting.dry_run = dry_run
    outcome = run_async(_run_task(setting, text, as_json, events))
    raise typer.Exit(STATUS[outcome.status])


async def _run_task(setting: SessionOptions, text: str, as_json: bool, events: bool) -> RunResult:
    import asyncio

    from foregate.agent.loop.runner import run as run_task
    from foregate.assembly.open import open_session
    from foregate.cli.terminal.layout import CARE, build_console
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.scripting import format_event_line
    from foregate.cli.terminal.terminal import interruptible

    screen, out = Screen(build_console(stderr=True), narrate=False), sys.stdout
    if events:
        setting.listeners = [lambda event: print(format_event_line(event), file=out, flush=True)]
    elif not as_json:
        setting.listeners = [screen.show_event]
    opened = await open_session(setting)
    try:
        if not (as_json or events):
            for note in opened.notes:
                screen.row(note, CARE)
        with redirect_stdout(sys.stderr), interruptible(asyncio.ensure_future(run_task(opened.session, text))) as task:
            outcome = await task  # what a tool prints is no answer
        screen.idle()
        await print_report(opened, outcome, screen, as_json, events)
    finally:
        screen.idle()
        await opened.close()
    return outcome


async def print_report(opened: OpenSession, outcome: RunResult, screen: Screen, as_json: bool, events: bool) -> None:
    """Print the answer to standard output, and what is in the way to standard error.

    Bars tell the model's words from Foregate's on a terminal; into a file or a pipe goes the bare text.
    """
    from msgspec.structs import asdict

    from foregate.cli.terminal.layout import build_console, make_visible
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.scripting import to_json_line
    from foregate.telemetry.audit.decisions import read_decisions

    if as_json:
        told: dict[str, Json] = {"status": outcome.status, "text": outcome.text, "report": asdict(outcome.report)}
        told |= {"session": opened.name, "notes": list(opened.notes)}
        decisions = [point.to_json() for point in read_decisions(await opened.session.log.read())]
        typer.echo(to_json_line({**told, "decisions": decisions}))
    elif not events:
        if sys.stdout.isatty():
            answer = Screen(build_console())
            answer.show(outcome.model_text)
            answer.show_remark(outcome)
        elif outcome.text:
            typer.echo(make_visible(outcome.text, lines=True))
        screen.show_report(outcome)
        screen.say(f"session {opened.name}", "dim")
