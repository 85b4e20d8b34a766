"""What the executor takes; nothing else can run a tool."""

from __future__ import annotations

from msgspec import Struct


class Permit(Struct, frozen=True, forbid_unknown_fields=True):
    """Permission to run one call once: its digest, the event that allowed it, and the survey it was allowed on."""

    call: str
    digest: str
    judged: int
    survey_hash: str
