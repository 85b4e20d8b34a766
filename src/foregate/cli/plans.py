"""`foregate plans`: the plans of the log, and resuming one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.listing import Forms, show_list
from foregate.cli.options import opens_session
from foregate.cli.plan import Step, Yes
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import COMPLETED, ERROR, run_async
from foregate.views.terminal.listing import Column, Listing

if TYPE_CHECKING:
    from foregate.agent.loop.reconcile import ReconciledCall
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.event_body import KnownOutcome
    from foregate.schemas.strict_json import Json
    from foregate.schemas.task_plan import FailureChoice
    from foregate.views.terminal.plan_work import Course, PlanWork

app = options.build_group()

PlanName = Annotated[
    str, typer.Argument(metavar="PLAN", help="A plan as `list` names it, a session's beginning, `last`, or an id.")
]


PLANS = Listing(
    "plan",
    (
        Column("name", head="PLAN"),
        Column("proposed", "time", head="MADE"),
        Column("", head="DONE", show=lambda row: f"{row['done']}/{row['tasks']}"),
        Column("", head="FAILED", show=lambda row: str(row["failed"] or "-")),
        Column("state", head="STATE"),
        Column("goal", head="GOAL"),
    ),
)

WAYS: dict[str, FailureChoice] = {"go-on": "go_on", "retry": "retry", "rollback": "roll_back", "stop": "stop"}
"""How a plan that asks after a failure may go on."""


@app.command("list")
def list_plans(as_json: options.AsJson = False) -> None:
    """List the plans of the log, newest first; PLAN is the name the other commands take, MADE is UTC."""
    from foregate.assembly.home import open_home_log
    from foregate.views.terminal.plan_finding import list_log_plans, summarise_plan

    with open_home_log() as log:
        rows = [summarise_plan(entry) for entry in list_log_plans(log)]
    show_list(PLANS, rows, Forms(as_json=as_json))
    if not rows and not as_json:
        typer.echo("there are no plans yet; `foregate plan` makes one", err=True)


@app.command("show")
def show(plan: PlanName, as_json: options.AsJson = False) -> None:
    """Show a plan, and the status and result of each of its tasks."""
    from rich.console import Console

    from foregate.schemas import strict_json
    from foregate.views.terminal.layout import format_barred, format_labelled
    from foregate.views.terminal.plan_finding import find_plan, summarise_plan
    from foregate.views.terminal.plan_sheet import format_step_outcome
    from foregate.views.terminal.scripting import to_json_line

    entry = find_plan(plan)
    if as_json:
        results = [step.result for step in entry.state.steps.values()]
        tasks: list[Json] = [strict_json.dump(result) | {"success": result.success} for result in results]
        told: dict[str, Json] = {"plan": strict_json.dump(entry.state.current_plan), "results": tasks}
        typer.echo(to_json_line(summarise_plan(entry) | told | {"answer": entry.state.answer}))
        return
    console = Console(highlight=False, emoji=False, markup=False)
    for row in format_labelled("plan", f"{entry.state.current_plan.goal} ({entry.standing})", console.width, "bold"):
        console.print(row)
    for step in entry.state.steps.values():
        for row in format_step_outcome(step, console.width):
            console.print(row)
    if entry.state.answer:
        console.print(format_barred(entry.state.answer, console.width))


@app.command("resume")
@opens_session(without=("workspace",))
def resume(
    setting: SessionOptions,
    plan: PlanName,
    say: Annotated[str, typer.Option("--say", metavar="WORDS", help="The answer to what the plan asked.")] = "",
    failed: Annotated[
        str, typer.Option("--failed", metavar="CHOICE", help="After a failure: go-on, retry, rollback or stop.")
    ] = "",
    step: Step = False,
    as_json: options.AsJson = False,
) -> None:
    """Resume a plan that was paused, or whose process ended. What is done is not done again."""
    from foregate.views.terminal.plan_finding import newest_plan
    from foregate.views.terminal.plan_work import go_on

    if failed and failed not in WAYS:
        raise UsageError(f"--failed is one of {', '.join(WAYS)}")
    name = newest_plan(plan).session
    setting.resume = name

    async def go(work: PlanWork) -> Course:
        from foregate.agent.planning.control import decide
        from foregate.agent.planning.next_step import list_undecided

        task = work.opened.session.state.task
        if not work.state.running or task is None:
            raise UsageError(f"this plan is not under way; `foregate plans retry {name}` or `foregate execute {name}`")
        words = say
        if task.paused == "needs_input" and not say:
            work.screen.show_question(task.question)
            words = await work.terminal.read_answer("you> ") or ""
            if not words.strip():
                raise UsageError("the plan waits for an answer; give it with --say")
        if task.paused == "needs_input":
            await work.opened.session.record_message(words)
        if choice := WAYS.get(failed) or (None if work.terminal.interactive else "go_on"):
            for step_failed in list_undecided(work.state):
                await decide(work.opened.session, work.state, step_failed, choice)
        work.driver.step = step
        return await work.drive(work.driver.run()), True

    raise typer.Exit(run_async(go_on(setting, go, as_json)))


@app.command("retry")
@opens_session(without=("workspace",))
def retry(
    setting: SessionOptions,
    plan: PlanName,
    task: Annotated[int, typer.Option("--task", metavar="N", help="Only this task.")] = 0,
    yes: Yes = False,
    step: Step = False,
    as_json: options.AsJson = False,
) -> None:
    """Try the tasks again that failed or were aborted, after another yes. What is done is not done again."""
    from foregate.views.terminal.plan_finding import newest_plan
    from foregate.views.terminal.plan_work import go_on

    name = newest_plan(plan).session
    setting.resume = name

    async def go(work: PlanWork) -> Course:
        from foregate.agent.planning.control import reset_failed_tasks

        await reset_failed_tasks(work.opened.session, work.state, task)
        return await work.take_through(yes=yes, step=step)

    raise typer.Exit(run_async(go_on(setting, go, as_json)))


@app.command("resolve")
def resolve(
    plan: PlanName,
    call: Annotated[
        str, typer.Argument(metavar="CALL", help="The call, as `plans show` names it; not needed where it is one.")
    ] = "",
    done: Annotated[bool, typer.Option("--done", help="It took effect: it is not sent again.")] = False,
    not_done: Annotated[bool, typer.Option("--not-done", help="It did not: a retry may send it again.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Record the outcome of a call that is unknown. Without --done or --not-done Foregate only tries to find it out."""
    from foregate.evidence.state.conversation import CAME
    from foregate.views.terminal.layout import make_visible
    from foregate.views.terminal.plan_finding import newest_plan
    from foregate.views.terminal.scripting import to_json_line

    if done and not_done:
        raise UsageError("--done and --not-done exclude each other; choose one")
    name = newest_plan(plan).session
    found, left = run_async(_resolve_call(name, call, "done" if done else "not_done" if not_done else None))
    if as_json:
        typer.echo(to_json_line({"session": name, "found": [one._asdict() for one in found], "unknown": list(left)}))
    else:
        for one in found:
            typer.echo(f"{one.call} {CAME[one.outcome]}")
        for known, what in left.items():
            typer.echo(f"foregate: it is unknown whether {make_visible(what)} ({known}) took effect", err=True)
        if not found and not left:
            typer.echo("the outcome of every call is known")
    raise typer.Exit(ERROR if left else COMPLETED)


