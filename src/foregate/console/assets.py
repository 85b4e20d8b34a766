"""The files of ours that a page may ask for, by their names: read once, and nothing else of the file system ever."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from foregate.pages.rendering import ASSETS, read_asset

OWN = ("icon.svg", "lists.css", "live.js", "tune.css", "tune.js")
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


@cache
def list_assets() -> dict[str, tuple[bytes, str]]:
    """Return each file's bytes and kind by its name."""
    own = {name: (files("foregate.console") / "assets" / name).read_text("utf-8") for name in OWN}
    shared = {name: read_asset(name) for name in ASSETS if (files("foregate.pages") / "assets" / name).is_file()}
    return {name: (text.encode(), _KINDS[name.rpartition(".")[2]]) for name, text in {**shared, **own}.items()}
