"""Material that goes with a message and is not its writer's word."""

from __future__ import annotations


def quote_material(text: str, quoted: str) -> str:
    """Return a message with material that is not its writer's word, as lines that begin with `>`."""
    lines = [f"> {line}" for line in quoted.splitlines()]
    return "\n".join([text, "", *lines]) if lines else text
