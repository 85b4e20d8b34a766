"""`foregate plan` and `foregate plan check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.waiting import wait

if TYPE_CHECKING:
    from foregate.opening import Setting


def plan(
    words: Annotated[
        list[str], typer.Argument(metavar='"REQUEST" | check FILE', help="What to plan, or a plan file to check.")
    ],
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Also write the plan to this new file.")
    ] = None,
    model: options.Model = None,
    workspace: options.WorkspaceFolder = Path(),
    policy: options.PolicyFile = None,
    config: options.ConfigFile = None,
    as_json: options.AsJson = False,
) -> None:
    """Have a plan made, checked and shown; nothing of it runs. `check FILE` only checks one."""
    from foregate.opening import Setting
    from foregate.schemas.errors import UsageError

    setting = Setting(workspace=workspace, model=model, policy=policy, config=config)
    if len(words) == 2 and words[0] == "check":
        raise typer.Exit(wait(_check(setting, Path(words[1]), as_json)))
    if len(words) != 1 or not words[0].strip():
        raise UsageError("say what to plan in one quoted argument, or `check FILE`")
    if save is not None and save.exists():
        raise UsageError(f"`{save}` exists already; name a new file")
    raise typer.Exit(wait(_plan(setting, words[0], save, as_json)))


async def _plan(setting: Setting, request: str, save: Path | None, as_json: bool) -> int:
    from foregate.agent.planning.control import decline, look_ahead
    from foregate.agent.planning.planner import make_plan
    from foregate.cli.exit_codes import COMPLETED, STATUS
    from foregate.cli.plan_person import written
    from foregate.cli.plan_sheet import defect_rows, plan_sheet
    from foregate.cli.plan_work import work_of
    from foregate.cli.scripting import one_line
    from foregate.schemas import codec

    work = await work_of(setting, as_json=as_json)
    opened, screen = work.opened, work.screen
    try:
        await work.begin()
        screen.busy("planner")
        planning = await make_plan(opened.session, request, work.model("planning"), work.configuration)
        while planning.plan is None and work.terminal.interactive and not as_json:
            screen.idle()
            screen.rows(defect_rows(planning.defects, "defect", screen.console.width))
            screen.asks(planning.question)
            again = await work.terminal.answer("you> ")
            if again is None or not again.strip():
                break
            screen.busy("planner")
            planning = await make_plan(opened.session, again, work.model("planning"), work.configuration)
        screen.idle()
        if as_json:
            plan = codec.dump(planning.plan) if planning.plan is not None else None
            defects = [codec.dump(defect) for defect in planning.defects]
            warnings = [codec.dump(defect) for defect in planning.warnings]
            found = {"plan": plan, "defects": defects, "warnings": warnings, "notes": list(planning.notes)}
            asked = {"question": planning.question} if planning.plan is None else {}
            typer.echo(one_line({"session": opened.name, "tries": planning.tries} | found | asked))
        if planning.plan is None:
            if not as_json:
                screen.rows(defect_rows(planning.defects, "defect", screen.console.width))
                screen.asks(planning.question)
            return STATUS["needs_input"]
        if save is not None:
            with save.open("x", encoding="utf-8") as file:
                file.write(written(planning.plan))
        if not as_json:
            screen.rows(defect_rows(planning.warnings, "warning", screen.console.width))
            looked = await look_ahead(opened.session, work.state)
            await decline(opened.session)
            screen.rows(plan_sheet(work.state, looked, width=screen.console.width))
            screen.say(f"nothing has run; foregate execute {opened.name} asks for your yes and runs it", "dim")
        return COMPLETED
    finally:
        await work.close()


async def _check(setting: Setting, file: Path, as_json: bool) -> int:
    from foregate.cli.exit_codes import COMPLETED, USAGE
    from foregate.cli.plan_work import plan_text, work_of
    from foregate.cli.scripting import one_line
    from foregate.opening import REHEARSAL
    from foregate.schemas import codec
    from foregate.telemetry.memory_log import MemoryLog

    text = plan_text(file)
    setting.model, setting.log = REHEARSAL, MemoryLog()  # a check asks no model and leaves nothing in the log
    work = await work_of(setting, quiet=True)
    try:
        found = work.checked(text)
        if as_json:
            wrong = {name: [codec.dump(d) for d in getattr(found, name)] for name in ("defects", "warnings")}
            typer.echo(
                one_line({"sound": found.sound, "notes": list(found.notes), "digest": found.plan.digest} | wrong)
            )
        else:
            work.told(found)
            count = len(found.plan.tasks)
            verdict = "sound" if found.sound else "not sound"
            work.screen.row(f"{verdict}: {count} task{'s' if count != 1 else ''}, {found.plan.goal}")
        return COMPLETED if found.sound else USAGE
    finally:
        await work.close()
