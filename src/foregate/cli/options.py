"""What several commands share, said once: options, those of every command that opens a session, and how they print."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from foregate.views.terminal.exit_codes import COMPLETED, run_async
from foregate.views.terminal.standard_streams import outlast_output

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json


def build_group(kind: type[typer.Typer] = typer.Typer) -> typer.Typer:
    return kind(no_args_is_help=True, add_completion=False, rich_markup_mode=None)


class HomeGroup(typer.Typer):
    """A group of commands that each take `--home`: the folder whose log they work on, instead of the usual one."""

    def command(self, *named: Any, **about: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:  # type: ignore[override]
        """Return what makes a function a command of the group."""
        add = super().command(*named, **about)
        return lambda command: add(take_home(command))


_HOME = "The folder with the log, also a copy you may only read; else FOREGATE_HOME."


def take_home(command: Callable[..., Any]) -> Callable[..., Any]:
    """Return a command that takes `--home`, too."""
    kind = Annotated[Path | None, take("--home", _HOME, "FOLDER")]
    own = [*inspect.signature(command, eval_str=True).parameters.values()]
    home = inspect.Parameter("home", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)

    @wraps(command)
    def run_command(*, home: Path | None = None, **given: Any) -> Any:
        from foregate.assembly.home import choose_home

        with choose_home(home):
            return command(**given)

    parameters = [*own, home]
    run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run_command


def take(flag: str, meaning: str, metavar: str | None = None, **more: Any) -> Any:
    """Take an option: return what Typer is told of it."""
    return typer.Option(flag, metavar=metavar, help=meaning, **more)


def require_value(context: typer.Context, option: typer.CallbackParam, value: str | None) -> str | None:
    """Return what an option was given; raise BadParameter for nothing, as an unset variable of a script leaves it."""
    source = context.get_parameter_source(option.name or "")
    if value == "" and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter("it was given without a value; write one, or leave the option out")
    return value


WorkspaceFolder = Annotated[Path, take("--workspace", "The one folder the agent works in.", "FOLDER")]
_POLICY = "YAML over the default policy, or cheap, balanced, strong or classic; also FOREGATE_POLICY."
PolicyFile = Annotated[str | None, take("--policy", _POLICY, "FILE", callback=require_value)]
_CONFIG = "YAML over the default configuration; also FOREGATE_CONFIG."
ConfigFile = Annotated[Path | None, take("--config", _CONFIG, "FILE")]
DryRun = Annotated[bool, take("--dry-run", "Judge every call, make no change.")]
SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="A session's name, its beginning, or `last`.")]
_SESSIONS = "Sessions by name, beginning, or `last`; all when none is named."
SessionNames = Annotated[list[str] | None, typer.Argument(metavar="SESSION", help=_SESSIONS)]
AsJson = Annotated[bool, take("--json", "Print JSON for scripts.")]
_ASSUME = "What is said where the log holds no answer, as in `planner=accept,critic=accept,person=yes,model=same`."
Assume = Annotated[str | None, take("--assume", _ASSUME, "WHO=WHAT,...", callback=require_value)]
_RAY = "Judge on the Ray cluster at HOST:PORT; `auto` finds one, `local` starts one here."
OnRay = Annotated[str | None, take("--ray", _RAY, "ADDRESS", callback=require_value)]
AsCsv = Annotated[str, take("--csv", "Write a CSV file; `-` is standard output.", "FILE")]
AsParquet = Annotated[Path | None, take("--parquet", "Write a Parquet file.", "FILE")]
Overwrite = Annotated[bool, take("--overwrite", "Replace FILE where it is there already.")]


_MODEL = "Model at the configured endpoint; `rehearsal` needs none."
_DIALECT = "How the model makes its calls: native, json, action_tags, service_tags or auto."
_MCP = "JSON that lists MCP servers (`mcpServers`); also FOREGATE_MCP."
_RUNTIME = "Use the tools of `foregate tools serve --ws`."
_INSECURE = "Allow ws:// to another machine: unencrypted."
_TOOLS = "A Python file, or module, with tools of yours; repeatable."
_SHARED: dict[str, tuple[Any, Any]] = {
    "model": (Annotated[str | None, take("--model", _MODEL, "NAME")], None),
    "workspace": (WorkspaceFolder, Path()),
    "policy": (PolicyFile, None),
    "config": (ConfigFile, None),
    "dialect": (Annotated[str | None, take("--dialect", _DIALECT, "NAME")], None),
    "mcp": (Annotated[Path | None, take("--mcp", _MCP, "FILE")], None),
    "runtime": (Annotated[str, take("--runtime", _RUNTIME, "URL", callback=require_value)], ""),
    "insecure_runtime": (Annotated[bool, take("--insecure-runtime", _INSECURE)], False),
    "tools": (Annotated[list[str] | None, take("--tools", _TOOLS, "FILE.py")], None),
}
"""Name, type and default of each."""


def opens_session(*, without: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Return what lets a command take these options as one `setting`, except those named: a session that is resumed has
    its workspace already. A command that is asynchronous may return its exit code."""
    shared = {name: about for name, about in _SHARED.items() if name not in without}

    def wrap_command(command: Callable[..., Any]) -> Callable[..., None]:
        # Its type is loaded only when a command runs.
        del command.__annotations__["setting"]
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [parameter for parameter in own.values() if parameter.name != "setting"]
        for name, (kind, default) in shared.items():
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))

        @wraps(command)
        def run_command(**given: Any) -> None:
            from foregate.agent.tools.mcp.server_configuration import SERVERS_FILE
            from foregate.assembly.identity import find_identity
            from foregate.assembly.setting import SessionOptions

            outlast_output()
            said = {name: given.pop(name) for name in shared}
            if "mcp" in said:
                said["mcp"] = SERVERS_FILE.find(said["mcp"], os.environ)
            setting = SessionOptions(tool_modules=said.pop("tools", None) or (), by=find_identity(), **said)
            done = command(setting=setting, **given)
            if inspect.iscoroutine(done):
                raise typer.Exit(run_async(done) or COMPLETED)

        run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run_command

    return wrap_command


