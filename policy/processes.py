"""The sections of the policy about other processes: those that are served, and those that serve."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from foregate.policy.section import Count, PolicySection


class Serving(PolicySection):
    """Serving this process's tools to other agents. Times in seconds, sizes in bytes."""

    approvals: Literal["deny", "caller"]
    max_agents: Annotated[int, Field(ge=1)]
    max_waiting: Annotated[int, Field(ge=1)]
    max_message: Annotated[int, Field(ge=65536)]
    max_deadline: Annotated[int, Field(ge=1)]
    ping: Annotated[int, Field(ge=1)]
    away: Count


class Runtime(PolicySection):
    """Tools that run in another process. Times in seconds but for `backoff` (milliseconds), sizes in bytes."""

    declarations: Literal["believe", "raise"]
    timeout: Annotated[int, Field(ge=1)]
    patience: Count
    backoff: Annotated[int, Field(ge=1)]
    max_tools: Annotated[int, Field(ge=1)]
    max_message: Annotated[int, Field(ge=65536)]
    ping: Annotated[int, Field(ge=1)]
