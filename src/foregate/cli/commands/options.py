"""Options several commands share, said once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from foregate.cli.commands import options


def require_value(context: typer.Context, option: typer.CallbackParam, value: str | None) -> str | None:
    """Return what an option was given; raise BadParameter for nothing, as an unset variable of a script leaves it."""
    source = context.get_parameter_source(option.name or "")
    if value == "" and source is not None and source.name == "COMMANDLINE":
        raise typer.BadParameter("it was given without a value; write one, or leave the option out")
    return value


Model = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", help="Model at the configured endpoint; `rehearsal` needs none."),
]
WorkspaceFolder = Annotated[
    Path, typer.Option("--workspace", metavar="FOLDER", help="The one folder the agent works in.")
]
PolicyFile = Annotated[
    str | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="YAML over the default policy, or `classic`; also FOREGATE_POLICY.",
        callback=require_value,
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="YAML over the default configuration; also FOREGATE_CONFIG."),
]
Dialect = Annotated[
    str | None,
    typer.Option(
        "--dialect",
        metavar="NAME",
        help="How the model makes its calls: native, json, action_tags, service_tags or auto.",
        show_default=False,
    ),
]
ToolModules = Annotated[
    list[str] | None,
    typer.Option("--tools", metavar="FILE.py", help="A Python file, or module, with tools of yours; repeatable."),
]
McpFile = Annotated[
    Path | None,
    typer.Option("--mcp", metavar="FILE", help="JSON that lists MCP servers (`mcpServers`); also FOREGATE_MCP."),
]
Runtime = Annotated[
    str,
    typer.Option(
        "--runtime",
        metavar="URL",
        help="Use the tools of `foregate tools serve --ws`.",
        show_default=False,
        callback=require_value,
    ),
]
InsecureRuntime = Annotated[
    bool, typer.Option("--insecure-runtime", help="Allow ws:// to another machine: unencrypted.", show_default=False)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Judge every call, make no change.")]
SessionName = Annotated[
    str, typer.Argument(metavar="SESSION", help="A session's name, its beginning, or `last`.", show_default=False)
]
SessionNames = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[SESSION]...",
        help="Sessions by name, beginning, or `last`; all when none is named.",
        show_default=False,
    ),
]


def choose_servers_file(named: Path | None) -> Path | None:
    """Return the file of MCP servers a command goes by."""
    from foregate.agent.tools.mcp.server_configuration import find_servers_file

    return find_servers_file(named)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]


_SHARED: dict[str, tuple[Any, Any]] = {
    "model": (options.Model, None),
    "workspace": (options.WorkspaceFolder, Path()),
    "policy": (options.PolicyFile, None),
    "config": (options.ConfigFile, None),
    "dialect": (options.Dialect, None),
    "mcp": (options.McpFile, None),
    "runtime": (options.Runtime, ""),
    "insecure_runtime": (options.InsecureRuntime, False),
    "tools": (options.ToolModules, None),
}
"""Name, type and default of each."""


def opens_session(*, without: tuple[str, ...] = ()) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return what lets a command take these options, except those named, and calls it with `setting` in their place.

    A session that is resumed has its workspace already.
    """
    shared = {name: about for name, about in _SHARED.items() if name not in without}

    def wrap_command(command: Callable[..., None]) -> Callable[..., None]:
        del command.__annotations__["setting"]  # its type is loaded only when a command runs
        own = inspect.signature(command, eval_str=True).parameters
        parameters = [parameter for parameter in own.values() if parameter.name != "setting"]
        for name, (kind, default) in shared.items():
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))

        @wraps(command)
        def run_command(**given: Any) -> None:
            from foregate.assembly.setting import SessionOptions

            said = {name: given.pop(name) for name in shared}
            modules = said.pop("tools", None) or ()
            if "mcp" in said:
                said["mcp"] = options.choose_servers_file(said["mcp"])
            command(setting=SessionOptions(**said, tool_modules=modules), **given)

        run_command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run_command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run_command

    return wrap_command
