"""The token by which an agent may use a runtime: made by the one that serves, read by both."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path

from foregate.schemas.errors import UsageError

TOKEN, TOKEN_FILE = "FOREGATE_RUNTIME_TOKEN", "FOREGATE_RUNTIME_TOKEN_FILE"
_SHORTEST, _LONGEST = 16, 512


def read_token(environ: Mapping[str, str]) -> str:
    """Return the token of the environment, or of the file it names, "" where there is none.

    Raises UsageError for one nobody should rely on: too short, or in a file others may read.
    """
    token = environ.get(TOKEN, "").strip()
    if not token and (named := environ.get(TOKEN_FILE)):
        token = _read_file(Path(named).expanduser())
    if token and not (_SHORTEST <= len(token) <= _LONGEST and token.isascii() and token.isprintable()):
        raise UsageError(f"the token has to be {_SHORTEST} to {_LONGEST} printable ASCII characters; make a new one")
    return token


def _read_file(path: Path) -> str:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(file, "rb") as stream:
            found = os.fstat(stream.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
                raise UsageError(f"others may read the token in `{path}`; make it yours alone with `chmod 600`")
            return stream.read(_LONGEST + 1).decode("ascii", "replace").strip()
    except OSError as error:
        raise UsageError(f"the token in `{path}` cannot be read ({error.strerror})") from None


def create_token() -> str:
    """Return a token nobody can guess."""
    return secrets.token_urlsafe(32)