async def _resolve_call(name: str, call: str, said: KnownOutcome | None) -> tuple[list[ReconciledCall], dict[str, str]]:
    from foregate.agent.loop.reconcile import list_open_calls, resolve_outcomes
    from foregate.assembly.choices import REHEARSAL
    from foregate.assembly.open import open_session
    from foregate.assembly.setting import SessionOptions

    opened = await open_session(SessionOptions(model=REHEARSAL, resume=name))
    try:
        return await resolve_outcomes(opened.session, call, said), list_open_calls(opened.session)
    finally:
        await opened.close(end=opened.follows_ended)


@app.command("rollback")
def rollback(plan: PlanName, config: options.ConfigFile = None, as_json: options.AsJson = False) -> None:
    """Undo what a plan did, newest first; what cannot be undone is named, and the exit code is 1."""
    from foregate.views.terminal.layout import make_visible
    from foregate.views.terminal.plan_finding import newest_plan
    from foregate.views.terminal.scripting import to_json_line

    entry = newest_plan(plan)
    if not entry.state.confirmed:
        raise UsageError("this plan has not run, so there is nothing to take back")
    undone, left = run_async(_roll_back(entry.session, config))
    if as_json:
        typer.echo(to_json_line({"session": entry.session, "undone": undone, "not_undone": left}))
    else:
        for what in undone:
            typer.echo(f"taken back: {make_visible(what)}")
        for what in left:
            typer.echo(f"foregate: not undone: {make_visible(what)}", err=True)
        if not undone and not left:
            typer.echo("there was nothing to take back")
    raise typer.Exit(ERROR if left else COMPLETED)


async def _roll_back(name: str, config: Path | None) -> tuple[list[str], list[str]]:
    """Return what was undone, and what could not be."""
    from foregate.agent.planning.control import follow_plan, roll_back_plans
    from foregate.assembly.choices import REHEARSAL
    from foregate.assembly.open import open_session
    from foregate.assembly.setting import SessionOptions

    opened = await open_session(SessionOptions(model=REHEARSAL, config=config, resume=name))
    try:
        state = await follow_plan(opened.session)
        before = state.calls_undone
        left = await roll_back_plans(opened.session, state)
        return [f"{call.tool} {call.target}".strip() for call in state.calls_undone if call not in before], left
    finally:
        await opened.close()
