"""The command line: which commands there are, and what becomes of an error. What commands do lies in their files."""

from __future__ import annotations

import sys
from collections import UserDict
from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.core
from typer.core import TyperGroup

from foregate.cli import options
from foregate.schemas.errors import ForegateError, UsageError
from foregate.schemas.version import __version__
from foregate.telemetry.diagnostics import get_diagnostics
from foregate.views.terminal.exit_codes import ERROR, STATUS, USAGE, exit_code_of, run_async
from foregate.views.terminal.nearest import suggest_nearest
from foregate.views.terminal.standard_streams import describe_loss, find_output


def read_values_late() -> None:
    """Have typer prepare the check of a value when the first one is there, not for options that were left out.

    A version of typer that works otherwise is left alone.
    """
    build_check: Any = getattr(typer.core, "build_runtime_param", None)
    try:
        from typer._coercion import RuntimeParam, TypeDescriptor
    except ImportError:
        # Private names of typer's, which another version may lack.
        return
    if build_check is None:
        return

    class LateParam(RuntimeParam):
        """Checks one option's values; `None` is dealt with before, in the class of typer's."""

        def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
            if self.parameter_info.parser is None and is_plain_text(value, self.annotation):
                return value if isinstance(value, str) else [*value]
            param._runtime_param = build_check(param.type_descriptor)
            return param._runtime_param.coerce(value, param=param, ctx=ctx)

    def build_late(descriptor: TypeDescriptor) -> RuntimeParam:
        return LateParam(parameter_info=descriptor.parameter_info, annotation=descriptor.annotation)

    typer.core.build_runtime_param = build_late  # type: ignore[attr-defined]


def is_plain_text(value: Any, annotation: Any) -> bool:
    """Whether a value is text, or several, that every check of text lets pass unchanged; some do not pass bytes that
    are no UTF-8.

    >>> is_plain_text("a.txt", str), is_plain_text(("a", "b"), list[str])
    (True, True)
    >>> is_plain_text("1", int), is_plain_text("caf\\udce9", str)
    (False, False)
    """
    if annotation == list[str] and isinstance(value, (list, tuple)):
        return all(is_plain_text(one, str) for one in value)
    return annotation is str and isinstance(value, str) and value.isascii()


_FOLDER = __package__


class CommandPlace(NamedTuple):
    """Where a command lies: a file beside this one that holds its function, or its group in `app`, and what it does.

    `within` are the commands of a group that other files add to it, and `group` is theirs once that is built.
    `settings` are of its context.
    """

    meaning: str
    file: str
    function: str = "app"
    within: Mapping[str, CommandPlace] = {}
    settings: Mapping[str, Any] = {}
    group: typer.Typer | None = None

    def build_command(self, name: str) -> Any:
        """Import the file and return the command; those within it are built when they are asked for."""
        module = import_module(f"{_FOLDER}.{self.file}")
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        if self.group is not None:
            (known,) = (one for one in self.group.registered_commands if one.name == name)
            known.short_help = self.meaning
            alone.registered_commands = [known]
        elif isinstance(found := getattr(module, self.function), typer.Typer):
            found.info.help, found.info.cls = self.meaning, LateGroup
            # Without the commands of other files, which may have been read before.
            own = copy(found)
            own.registered_commands = [one for one in found.registered_commands if one.name not in self.within]
            built: Any = typer.main.get_group(own)
            built.commands.data |= {name: place._replace(group=found) for name, place in self.within.items()}
            return built
        else:
            alone.command(name, short_help=self.meaning, context_settings={**self.settings})(found)
        return typer.main.get_command(alone)


class CommandTable(UserDict[str, Any]):
    """Commands by name in their order; one that still is a `Place` is built when it is read."""

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, CommandPlace):
            found = self.data[name] = found.build_command(name)
        return found

    def list_meanings(self, width: int) -> list[tuple[str, str]]:
        """Return each name with what the command does, in at most `width` characters; nothing is built."""
        return [
            (name, found.meaning if isinstance(found, CommandPlace) else found.get_short_help_str(width))
            for name, found in self.data.items()
        ]


class LateGroup(TyperGroup):
    """A group of commands that are built only when they are asked for."""

    commands: CommandTable

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands = CommandTable(self.commands)

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names, in their order."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the names and what the commands do."""
        room = formatter.width - 6 - max(map(len, self.commands))
        with formatter.section("Commands"):
            formatter.write_dl(self.commands.list_meanings(room))


