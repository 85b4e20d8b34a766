"""The command line: which commands there are, and what becomes of an error. What commands do lies in their files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from foregate.cli.commands import (
    acp,
    approvals,
    audit,
    audit_export,  # noqa: F401  # it adds its commands to those of `audit`
    audit_proof,  # noqa: F401  # it adds its commands to those of `audit`
    audit_queries,  # noqa: F401  # it adds its commands to those of `audit`
    audit_review,  # noqa: F401  # it adds its commands to those of `audit`
    completion,
    configuration,
    console,
    doctor,
    execute,
    log,
    options,
    permissions,
    plan,
    plans,
    policy,
    policy_case,  # noqa: F401  # it adds its command to those of `policy`
    policy_check,  # noqa: F401  # it adds its commands to those of `policy`
    policy_diff,  # noqa: F401  # it adds its commands to those of `policy`
    policy_explain,  # noqa: F401  # it adds its commands to those of `policy`
    policy_fuzz,  # noqa: F401  # it adds its command to those of `policy`
    policy_levers,  # noqa: F401  # it adds its command to those of `policy`
    policy_new,  # noqa: F401  # it adds its commands to those of `policy`
    policy_rehearse,  # noqa: F401  # it adds its commands to those of `policy`
    policy_set,  # noqa: F401  # it adds its commands to those of `policy`
    policy_shadow,  # noqa: F401  # it adds its commands to those of `policy`
    policy_show,  # noqa: F401  # it adds its commands to those of `policy`
    policy_suggest,  # noqa: F401  # it adds its command to those of `policy`
    policy_sweep,  # noqa: F401  # it adds its commands to those of `policy`
    policy_test,  # noqa: F401  # it adds its command to those of `policy`
    policy_what_if,  # noqa: F401  # it adds its commands to those of `policy`
    sessions,
    tools,
    trajectories,
)
from foregate.cli.terminal.exit_codes import ERROR, STATUS, USAGE, exit_code_of, run_async
from foregate.cli.terminal.nearest import suggest_nearest
from foregate.cli.terminal.standard_streams import describe_loss, find_output
from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.version import __version__
from foregate.telemetry.diagnostics import get_diagnostics

app = typer.Typer(
    name="foregate",
    help="An agent loop that checks before it acts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("chat", short_help="Talk with the agent at this terminal.")(sessions.chat)
app.command("run", short_help="Do one task without a person.")(sessions.run)
app.command("resume", short_help="Answer what a session waits for.")(sessions.resume)
app.add_typer(approvals.app, name="approvals")
app.command("plan", short_help="Have a plan made, or check one.")(plan.plan)
app.command("execute", short_help="Confirm a plan and run it.")(execute.execute)
app.add_typer(plans.app, name="plans")
app.command("acp", short_help="Serve an editor.")(acp.acp)
app.command("undo", short_help="Undo a change of a session.")(sessions.undo)
app.add_typer(audit.app, name="audit")
app.command("console", short_help="Show it all in a browser.")(options.take_home(console.console))
app.add_typer(log.app, name="log")
app.add_typer(policy.app, name="policy")
app.add_typer(configuration.app, name="config")
app.add_typer(permissions.app, name="permissions")
app.add_typer(tools.app, name="tools")
app.command("doctor", short_help="Show what this machine lets Foregate do.")(doctor.doctor)
app.add_typer(trajectories.app, name="trajectories")
app.command(
    "completion",
    short_help="Print what makes a shell complete `foregate`.",
    context_settings={"allow_interspersed_args": False},
)(completion.complete)


@app.command("demo", short_help="Show a session with every ruling.")
def demo() -> None:
    """Show a session in a workspace of its own, with every ruling; needs no model and no network."""
    from foregate.cli.demo.demo import show_demo

    run_async(show_demo())


@app.command("help", short_help="Show what a command does and takes.")
def show_help(
    context: typer.Context,
    command: Annotated[list[str] | None, typer.Argument(metavar="COMMAND", help="As in `help audit show`.")] = None,
) -> None:
    """Show what a command does and takes, as `--help` after it does; without one, the commands."""
    here = context.find_root()
    for name in command or ():
        children: Mapping[str, Any] = getattr(here.command, "commands", {})
        if name not in children:
            raise UsageError(f"there is no command `{here.command_path} {name[:40]}`{suggest_nearest(name, children)}")
        here = typer.Context(children[name], info_name=name, parent=here)
    typer.echo(here.get_help())


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"foregate {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("-V", "--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """An agent loop that checks before it acts."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code; an error meant for people is one sentence on standard error."""
    code = _run_command(arguments)
    output = find_output()
    try:
        sys.stdout.flush()
    except OSError as error:
        if output is None or output.failure is not error:
            raise
    if output is None or output.failure is None:
        return code
    options.print_problems(filter(None, (lost := describe_loss(output.failure),)))
    return code if output.outlasts and not lost else code or ERROR


def _run_command(arguments: list[str] | None) -> int:
    try:
        get_diagnostics()
        code = app(args=arguments, prog_name="foregate", standalone_mode=False)
    except ForegateError as error:
        options.print_problems([str(error)])
        return exit_code_of(error)
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(error.format_message(), err=True)
            return USAGE
        said = error.format_message().rstrip(".")
        context = getattr(error, "ctx", None)  # of the command that was misused, which not every such error names
        command = context.command_path if context is not None else "foregate"
        options.print_problems([said if said.endswith("?") else f"{said}; see `{command} --help`"])
        return USAGE
    except (KeyboardInterrupt, typer.Abort):
        return STATUS["cancelled"]
    except OSError as error:
        if (output := find_output()) is None or output.failure is not error:
            raise
        return ERROR
    return code if isinstance(code, int) else 0
