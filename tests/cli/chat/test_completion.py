"""Tab offers what can be typed here, and nothing a file's name holds can do harm by being offered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from foregate.agent.workspace.workspace import Workspace
from foregate.cli.chat import completion
from foregate.cli.chat.completion import Completions

COMMANDS = {"/undo": "take back", "/auto": "switch"}
ARGUMENTS = {"/undo": {"c8.1": "edit_file a\x1b[2J.txt", "c3.1": "write_file b"}, "/auto": {"on": "", "off": ""}}


async def arguments(command: str) -> Mapping[str, str]:
    """Return what may follow a command."""
    return ARGUMENTS[command]


async def offered(workspace: Workspace, text: str) -> list[Completion]:
    """Return what Tab offers after `text`."""
    completions = Completions(COMMANDS, workspace, arguments)
    return [c async for c in completions.get_completions_async(Document(text), CompleteEvent())]


async def typed(workspace: Workspace, text: str) -> list[str]:
    """Return the lines that taking each offer would make of `text`."""
    return [text[: len(text) + c.start_position] + c.text for c in await offered(workspace, text)]


@pytest.fixture(autouse=True)
def _files(folder: Path) -> None:
    """A few files, hidden ones, a folder, and links in and out of the workspace."""
    (folder / "src").mkdir()
    for name in ("main.py", "main test.py", "src/main.c", "src/.hidden", ".foregate.yaml", "\x1b[2J.txt", "a\u202eb"):
        (folder / name).touch()
    (folder / "out").symlink_to(folder.parent)
    (folder / "in").symlink_to("src")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/", ["/undo", "/auto"]),
        ("/un", ["/undo"]),
        ("/undo ", ["/undo c8.1", "/undo c3.1"]),
        ("/undo c3", ["/undo c3.1"]),
        ("/auto o", ["/auto on", "/auto off"]),
        ("/what ", ["/what in", "/what main test.py", "/what main.py", "/what out", "/what src/"]),
        ("fix ma", ["fix main test.py", "fix main.py"]),
        ("fix `src/ma", ["fix `src/main.c"]),
        ("one\ntwo in/m", ["one\ntwo in/main.c"]),
        ("read .f", ["read .foregate.yaml"]),
        ("read src/", ["read src/main.c"]),
        ("read ./s", ["read ./src/"]),
        ("read out/", []),
        ("read ../", []),
        ("read /etc/pas", []),
        ("read nowhere/x", []),
        ("read main.py/", []),
        ("read \0", []),
    ],
)
async def test_commands_their_arguments_and_paths_of_the_workspace_are_offered(
    workspace: Workspace, text: str, expected: list[str]
) -> None:
    assert await typed(workspace, text) == expected


async def test_what_a_call_is_about_is_offered_visibly(workspace: Workspace) -> None:
    first, _ = await offered(workspace, "/undo ")
    assert first.display_meta_text == "edit_file a\\u{1B}[2J.txt"


async def test_a_large_folder_is_not_looked_through(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "LOOKED_AT", 5)
    monkeypatch.setattr(completion, "OFFERED", 3)
    for number in range(20):
        (folder / "src" / f"f{number}").touch()
    assert len(await offered(workspace, "src/")) == 3