def print_json(value: Json, *, err: bool = False) -> None:
    """Print a value for scripts, on a line."""
    from foregate.views.terminal.scripting import to_json_line

    typer.echo(to_json_line(value), err=err)


def print_json_rows(rows: Iterable[Json]) -> None:
    """Print a list for scripts: a line of JSON for each entry, so that its length does not matter."""
    for row in rows:
        print_json(row)


def print_text(text: str, *, err: bool = False) -> None:
    """Print a line for people, whatever it holds made visible: on a terminal broken between words where it is wider."""
    from foregate.schemas.visible import make_visible

    print_folded(make_visible(text), err=err)


def print_folded(shown: str, *, err: bool = False) -> None:
    """Print what is visible already: broken between words where it is wider than the terminal, and still indented."""
    pieces, width = [shown], measure_terminal(err=err)
    if width and len(shown) * 2 > width:
        from foregate.views.terminal.layout import count_columns, fold_text

        said = shown.lstrip(" ")
        begin = " " * min(len(shown) - len(said), width // 2)
        if count_columns(shown) > width:
            pieces = [begin + piece for piece in fold_text(said, max(8, width - len(begin) - 2), whole=True)]
    for number, piece in enumerate(pieces):
        typer.echo(f"{'  ' if number else ''}{piece}", err=err)


def print_problems(sentences: Iterable[str]) -> None:
    """Print sentences that say what is wrong on standard error."""
    for sentence in sentences:
        print_problem(sentence)


def print_problem(sentence: str) -> None:
    """Print a sentence that says what is wrong on standard error."""
    print_text(f"foregate: {sentence}", err=True)


def measure_terminal(*, err: bool = False) -> int:
    """Return the columns of the terminal that is printed to, 0 where that is none."""
    if not (sys.stderr if err else sys.stdout).isatty():
        return 0
    from foregate.views.terminal.layout import build_console

    return build_console(stderr=err).width
