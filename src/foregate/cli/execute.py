"""`foregate execute`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.waiting import wait

if TYPE_CHECKING:
    from foregate.agent.planning.plan_report import PlanReport
    from foregate.agent.planning.plan_state import PlanState
    from foregate.cli.plan_work import PlanWork
    from foregate.opening import Setting

Yes = Annotated[
    bool, typer.Option("--yes", help="Confirm the plan unseen. What the policy asks about or denies stays so.")
]
Step = Annotated[bool, typer.Option("--step", help="Ask before each task.")]


def execute(
    plan: Annotated[str, typer.Argument(metavar="FILE|PLAN", help="A plan file, or a planned session by its name.")],
    yes: Yes = False,
    step: Step = False,
    dry_run: options.DryRun = False,
    model: options.Model = None,
    workspace: options.WorkspaceFolder = Path(),
    policy: options.PolicyFile = None,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a plan, ask for a yes, and run it task by task; every call is judged. Ctrl-C pauses, twice cancels."""
    from foregate.cli.plan_finding import find_plan, recorded
    from foregate.cli.plan_work import plan_text
    from foregate.opening import Setting
    from foregate.schemas.errors import UsageError

    if yes and step:
        raise UsageError("--yes and --step exclude each other; choose one")
    setting = Setting(workspace=workspace, model=model, policy=policy, config=config, dry_run=dry_run)
    file = Path(plan)
    text = plan_text(file) if file.is_file() else ""
    again = None
    if not text:
        session, state = find_plan(plan)
        if state.confirmed or dry_run:  # a session holds one run's history; another run of the plan gets its own
            again, setting.workspace = state, Path(recorded(session))
        else:
            setting.resume = session
    raise typer.Exit(wait(_execute(setting, text, again, yes, step, as_json)))


async def _execute(setting: Setting, text: str, again: PlanState | None, yes: bool, step: bool, as_json: bool) -> int:
    from foregate.agent.planning.control import propose
    from foregate.cli.exit_codes import USAGE
    from foregate.cli.plan_going import gone_on

    sound = True

    async def go(work: PlanWork) -> PlanReport | None:
        nonlocal sound
        if text:
            found = work.checked(text)
            work.told(found)
            sound = found.sound
            if not sound:
                return None
            await propose(work.opened.session, found.plan, actor="person", notes=found.notes)
        elif again is not None:
            await propose(work.opened.session, again.known, actor="planner" if again.planned else "person")
        run = await work.confirmed(yes=yes or setting.dry_run, step=step)
        return await work.carry_on(run) if run is not None else None

    code = await gone_on(setting, go, as_json)
    return code if sound else USAGE
