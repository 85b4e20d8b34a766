"""The next policy of a running session, where its file has changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from foregate.policy.policy import Policy
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.masking import Secret


class NextPolicy(NamedTuple):
    """A policy, what is recorded beside it, the tools that obey it (None for the present ones), and the secrets it
    finds in Foregate's environment."""

    policy: Policy
    layers: Mapping[str, Json]
    tools: ToolSource | None
    secrets: tuple[Secret, ...]


FollowPolicy = Callable[[], NextPolicy | str]
"""Returns the next policy, a sentence why the changed file cannot be used, or "" where nothing is new."""
