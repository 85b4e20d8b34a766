"""The commands by name, each read and built when it is first asked for: `--help` and `chat` pay for no other."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

_FOLDER = __package__


class Place(NamedTuple):
    """Where a command lies: a file beside this one that holds its function, or its group in `app`, and what it does.

    `others` are files that add their commands to the group when they are imported. `settings` are of its context.
    """

    meaning: str
    file: str
    function: str = "app"
    others: tuple[str, ...] = ()
    settings: Mapping[str, Any] = {}

    def build_command(self, name: str) -> Any:
        """Import the files and return the command; those of a group in the order of its files, whichever came first."""
        files = [f"{_FOLDER}.{file}" for file in (self.file, *self.others)]
        first, *_ = map(import_module, files)
        found = getattr(first, self.function)
        if isinstance(found, typer.Typer):
            found.info.help = self.meaning
            found.registered_commands.sort(key=lambda one: files.index(one.callback.__module__))
            return typer.main.get_command(found)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None)
        alone.command(name, short_help=self.meaning, context_settings={**self.settings})(found)
        return typer.main.get_command(alone)


class CommandTable(UserDict[str, Any]):
    """Commands by name in their order; one that still is a `Place` is built when it is read."""

    def __getitem__(self, name: str) -> Any:
        found = self.data[name]
        if isinstance(found, Place):
            found = self.data[name] = found.build_command(name)
        return found

    def list_meanings(self, width: int) -> list[tuple[str, str]]:
        """Return each name with what the command does, in at most `width` characters; nothing is built."""
        return [
            (name, found.meaning if isinstance(found, Place) else found.get_short_help_str(width))
            for name, found in self.data.items()
        ]


class LateGroup(TyperGroup):
    """A group of commands most of which are built only when they are asked for."""

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
