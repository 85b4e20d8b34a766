"""Opening a page in the browser of the desktop, where there is one."""

from __future__ import annotations

import os
import sys
import tempfile
import webbrowser
from html import escape
from pathlib import Path


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
