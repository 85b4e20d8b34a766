"""What the critic says of a plan or of a call."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Critique(BaseModel):
    """`pre_execution_critique_v1`. A critique can tighten, never loosen."""

    model_config = ConfigDict(extra="forbid", strict=True)
    verdict: Literal["accept", "replan"]
    issues: list[str]
    summary: str
