"""The server of a console: one process, one address, until it is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

import uvicorn
from starlette.applications import Starlette

from foregate.assembly.home import Home, find_session
from foregate.console.address import Address, bind
from foregate.console.app import build_app
from foregate.console.guard import ENTRANCE, SignIn

MOST = 96
"""Connections at the same time; more are answered by 503."""
_LARGEST_HEAD = 32 * 1024
_GRACE = 3


class ConsoleServer(uvicorn.Server):
    """A server that ends by SIGINT and SIGTERM as a command does, and ends what follows the log first."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                ws="none",
                loop="asyncio",
                http="h11",
                lifespan="on",
                limit_concurrency=MOST,
                h11_max_incomplete_event_size=_LARGEST_HEAD,
                timeout_keep_alive=15,
                timeout_graceful_shutdown=_GRACE,
            )
        )
        self._console = app.state.console

    def end(self) -> None:
        """End soon."""
        self._console.live.end()
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Have signals end the server; unlike uvicorn's, they are not raised again once it has ended."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self.end)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)


async def serve_console(
    home: Home,
    host: str,
    port: int,
    ready: Callable[[str], None],
    *,
    environ: Mapping[str, str] = os.environ,
    workspace: Path | None = None,
    read_only: bool = False,
    session: str = "",
) -> None:
    """Serve the console of a home until the process is told to end; it begins with a session, or with all.

    `ready` is called with the address that lets a browser in, once one can connect. Raises UsageError or LogError, one
    sentence, where it cannot be served.
    """
    with bind(host, port) as listening:
        address = Address(host.removeprefix("[").removesuffix("]"), listening.getsockname()[1])
        entry = SignIn(address.port)
        app = build_app(home, entry, address, environ=environ, workspace=workspace, read_only=read_only)
        first = f"&session={quote(await find_session(app.state.console.log, session), safe='')}" if session else ""
        server = ConsoleServer(app)
        ready(f"{address.url}{ENTRANCE}?token={entry.token}{first}")
        await server.serve(sockets=[listening])
