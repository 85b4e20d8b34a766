"""What every section of the typed policy is made of."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field

from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json

Count = Annotated[int, Field(ge=0)]
"""A whole number; 0 means unlimited where it is a limit."""
Thousandths = Annotated[int, Field(ge=0, le=1000)]
"""A score or a threshold, 0 to 1000."""


class PolicySection(BaseModel):
    """Base of all sections: frozen, strictly typed, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, ignored_types=(cached_property,), defer_build=True
    )

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with other values; what was computed from the old ones, such as the hash, does not go along."""
        copied = super().model_copy(update=update, deep=deep)
        for name in copied.__dict__.keys() - type(self).model_fields.keys():
            del copied.__dict__[name]
        return copied

    @cached_property
    def recorded(self) -> Mapping[str, Json]:
        """All values as JSON, as a session records them: one copy for everybody, not to be changed."""
        return self.model_dump(mode="json")

    @cached_property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON of all values."""
        return strict_json.digest(self.recorded)
