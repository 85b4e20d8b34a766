"""`foregate plan` and `foregate plan check`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.session_options import opens_session
from foregate.cli.terminal.exit_codes import COMPLETED, STATUS, USAGE
from foregate.cli.terminal.waiting import wait
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from foregate.assembly.setting import Setting
    from foregate.schemas.strict_json import Json


@opens_session()
def plan(
    setting: Setting,
    words: Annotated[
        list[str], typer.Argument(metavar='"REQUEST" | check FILE', help="What to plan, or a plan file to check.")
    ],
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Also write the plan to this new file.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Have a plan made, checked and shown; nothing of it runs. `check FILE` only checks one."""
    if words[0] == "check" and (len(words) != 2 or save is not None):
        raise UsageError("name one plan file to check, and nothing to save")
    if words[0] == "check":
        raise typer.Exit(wait(_check(setting, Path(words[1]), as_json)))
    if len(words) != 1 or not words[0].strip():
        raise UsageError("say what to plan in one quoted argument, or `check FILE`")
    if save is not None and os.path.lexists(save):
        raise UsageError(f"`{save}` exists already; name a new file")
    if save is not None and not save.absolute().parent.is_dir():
        raise UsageError(f"`{save}` lies in no folder there is; make it, or name another file")
    raise typer.Exit(wait(_plan(setting, words[0], save, as_json)))


async def _plan(setting: Setting, request: str, save: Path | None, as_json: bool) -> int:
    from foregate.agent.planning.ask.planner import make_plan
    from foregate.agent.planning.confirm.control import decline, look_ahead
    from foregate.cli.plan.plan_file import saved
    from foregate.cli.plan.plan_sheet import plan_sheet
    from foregate.cli.plan.plan_work import found_json, work_of
    from foregate.cli.terminal.scripting import one_line

    work = await work_of(setting, as_json=as_json)
    opened, screen = work.opened, work.screen
    try:
        await work.begin()
        while True:
            screen.busy("planner")
            planning = await make_plan(opened.session, request, opened.roles.model("planning"), work.configuration)
            screen.idle()
            if planning.plan is not None or as_json or not work.terminal.interactive:
                break
            work.told(planning)
            screen.asks(planning.question)
            request = (await work.terminal.answer("you> ") or "").strip()
            if not request:
                return STATUS["needs_input"]
        plan = planning.plan
        if as_json:
            about: dict[str, Json] = {"session": opened.name, "tries": planning.tries}
            about |= {"digest": plan.digest if plan else None, **found_json(plan, planning)}
            asked = {"question": planning.question} if plan is None else {}
            typer.echo(one_line({**about, **asked}))
        else:
            work.told(planning, proposed=plan is not None)
        if plan is None:
            if not as_json:
                screen.asks(planning.question)
            return STATUS["needs_input"]
        if not as_json:
            looked = await look_ahead(opened.session, work.state, work.configuration.execution.target_uses)
            await decline(opened.session)
            screen.rows(plan_sheet(work.state, looked, width=screen.console.width))
            screen.say(f"nothing has run; foregate execute {opened.name} asks for your yes and runs it", "dim")
        if save is not None:
            saved(plan, save)
        return COMPLETED
    finally:
        await work.close()


async def _check(setting: Setting, file: Path, as_json: bool) -> int:
    from foregate.assembly.open import REHEARSAL
    from foregate.cli.plan.plan_file import plan_text
    from foregate.cli.plan.plan_work import found_json, work_of
    from foregate.cli.terminal.scripting import one_line
    from foregate.telemetry.log.memory_log import MemoryLog

    text = plan_text(file)
    setting.model, setting.log = REHEARSAL, MemoryLog()  # a check asks no model and leaves nothing in the log
    work = await work_of(setting, quiet=True)
    try:
        found = work.checked(text)
        if as_json:
            typer.echo(one_line({"sound": found.sound, "digest": found.plan.digest, **found_json(found.plan, found)}))
        else:
            work.told(found)
            count = len(found.plan.tasks)
            verdict = "sound" if found.sound else "not sound"
            work.screen.row(f"{verdict}: {count} task{'s' if count != 1 else ''}, {found.plan.goal}")
        return COMPLETED if found.sound else USAGE
    finally:
        await work.close()
