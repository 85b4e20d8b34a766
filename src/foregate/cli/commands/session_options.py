"""The options of every command that opens a session, said once.

Such a command is given the `SessionOptions` they make.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from foregate.cli.commands import options

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
