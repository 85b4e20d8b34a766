"""The known name closest to an unknown one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_LONGEST = 64
"""Characters of a name that are compared: comparing takes their square."""


def suggest_nearest(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return the end of a sentence that names the nearest of the known names, `otherwise` where none is near."""
    near = get_close_matches(name[:_LONGEST], list(known), n=1)
    return f"; did you mean `{near[0]}`?" if near else otherwise
