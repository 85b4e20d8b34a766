"""The options a command shares with all others that open a session reach it as one setting."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from foregate.assembly.identity import find_identity
from foregate.assembly.setting import SessionOptions
from foregate.cli.options import opens_session

EVERY = [
    "--model", "m", "--workspace", "w", "--policy", "p", "--config", "c", "--dialect", "json", "--mcp", "s.json",
    "--runtime", "ws://h", "--insecure-runtime", "--tools", "a.py", "--tools", "b.py",
]  # fmt: skip


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No file of servers but one that is named."""
    monkeypatch.delenv("FOREGATE_MCP", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def given(arguments: list[str], *without: str) -> Any:
    """Return the setting a command gets that is called with `arguments`."""
    app, seen = typer.Typer(), []

    @app.command()
    @opens_session(without=without)
    def command(setting: SessionOptions, word: str, loud: bool = False) -> None:
        seen.append((setting, word, loud))

    result = CliRunner().invoke(app, arguments)
    return seen[0] if seen else result.output


def test_every_option_given_is_in_the_setting_and_the_commands_own_stay_its_own() -> None:
    setting, word, loud = given(["hello", "--loud", *EVERY])
    assert (word, loud) == ("hello", True)
    assert setting == SessionOptions(
        model="m",
        workspace=Path("w"),
        policy="p",
        config=Path("c"),
        dialect="json",
        mcp=Path("s.json"),
        runtime="ws://h",
        insecure_runtime=True,
        tool_modules=["a.py", "b.py"],
        by=find_identity(),
    )


def test_what_is_not_given_is_as_a_setting_has_it() -> None:
    setting, _, _ = given(["hello"])
    assert setting == SessionOptions(workspace=Path(), by=find_identity())


def test_an_option_a_command_goes_without_is_none_of_its_options() -> None:
    assert "No such option: --workspace" in given(["hello", "--workspace", "w"], "workspace")
    assert given(["hello"], "workspace", "mcp", "tools")[0] == SessionOptions(by=find_identity())


def test_the_options_of_a_session_stand_behind_those_of_the_command() -> None:
    @opens_session()
    def command(setting: SessionOptions, word: str, loud: bool = False) -> None:
        """Do it."""

    assert list(inspect.signature(command).parameters)[:3] == ["word", "loud", "model"]
