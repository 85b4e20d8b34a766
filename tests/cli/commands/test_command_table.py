"""The commands are found without being built."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer.main

from foregate.cli import commands
from foregate.cli.commands.app import COMMANDS, app


def test_the_list_of_commands_reads_none_of_their_files() -> None:
    files = {f"foregate.cli.commands.{place.file}" for place in COMMANDS.values()}
    code = "import sys; from foregate.cli.commands.app import main; main(['--help']);"
    code += f"assert not {files} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_every_file_of_commands_is_read_once_all_are_built() -> None:
    group = typer.main.get_command(app)
    shown = [command.get_short_help_str(80) for command in group.commands.values()]
    assert shown[: len(COMMANDS)] == [place.meaning for place in COMMANDS.values()]
    folder = Path(commands.__file__).parent
    with_commands = {file.stem for file in folder.glob("*.py") if "app.command(" in file.read_text(encoding="utf-8")}
    named = {file for place in COMMANDS.values() for file in (place.file, *place.others)}
    assert with_commands - {"app"} <= named


def test_a_group_has_its_commands_in_one_order_whichever_of_its_files_is_read_first() -> None:
    late, *_ = COMMANDS["policy"].others[::-1]
    code = (
        f"import foregate.cli.commands.{late}; from foregate.cli.commands.app import main; main(['policy', '--help'])"
    )
    plain = "from foregate.cli.commands.app import main; main(['policy', '--help'])"
    shown = [
        subprocess.run([sys.executable, "-c", one], capture_output=True, check=True).stdout for one in (code, plain)
    ]
    assert shown[0] == shown[1] != b""
