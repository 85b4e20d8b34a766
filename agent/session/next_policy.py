"""The policy that a running session goes on with, where its file is another than before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from foregate.policy.policy import Policy
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.masking import Secret


class NextPolicy(NamedTuple):
    """A policy, what is recorded beside it, the tools that keep to it (None for those there are), and the secrets that
    it finds in Foregate's own environment."""

    policy: Policy
    layers: Mapping[str, Json]
    tools: ToolSource | None
    secrets: tuple[Secret, ...]


FollowPolicy = Callable[[], NextPolicy | str]
"""Returns the policy to go on with, a sentence why there is none that could be used, or "" where nothing is new."""
