"""What an error a command printed means in a sandbox, in one sentence for whoever reads it."""

from __future__ import annotations

import re

_EXDEV = re.compile(r"\bEXDEV\b|cross-device link", re.IGNORECASE)


def explain_output(output: str) -> str:
    """Return what the sandbox has to do with an error in the output of a command that may write; "" for nothing."""
    if _EXDEV.search(output):
        return (
            "In a sandbox a folder of the workspace cannot be renamed by one system call; "
            "move it with `mv`, which copies it, or file by file."
        )
    return ""
