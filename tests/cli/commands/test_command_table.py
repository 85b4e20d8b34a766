"""The commands are found without being built."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from foregate import cli
from foregate.cli.app import COMMANDS, app


def test_the_list_of_commands_reads_none_of_their_files() -> None:
    files = {f"foregate.cli.{place.file}" for place in COMMANDS.values()}
    code = "import sys; from foregate.cli.app import main; main(['--help']);"
    code += f"assert not {files} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("group", [name for name, place in COMMANDS.items() if place.within])
def test_a_group_lists_its_commands_and_reads_none_of_their_files(group: str) -> None:
    files = {f"foregate.cli.{place.file}" for place in COMMANDS[group].within.values()}
    code = f"import sys; from foregate.cli.app import main; main(['{group}', '--help']);"
    code += f"assert not {files} & sys.modules.keys()"
    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    for name, place in COMMANDS[group].within.items():
        assert f"  {name} " in shown
        assert place.meaning in shown


@pytest.mark.parametrize("group", [name for name, place in COMMANDS.items() if place.within])
def test_every_command_of_a_group_is_in_its_table_whichever_file_adds_it(group: str) -> None:
    for place in COMMANDS[group].within.values():
        importlib.import_module(f"foregate.cli.{place.file}")
    added = importlib.import_module(f"foregate.cli.{COMMANDS[group].file}").app.registered_commands
    built = typer.main.get_command(app).commands[group].commands
    assert {one.name for one in added} == {*built}
    assert [built[name].get_short_help_str(90) for name in COMMANDS[group].within] == [
        place.meaning for place in COMMANDS[group].within.values()
    ]


def test_every_file_of_commands_is_read_once_all_are_built() -> None:
    group = typer.main.get_command(app)
    shown = [command.get_short_help_str(80) for command in group.commands.values()]
    assert shown[: len(COMMANDS)] == [place.meaning for place in COMMANDS.values()]
    folder = Path(cli.__file__).parent
    with_commands = {file.stem for file in folder.glob("*.py") if "app.command(" in file.read_text(encoding="utf-8")}
    named = {one.file for place in COMMANDS.values() for one in (place, *place.within.values())}
    assert with_commands - {"app"} <= named


def test_a_group_has_its_commands_in_one_order_whichever_of_its_files_is_read_first() -> None:
    late = [*COMMANDS["policy"].within.values()][-1].file
    code = f"import foregate.cli.{late}; from foregate.cli.app import main; main(['policy', '--help'])"
    plain = "from foregate.cli.app import main; main(['policy', '--help'])"
    shown = [
        subprocess.run([sys.executable, "-c", one], capture_output=True, check=True).stdout for one in (code, plain)
    ]
    assert shown[0] == shown[1] != b""
