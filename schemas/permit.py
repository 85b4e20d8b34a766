"""What the executor takes; nothing else can run a tool."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Permit:
    """Leave to run one call once: its digest, the event that allowed it, and the survey it was allowed on."""

    call: str
    digest: str
    judged: int
    survey_hash: str
