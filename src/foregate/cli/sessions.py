"""The commands that open a session: `foregate chat`, `foregate run`, `foregate resume` and `foregate undo`."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.options import opens_session, take
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import COMPLETED, ERROR, STATUS, run_async

if TYPE_CHECKING:
    from foregate.agent.loop.undo import UndoReport
    from foregate.agent.session.result import RunResult
    from foregate.assembly.open import OpenSession
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.strict_json import Json
    from foregate.views.terminal.screen import Screen

MovedTo = Annotated[Path | None, take("--workspace", "Where its workspace is now, if it was moved.", "FOLDER")]


@opens_session()
async def chat(
    setting: SessionOptions,
    resume: Annotated[str, take("--resume", "Resume a session of the log; `last` is the newest.", "SESSION")] = "",
    dry_run: options.DryRun = False,
    as_json: Annotated[
        bool, take("--json", "For programs: events as lines of JSON; read messages and answers.")
    ] = False,
) -> int:
    """Talk with the agent; what it wants to do is judged first, and you are asked where it matters."""
    from foregate.assembly.home import Home

    setting.resume, setting.dry_run = resume, dry_run
    if as_json:
        from foregate.cli.chat.stream import run_stream

        return await run_stream(setting)
    from foregate.cli.chat.conversation import open_terminal_session

    async with open_terminal_session(setting, Home.open().history) as conversation:
        await conversation.run_chat()
    return COMPLETED


@opens_session()
def run(
    setting: SessionOptions,
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to do; `-` reads it from standard input.")],
    dry_run: options.DryRun = False,
    as_json: Annotated[bool, take("--json", "Print one JSON object at the end.")] = False,
    events: Annotated[bool, take("--events", "Print every event as a line of JSON.")] = False,
) -> None:
    """Do one task without a person: what would need one is denied and reported. The exit code tells the status."""
    if as_json and events:
        raise UsageError("--json and --events exclude each other; choose one")
    text = sys.stdin.read() if task == "-" else task
    if not text.strip():
        raise UsageError("the task is empty; say what to do")
    setting.dry_run = dry_run
    raise typer.Exit(run_async(_run_task(setting, text, as_json, events)))


async def _run_task(setting: SessionOptions, text: str, as_json: bool, events: bool) -> int:
    import asyncio
    from functools import partial

    from foregate.agent.loop.changes_made import read_changes_made
    from foregate.agent.loop.runner import run as run_task
    from foregate.assembly.open import open_session
    from foregate.views.terminal.layout import CARE, build_console
    from foregate.views.terminal.screen import Screen
    from foregate.views.terminal.scripting import format_event_line
    from foregate.views.terminal.task_work import name_commands
    from foregate.views.terminal.terminal import interruptible
    from foregate.views.terminal.waiting import build_waiting_line

    screen, out = Screen(build_console(stderr=True), narrate=False), sys.stdout
    if events:
        setting.listeners = [lambda event: print(format_event_line(event), file=out, flush=True)]
    elif not as_json:
        setting.listeners, screen.waiting = [screen.show_event], build_waiting_line(setting)
        setting.on_retry = screen.tell_retry
        screen.busy("model")
    try:
        opened = await open_session(setting)
    finally:
        screen.idle()
    screen.find_changes = partial(read_changes_made, opened.session)
    screen.currency = opened.configuration.prices.currency
    screen.hints = name_commands(opened.name)
    try:
        for note in () if as_json or events else opened.notes:
            screen.row(note, CARE)
        with redirect_stdout(sys.stderr), interruptible(asyncio.ensure_future(run_task(opened.session, text))) as task:
            # What a tool prints is no answer.
            outcome = await task
        screen.idle()
        if as_json:
            await _print_outcome(opened, outcome)
        elif not events:
            _print_report(opened, outcome, screen)
    finally:
        screen.idle()
        await opened.close()
    return STATUS[outcome.status]


async def _print_outcome(opened: OpenSession, outcome: RunResult) -> None:
    from msgspec.structs import asdict

    from foregate.telemetry.queries.decisions import read_decisions

    told: dict[str, Json] = {"status": outcome.status, "text": outcome.text, "report": asdict(outcome.report)}
    told |= {"session": opened.name, "notes": list(opened.notes)}
    decisions = [point.to_json() for point in read_decisions(await opened.session.log.read())]
    options.print_json({**told, "decisions": decisions})


def _print_report(opened: OpenSession, outcome: RunResult, screen: Screen) -> None:
    """Print the answer to standard output, on a terminal behind bars, and what is in the way to standard error."""
    from foregate.schemas.visible import make_visible
    from foregate.views.terminal.layout import build_console
    from foregate.views.terminal.screen import Screen

    if sys.stdout.isatty():
        answer = Screen(build_console())
        answer.show(outcome.model_text)
        answer.show_remark(outcome)
    elif outcome.text:
        typer.echo(make_visible(outcome.text, lines=True))
    screen.show_report(outcome)
    screen.show_work(outcome)
    screen.say(f"session {opened.name}", "dim")


@opens_session(without=("workspace",))
async def resume(setting: SessionOptions, session: options.SessionName, moved_to: MovedTo = None) -> int:
    """Answer what a session waits for, and see its task through; `foregate chat --resume` goes on talking."""
    from foregate.agent.loop.runner import run as run_task
    from foregate.cli.chat.conversation import open_terminal_session

    setting.resume, setting.moved_to = session, moved_to
    async with open_terminal_session(setting, waits=True) as chat:
        chat.greet()
        await chat.show_recap()
        state = chat.session.state
        if state.task is None:
            chat.screen.say("nothing waits in this session")
            return COMPLETED
        await chat.resume_open_task()
        while (task := state.task) is not None and task.paused == "needs_input":
            try:
                text = await chat.terminal.read_line("you> ")
            except KeyboardInterrupt:
                continue
            if text is None:
                return STATUS["needs_input"]
            if text.strip():
                await chat.run_steps(run_task(chat.session, text))
        return STATUS[chat.outcome.status] if chat.outcome is not None else COMPLETED


def undo(
    session: options.SessionName,
    call: Annotated[
        str, take("--call", "The call to undo, as the chat's /history names it; else the last.", "ID")
    ] = "",
    preview: Annotated[bool, take("--preview", "Only show what would be undone.")] = False,
    moved_to: MovedTo = None,
    as_json: options.AsJson = False,
) -> None:
    """Undo a change of a session from its before-images; refused where the world has moved on."""
    from foregate.schemas import strict_json

    report = run_async(_undo_changes(session, call, preview, moved_to))
    if as_json:
        options.print_json({"done": report.done} | strict_json.dump(report))
    elif report.done:
        options.print_text(f"{'would undo' if preview else 'undone'}: {report.call} {report.tool}")
        for step in report.steps:
            options.print_text(f"  {step}")
        options.print_problems(filter(None, (report.note,)))
    else:
        options.print_problems(report.sentences)
    raise typer.Exit(COMPLETED if report.done else ERROR)


async def _undo_changes(name: str, call: str, preview: bool, moved_to: Path | None) -> UndoReport:
    from foregate.agent.loop.undo import undo as undo_change
    from foregate.assembly.choices import REHEARSAL
    from foregate.assembly.identity import find_identity
    from foregate.assembly.open import open_session
    from foregate.assembly.setting import SessionOptions

    setting = SessionOptions(model=REHEARSAL, resume=name, moved_to=moved_to, by=find_identity())
    opened = await open_session(setting)
    options.print_problems(opened.notes if moved_to is not None else ())
    try:
        return await undo_change(opened.session, call or None, preview)
    finally:
        await opened.close(end=opened.follows_ended)
