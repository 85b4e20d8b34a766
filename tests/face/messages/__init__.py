"""Messages as people write and paste them, by whose words they are.

`= TOOL EFFECT` begins the requests for a call, `= KIND` the framings of other people's words. `\\n` stands for a new
line, and `~` marks an ordinary request that is not read as one yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

# "\n", "\u200b".
_ESCAPED = re.compile(r"\\(?:n|u([0-9a-f]{4}))")


class Row(NamedTuple):
    """A message below its heading; `is_read` tells that words alone are known to be enough."""

    heading: str
    message: str
    is_read: bool = True


def read_rows(name: str) -> Iterator[Row]:
    """Yield the rows of a file."""
    heading = ""
    for line in (Path(__file__).parent / f"{name}.txt").read_text("utf-8").splitlines():
        if line.startswith("= "):
            heading = line.removeprefix("= ")
            continue
        text = _ESCAPED.sub(lambda found: chr(int(found[1], 16)) if found[1] else "\n", line.removeprefix("~ "))
        yield Row(heading, text, not line.startswith("~ "))
