"""What is tried on recorded turns: another user's file, or other values of single keys over the recorded policy."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from foregate.policy.policy import Policy
from foregate.policy.source.layers import Layer
from foregate.policy.source.load import BESIDE_USER, replace_user_layer
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import replace_values
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json


class KeyChange(Struct, frozen=True):
    """Other values by their paths; None takes a rule or an entry out."""

    values: Mapping[Path, Data]


PolicyEdit = Layer | KeyChange | None
"""What is tried: another user's file (None for none), or other values of single keys."""


class Revision:
    """Makes of recorded policies what an edit makes of them: of those that differ in the user's file alone, one."""

    def __init__(self, edit: PolicyEdit) -> None:
        self._edit = edit
        self._made: dict[str, Policy] = {}

    def revise(self, before: Policy, layers: Mapping[str, Json]) -> Policy:
        """Return the policy the change makes of one that was recorded with its layers.

        Raises PolicyError where a workspace's file would be refused, ValueError where the values make no policy.
        """
        if isinstance(self._edit, KeyChange):
            return replace_values(before, self._edit.values)
        beside = strict_json.digest({name: layers.get(name) for name in BESIDE_USER})
        if beside not in self._made:
            self._made[beside] = replace_user_layer(self._edit, layers)
        return self._made[beside]
