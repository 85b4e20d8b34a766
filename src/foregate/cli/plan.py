"""`foregate plan`, `plan check` and `execute`: having a plan made, checking one, and running it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.options import opens_session
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import COMPLETED, STATUS, USAGE, run_async

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.event import Actor
    from foregate.schemas.strict_json import Json
    from foregate.schemas.task_plan import TaskPlan
    from foregate.views.terminal.plan_work import Course, PlanWork

Yes = Annotated[
    bool, typer.Option("--yes", help="Confirm the plan unseen. What the policy asks about or denies stays so.")
]
Step = Annotated[bool, typer.Option("--step", help="Ask before each task.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Another value in a copy of the plan: 2.path=b.txt, 3.calls.1.message=Mend, 4.target=x. May be repeated.",
    ),
]


@opens_session()
def plan(
    setting: SessionOptions,
    words: Annotated[
        list[str], typer.Argument(metavar='"REQUEST" | check FILE', help="What to plan, or a plan file to check.")
    ],
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Also write the plan to this new file.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Make, check and show a plan; nothing of it runs. `check FILE` only checks one."""
    if words[0] == "check" and (len(words) != 2 or save is not None):
        raise UsageError("name one plan file to check, and nothing to save")
    if words[0] == "check":
        raise typer.Exit(run_async(_check_plan(setting, Path(words[1]), as_json)))
    if len(words) != 1 or not words[0].strip():
        raise UsageError("say what to plan in one quoted argument, or `check FILE`")
    if save is not None and os.path.lexists(save):
        raise UsageError(f"`{save}` exists already; name a new file")
    if save is not None and not save.absolute().parent.is_dir():
        raise UsageError(f"`{save}` lies in no folder there is; make it, or name another file")
    raise typer.Exit(run_async(_make_plan(setting, words[0], save, as_json)))


async def _make_plan(setting: SessionOptions, request: str, save: Path | None, as_json: bool) -> int:
    from foregate.agent.planning.control import end_declined, preview_open_tasks
    from foregate.agent.planning.planner import make_plan
    from foregate.views.terminal.plan_finding import save_plan
    from foregate.views.terminal.plan_sheet import format_plan_sheet
    from foregate.views.terminal.plan_work import dump_findings, open_plan_work
    from foregate.views.terminal.scripting import to_json_line

    async with open_plan_work(setting, as_json=as_json) as work:
        opened, screen = work.opened, work.screen
        await work.follow_plan()
        while True:
            screen.busy("planner")
            planning = await make_plan(opened.session, request, opened.roles.get_model("planning"), work.configuration)
            screen.idle()
            if not planning.question or as_json or not work.terminal.interactive:
                break
            work.show_findings(planning)
            screen.show_question(planning.question)
            request = (await work.terminal.read_answer("you> ") or "").strip()
            if not request:
                return STATUS["needs_input"]
        plan = planning.plan
        status = "completed" if plan is not None else "failed" if planning.unreachable else "needs_input"
        if as_json:
            about: dict[str, Json] = {"status": status, "session": opened.name, "tries": planning.tries}
            about |= {"digest": plan.digest if plan else None, **dump_findings(plan, planning)}
            typer.echo(to_json_line(about | ({} if plan else {"question": planning.question})))
        elif plan is None:
            work.show_findings(planning)
            if planning.question:
                screen.show_question(planning.question)
        else:
            work.show_findings(planning, proposed=True)
            looked = await preview_open_tasks(opened.session, work.state, work.configuration.execution.target_uses)
            await end_declined(opened.session)
            screen.rows(format_plan_sheet(work.state, looked, width=screen.console.width))
            screen.say(f"nothing has run; foregate execute {opened.name} asks for your yes and runs it", "dim")
        if plan is not None and save is not None:
            save_plan(plan, save)
        return STATUS[status]


async def _check_plan(setting: SessionOptions, file: Path, as_json: bool) -> int:
    from foregate.assembly.choices import REHEARSAL
    from foregate.telemetry.log.memory_log import MemoryLog
    from foregate.views.terminal.plan_finding import plan_text
    from foregate.views.terminal.plan_work import dump_findings, open_plan_work
    from foregate.views.terminal.scripting import to_json_line

    text = plan_text(file)
    # A check asks no model and leaves nothing in the log.
    setting.model, setting.log = REHEARSAL, MemoryLog()
    async with open_plan_work(setting, quiet=True) as work:
        found = work.check_plan(text)
        if as_json:
            about: dict[str, Json] = {"sound": found.is_sound, "digest": found.plan.digest}
            typer.echo(to_json_line(about | dump_findings(found.plan, found)))
        else:
            work.show_findings(found)
            count = len(found.plan.tasks)
            verdict = "sound" if found.is_sound else "not sound"
            work.screen.row(f"{verdict}: {count} task{'s' if count != 1 else ''}, {found.plan.goal}")
        return COMPLETED if found.is_sound else USAGE


@opens_session()
def execute(
    setting: SessionOptions,
    plan: Annotated[str, typer.Argument(metavar="FILE|PLAN", help="A plan file, or a plan of the log by its name.")],
    yes: Yes = False,
    step: Step = False,
    settings: Set = None,
    dry_run: options.DryRun = False,
    as_json: options.AsJson = False,
) -> None:
    """Show a plan, ask for a yes, and run it task by task; every call is judged. Ctrl-C pauses, twice cancels."""
    from foregate.agent.planning.planner import record_proposal
    from foregate.views.terminal.plan_finding import find_plan, plan_text, read_folder
    from foregate.views.terminal.plan_work import dump_findings, go_on
    from foregate.views.terminal.scripting import to_json_line

    if yes and step:
        raise UsageError("--yes and --step exclude each other; choose one")
    setting.dry_run = dry_run
    file, name = Path(plan), plan
    anew: str | TaskPlan | None = plan_text(file) if file.is_file() else None
    actor: Actor = "person"
    if anew is None:
        entry = find_plan(plan)
        # Another run has a session of its own.
        if entry.state.confirmed or dry_run or settings or not entry.latest:
            anew, name = entry.state.current_plan, entry.name
            actor = "planner" if entry.state.planned and not settings else "person"
            setting.workspace = Path(read_folder(entry.session))
        else:
            setting.resume = entry.session

    async def go(work: PlanWork) -> Course | None:
        if anew is not None:
            found = work.check_plan(anew, settings=settings or (), source=name)
            work.show_findings(found, proposed=found.is_sound)
            if not found.is_sound:
                if as_json:
                    typer.echo(to_json_line({"sound": False} | dump_findings(found.plan, found)))
                return None
            named = work.opened.session, found.plan, work.configuration
            await record_proposal(*named, actor=actor, notes=found.notes)
        return await work.take_through(yes=yes or setting.dry_run, step=step)

    raise typer.Exit(run_async(go_on(setting, go, as_json)))
