"""Which results count as what a read found out there, and not as something the session itself brought or shaped."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath

from foregate.schemas.event_body import ToolFinished, ToolStarted
from foregate.schemas.tool_call import EvidenceKind, Trust
from foregate.schemas.tool_spec import Resource, ResourceKind

RETOLD = ("delegate", "recall", "remember")
"""Built-in tools whose results are words of the session's own models, of this session or an earlier one."""


def is_evident_read(started: ToolStarted | None, body: ToolFinished, carriers: AbstractSet[Resource]) -> bool:
    """Whether a call only looked, and returned whole what it looked at.

    A part of a file, a cut result, and what a program made of its input do not count: who chose the part or wrote the
    command has shaped them. Nor does what lies in `carriers`, the things the session changed itself.
    """
    if started is None or started.side_effect != "pure" or not body.ok or body.dropped or body.tool in RETOLD:
        return False
    if any(one.trust is not Trust.DIRECT or _is_carried(one.resource, carriers) for one in body.evidence):
        return False
    return not started.confinement or {one.kind for one in body.evidence} == {EvidenceKind.FILE_READ}


def _is_carried(resource: Resource, carriers: AbstractSet[Resource]) -> bool:
    """Whether the session changed a thing, or put the folder there that it lies in."""
    if not carriers or resource in carriers:
        return bool(carriers)
    above = PurePosixPath(resource.id).parents if resource.kind is ResourceKind.FILE else ()
    return any(Resource(ResourceKind.DIRECTORY, str(folder)) in carriers for folder in above)
