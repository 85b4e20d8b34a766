"""`foregate console` and `foregate acp`, which serve a browser and an editor."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.options import opens_session, print_problems, take, take_home
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.assembly.setting import SessionOptions


_SESSION = "Begin with this session: its name, its beginning, or `last`."
_PORT = "Where to listen; 0 takes any that is free."
_HOST = "Listen at another address of this machine, which others may reach; unencrypted."


@take_home
def console(
    session: Annotated[str, typer.Argument(metavar="SESSION", help=_SESSION)] = "",
    port: Annotated[int, take("--port", _PORT, "N")] = 4747,
    host: Annotated[str, take("--host", _HOST, "ADDRESS")] = "127.0.0.1",
    no_open: Annotated[bool, take("--no-open", "Do not open a browser.")] = False,
    read_only: Annotated[bool, take("--read-only", "Only look: nothing is answered or labelled.")] = False,
) -> None:
    """Show sessions and decisions in a browser, answer what waits, and label decisions; on this machine alone."""
    try:
        from foregate.console.server import serve_console
    except ImportError:
        raise UsageError("this needs the extra `console`; install it with `pip install 'foregate[console]'`") from None
    from foregate.assembly.home import Home
    from foregate.console.address import is_loopback

    if not is_loopback(host):
        seen = "whoever is on that network can read what is sent, the token among it"
        print_problems([f"warning: {host} is not this machine alone, and nothing is encrypted: {seen}"])
    home = Home.open_to_read()
    opened = []

    def print_ready(url: str) -> None:
        typer.echo(f"console {url}\nCtrl-C ends it")
        if not no_open:
            opened.append(open_browser(url))

    try:
        run_async(serve_console(home, host, port, print_ready, read_only=read_only, session=session))
    finally:
        for file in filter(None, opened):
            file.unlink(missing_ok=True)


def open_browser(url: str) -> Path | None:
    """Open an address that holds a secret in the desktop's browser, and return a file to be removed afterwards.

    The browser is given a file that leads there, and that its owner alone can read: the arguments of a process are for
    everybody on the machine to see. Without a desktop nothing happens, and None is returned.
    """
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return None
    number, name = tempfile.mkstemp(prefix="foregate-console-", suffix=".html")
    os.close(number)
    path = Path(name)
    leads = f'<meta http-equiv="refresh" content="0; url={escape(url)}">'
    path.write_text(f'<!doctype html><meta charset="utf-8"><title>Foregate</title>{leads}\n', "utf-8")
    webbrowser.open(path.as_uri())
    return path


@opens_session(without=("workspace",))
async def acp(setting: SessionOptions) -> None:
    """Serve an editor by the Agent Client Protocol, on stdin and stdout; it names the folder of each session."""
    from foregate.assembly.identity import find_identity
    from foregate.cli.acp.editor_agent import serve_editor

    setting.by = find_identity("editor")
    await serve_editor(setting)
