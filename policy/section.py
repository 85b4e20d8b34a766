"""What every section of the typed policy is made of."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=0)]
"""A whole number; 0 means unlimited where it is a limit."""
Thousandths = Annotated[int, Field(ge=0, le=1000)]
"""A score or a threshold, 0 to 1000."""


class PolicySection(BaseModel):
    """Base of all sections: frozen, strictly typed, unknown keys refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, ignored_types=(cached_property,))
