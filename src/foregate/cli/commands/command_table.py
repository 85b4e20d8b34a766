"""The commands by name, each read and built when it is first asked for: `--help` and `chat` pay for no other."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from copy import copy
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

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
