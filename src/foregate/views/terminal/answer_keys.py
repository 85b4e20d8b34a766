"""The keys that answer an approval: what each chooses, and which of them a sheet offers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from foregate.gates.support.permitting import NARROW, WIDER
from foregate.schemas.sources import list_to_name
from foregate.schemas.strict_json import Json
from foregate.views.terminal.layout import pluralise

KEYS = {"y": "yes", "yes": "yes", "s": "grant", "a": "grant", "p": NARROW, "w": WIDER, "n": "no", "no": "no"}
"""What answers one call or all of them, and the choice it is; `a` is what `s` was called first."""
Calls = Sequence[tuple[int, Mapping[str, Json]]]
"""Calls of a request, each with its number."""


def list_keys(calls: Calls, has_grants: bool, permits: Collection[str] = ()) -> Iterator[str]:
    """Yield what answers, and what it does: first what spares later questions, for a yes teaches nothing."""
    if any("undeclared" in call for _, call in calls):
        yield "t say once what the tool does, for its later calls"
    elif any("unowned" in call for _, call in calls):
        yield "t say once which fields others cannot write"
    to_type = sum(len(list(list_to_name(call))) for _, call in calls)
    yield f"y yes, once, and type {pluralise(to_type, 'value')}" if to_type else "y yes, once"
    if has_grants:
        yield "s allow as listed, for this session"
    if NARROW in permits:
        yield "p permit as listed, for this project"
    if WIDER in permits:
        yield "w permit the wider form"
    yield "n no, and why"
    if len(calls) > 1:
        yield f"1y 2n {'3p ' * any('permits' in call for _, call in calls)}each by its number"
        yield "e each one by one"
    yield "d details"