COMMANDS = {
    "chat": CommandPlace("Talk with the agent at this terminal.", "sessions", "chat"),
    "run": CommandPlace("Do one task without a person.", "sessions", "run"),
    "resume": CommandPlace("Answer what a session waits for.", "sessions", "resume"),
    "approvals": CommandPlace("List, show and answer questions that wait for you.", "approvals"),
    "plan": CommandPlace("Have a plan made, or check one.", "plan", "plan"),
    "execute": CommandPlace("Confirm a plan and run it.", "plan", "execute"),
    "plans": CommandPlace("List plans, and resume one.", "plans"),
    "undo": CommandPlace("Undo a change of a session.", "sessions", "undo"),
    "permissions": CommandPlace("What you permit in a workspace without being asked again.", "permissions"),
    "policy": CommandPlace(
        "Read, check, try and change the policy.",
        "policy",
        within={
            "case": CommandPlace("Cut a recorded decision to a test case.", "policy_test"),
            "check": CommandPlace("Check a policy file.", "policy_show"),
            "diff": CommandPlace("Say in words how two policies differ.", "policy_show"),
            "lint": CommandPlace("Find what in a policy file does not do what it says.", "policy_show"),
            "explain": CommandPlace("Say what a key does, and how often it decided lately.", "policy_explain"),
            "fuzz": CommandPlace("Look for calls that get around it.", "policy_test"),
            "levers": CommandPlace("Rank keys by the recorded decisions a change would have turned.", "policy_sweep"),
            "new": CommandPlace("Write a policy file to begin with.", "policy_show"),
            "schema": CommandPlace("Print the JSON Schema of a policy file.", "policy_show"),
            "set": CommandPlace("Change one key of your policy file.", "policy_set"),
            "apply": CommandPlace("Lay a suggestion over your policy file.", "policy_set"),
            "undo": CommandPlace("Bring back the former version of your policy file.", "policy_set"),
            "shadow": CommandPlace("Report what gates in shadow would have done.", "policy_explain"),
            "show": CommandPlace("Show what holds and where it comes from.", "policy_show"),
            "sources": CommandPlace("List whose fields tools return.", "policy_show"),
            "suggest": CommandPlace("Show what labels say of a change.", "policy_suggest"),
            "sweep": CommandPlace("Count what every value of a key would have done.", "policy_sweep"),
            "test": CommandPlace("Judge test cases under a policy.", "policy_test"),
            "try": CommandPlace("Try another policy file on recorded sessions.", "policy_try"),
            "what-if": CommandPlace("The former name of `try`.", "policy_try"),
            "rehearse": CommandPlace("The former name of `try --replay`.", "policy_try"),
        },
    ),
    "audit": CommandPlace(
        "Review the decisions of a session, and verify its log.",
        "audit",
        within={
            "export": CommandPlace("Write a session as one file that verifies itself.", "audit_proof"),
            "verify": CommandPlace("Verify the log of a session, or of all.", "audit_proof"),
            "keygen": CommandPlace("Make a key to sign checkpoints with.", "audit_proof"),
            "checkpoint": CommandPlace("Sign the heads of all sessions.", "audit_proof"),
            "prove": CommandPlace("Prove one event to somebody without the log.", "audit_proof"),
            "list": CommandPlace("List the sessions of the log, newest first.", "audit_queries"),
            "show": CommandPlace("Show the decision points of a session.", "audit_queries"),
            "decisions": CommandPlace("Find decisions in all sessions.", "audit_queries"),
            "search": CommandPlace("Find words in all sessions.", "audit_queries"),
            "stats": CommandPlace("Count what the gates did, and what that cost.", "audit_queries"),
            "diff": CommandPlace("Show where two sessions differ.", "audit_queries"),
            "review": CommandPlace("Review decisions, one at a time.", "audit_review"),
            "label": CommandPlace("Label one decision.", "audit_review"),
            "sign": CommandPlace("Sign a session off.", "audit_review"),
            "labels": CommandPlace("List the labels that were given.", "audit_review"),
        },
    ),
    "console": CommandPlace("Show it all in a browser.", "console", "console"),
    "log": CommandPlace("Keep the log: sizes, backup, copies, and what may go.", "log"),
    "trajectories": CommandPlace("Export sessions as data to learn from.", "trajectories"),
    "tools": CommandPlace("The tools the agent is offered.", "tools"),
    "config": CommandPlace("Show the configuration of plan mode, or check a file of it.", "configuration"),
    "acp": CommandPlace("Serve an editor.", "console", "acp"),
    "doctor": CommandPlace("Show what this machine lets Foregate do.", "doctor", "doctor"),
    "completion": CommandPlace(
        "Print what makes a shell complete `foregate`.",
        "completion",
        "complete",
        settings={"allow_interspersed_args": False},
    ),
}


class CommandGroup(LateGroup):
    """The commands of `foregate`."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands.data = {**COMMANDS, **self.commands.data}


read_values_late()
app = typer.Typer(
    name="foregate",
    cls=CommandGroup,
    help="An agent loop that checks before it acts.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("demo", short_help="Show a session with every ruling.")
def demo() -> None:
    """Show a session in a workspace of its own, with every ruling; needs no model and no network."""
    from foregate.cli.demo import show_demo

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
        # Of the command that was misused, which not every such error names.
        context = getattr(error, "ctx", None)
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
