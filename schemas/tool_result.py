"""What came of running a call."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from foregate.schemas.evidence_record import EvidenceRecord, Origin
from foregate.schemas.tool_spec import Resource


class Change(Struct, frozen=True, forbid_unknown_fields=True):
    """A resource a call changed: content hashes before and after, "" where nothing was or is there.

    `before` names the before-image in the blob store when it equals a stored content.
    """

    resource: Resource
    before: str = ""
    after: str = ""
    mode: int = 0


class ToolResult(Struct, frozen=True):
    """Text for the model, what was observed and what changed.

    `used` counts model calls, tool calls, tokens and cost a child task spent, charged to the task that started it.
    `ok` False means the tool says it failed; `unknown` that it cannot say whether it took effect (a timeout of
    something already under way). `origin` says whose words the content is; `dropped` counts bytes left out.
    """

    ok: bool
    content: str
    evidence: tuple[EvidenceRecord, ...] = ()
    changes: tuple[Change, ...] = ()
    origin: Origin = Origin.WORKSPACE
    error: str = ""
    unknown: bool = False
    dropped: int = 0
    exit_code: int | None = None
    used: Mapping[str, int] = field(default_factory=dict)
