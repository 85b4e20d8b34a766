"""What a model thought aloud before its answer."""

from __future__ import annotations

import re

from foregate.schemas.late_pattern import compile_late

THOUGHTS = ("think", "thinking", "thought")
"""Tags in which models think."""
_THOUGHT = compile_late(rf"\s*<({'|'.join(THOUGHTS)})\s*>.*?(?:</\1\s*>\s*|\Z)", re.DOTALL | re.IGNORECASE)


def cut_thoughts(text: str) -> str:
    """Return a text without what was thought aloud before it; a thought that never ends takes all that follows.

    >>> cut_thoughts('<think>{"draft": 1}</think>\\n{"answer": 2}')
    '{"answer": 2}'
    """
    while (thought := _THOUGHT.match(text)) is not None:
        text = text[thought.end() :]
    return text
