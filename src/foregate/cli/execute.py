"""`foregate execute`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.options import opens_session
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.event import Actor
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
