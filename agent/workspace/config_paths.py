"""Where a file of the user's own is looked for: as named, as a variable says, else in the user's configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct


class UserConfigFile(Struct, frozen=True):
    """A file by its name in the user's configuration, and the environment variable that names another."""

    name: str
    variable: str

    def get_place(self, named: Path | str | None, environ: Mapping[str, str]) -> Path:
        """Return where the file is looked for, whether or not there is one."""
        if chosen := named or environ.get(self.variable):
            return Path(chosen).expanduser()
        configured = environ.get("XDG_CONFIG_HOME", "")
        base = Path(configured) if configured.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".config"
        return base / "foregate" / self.name

    def find(self, named: Path | str | None, environ: Mapping[str, str]) -> Path | None:
        """Return the file: one that was chosen in any case, the user's own only where there is one."""
        file = self.get_place(named, environ)
        return file if named or environ.get(self.variable) or os.path.lexists(file) else None
