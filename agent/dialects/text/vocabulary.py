"""Names of tags that mean the same in every dialect of tags."""

from __future__ import annotations

from collections.abc import Mapping

from foregate.schemas.model_response import BlockKind

THOUGHTS = ("think", "thinking", "thought")
BLOCKS: Mapping[str, BlockKind] = {"parallel": "parallel", "sequential": "sequential"}
RESULT, GENERIC = "result", "call_tool"
RESERVED = frozenset((*THOUGHTS, *BLOCKS, RESULT, GENERIC))
"""Names with a meaning of their own; a tool of such a name is called by `call_tool`."""
_MARKUP = """
    a abbr article aside b blockquote body br button code dd del details div dl dt em footer form h1 h2 h3 h4 h5 h6
    head header hr html i img input ins kbd label li link main mark meta nav ol option p pre q s samp script section
    select small span strong style sub summary sup svg table tbody td textarea th thead title tr u ul var video
    caption center cite figcaption figure font iframe picture source tfoot
"""
MARKUP = frozenset(_MARKUP.split())
"""Tags of HTML that stand in words; they call nothing unless a tool or a service has the name."""
