"""The command `foregate acp`, which an editor starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from foregate.cli.options import opens_session

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions


@opens_session(without=("workspace",))
async def acp(setting: SessionOptions) -> None:
    """Serve an editor by the Agent Client Protocol, on stdin and stdout; it names the folder of each session."""
    from foregate.assembly.identity import find_identity
    from foregate.cli.acp.editor_agent import serve_editor

    setting.by = find_identity("editor")
    await serve_editor(setting)
