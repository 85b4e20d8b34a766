"""The policies of a recorded session: the one that was in force at an event, and the one it is played under instead."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.schemas.strict_json import Json
from foregate.telemetry.audit.rebuild_turn import InForce
from foregate.tuning.rehearsing.recorded_steps import NothingRecorded

ReplacePolicy = Callable[[Mapping[str, Json]], Policy]
"""From the layers of a recorded session to the policy it would have had."""


class PolicyAgain:
    """Restores recorded policies, each once, and replaces them; `change` of None keeps each as it was."""

    def __init__(self, change: ReplacePolicy | None) -> None:
        self._change = change
        self._restored: dict[str, Policy] = {}

    @property
    def is_other(self) -> bool:
        """Whether policies are replaced at all."""
        return self._change is not None

    def restore(self, in_force: InForce) -> Policy:
        """Return the policy that was in force; raise NothingRecorded where no event says which."""
        if in_force.policy is None:
            raise NothingRecorded("no event says which policy was in force")
        if in_force.policy_hash not in self._restored:
            self._restored[in_force.policy_hash] = restore_policy(in_force.policy)
        return self._restored[in_force.policy_hash]

    def replace(self, in_force: InForce) -> Policy:
        """Return the policy to play under instead; raises PolicyError where the layers make none."""
        return self.restore(in_force) if self._change is None else self._change(in_force.layers or {})
