"""`foregate tools serve`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.terminal.exit_codes import run_async


def serve(
    ws: Annotated[
        str, typer.Option("--ws", metavar="HOST:PORT", help="Listen for agents that use --runtime.", show_default=False)
    ] = "",
    mcp: Annotated[bool, typer.Option("--mcp", help="Speak the Model Context Protocol on stdin and stdout.")] = False,
    workspace: options.WorkspaceFolder = Path(),
    policy: options.PolicyFile = None,
    cert: Annotated[
        Path | None, typer.Option("--cert", metavar="FILE", help="Certificate (PEM), for TLS.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Its private key (PEM).", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without TLS all the same.")
    ] = False,
) -> None:
    """Let other agents use the tools in one folder; each call is judged here first, by this policy."""
    from foregate.assembly.open import REHEARSAL
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.errors import UsageError

    if bool(ws) == mcp:
        raise UsageError("say how to serve: either --ws HOST:PORT or --mcp")
    setting = SessionOptions(
        workspace=workspace, policy=policy, model=REHEARSAL, mode="direct", dialect="native", serving=True
    )
    if mcp:
        from foregate.assembly.serve import serve_mcp

        # what a shell starts with `&` has its interrupts ignored, and a server must end when it is told to
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run_async(serve_mcp(setting))
        return
    run_async(_serve_websocket(setting, ws, cert, key, insecure))


async def _serve_websocket(setting: object, ws: str, cert: Path | None, key: Path | None, insecure: bool) -> None:
    from foregate.agent.tools.remote.protocol import is_loopback
    from foregate.assembly.remote import TOKEN, create_token, read_token
    from foregate.assembly.serve import load_tls, parse_endpoint, serve_websocket
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.errors import UsageError

    assert isinstance(setting, SessionOptions)
    host, port = parse_endpoint(ws)
    tls = load_tls(cert, key)
    if tls is None and not insecure and not is_loopback(host):
        raise UsageError(f"`{host[:80]}` is not this machine alone; serve with --cert and --key, or say --insecure")
    given = read_token(os.environ)
    token = given or create_token()

    def print_ready(address: str) -> None:
        typer.echo(f"serving {address}")
        if not given:
            typer.echo(f"{TOKEN}={token}")
        sys.stdout.flush()

    await serve_websocket(setting, host, port, token, tls, print_ready)
