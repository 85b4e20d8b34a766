"""The tools a module of the user's defines."""

from __future__ import annotations

from pathlib import Path

from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.user_files import load_module
from foregate.schemas.errors import UsageError


def load_tools(place: str) -> list[Tool]:
    """Return the tools of the module at `place`, a name or a path that ends in `.py`, in the order they are defined.

    The module is the user's own program: loading it runs it. Raises UsageError for a module that cannot be loaded and
    for one without tools.
    """
    module = load_module(place)
    found = {id(made): made for made in vars(module).values() if isinstance(made, Tool)}
    if not found:
        raise UsageError(f"`{place}` defines no tools; put `@foregate.tool` before functions in it")
    return list(found.values())


def find_file(place: str) -> Path | None:
    """Return the file a place names, None for the name of a module."""
    return Path(place).expanduser() if place.endswith(".py") else None
