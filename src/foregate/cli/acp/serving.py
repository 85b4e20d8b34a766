"""`foregate acp`: one editor is served until it is gone."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast

from foregate.assembly.choices import choose_policy
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import UsageError

if TYPE_CHECKING:
    from acp import Agent


async def serve_editor(setting: SessionOptions) -> None:
    """Serve an editor on standard input and output; raises UsageError where the extra is not installed.

    A shutdown request is handled like the end of the input: sessions are left so that they can be resumed.
    """
    try:
        from acp import run_agent
    except ImportError:
        raise UsageError("editors need the extra `acp`; install it with `pip install 'foregate[acp]'`") from None
    from foregate.cli.acp.editor_agent import EditorAgent
    from foregate.cli.acp.transport import EditorTransport

    _, policy = choose_policy(setting, Path(setting.workspace))
    agent = EditorAgent(setting, lambda hook: transport.after_response.append(hook))
    transport = EditorTransport(policy.serving.max_message, agent.close)
    loop, serving = asyncio.get_running_loop(), asyncio.current_task()
    assert serving is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, serving.cancel)
    with suppress(asyncio.CancelledError):
        # A method it lacks is answered as unknown.
        await run_agent(cast("Agent", agent), transport)
