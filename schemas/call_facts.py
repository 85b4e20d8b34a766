"""What can be computed of a call from the call, its survey and the policy; never recorded as input."""

from __future__ import annotations

from msgspec import Struct

from foregate.schemas.survey import Survey, SurveyedResource
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Capabilities, Effect, ToolSpec


class Reason(Struct, frozen=True):
    """One contribution to a score: its name in the policy, its weight in thousandths, and why it applies."""

    name: str
    weight: int
    why: str


class Score(Struct, frozen=True):
    """A score in thousandths, 0 to 1000, with everything that contributed."""

    value: int
    reasons: tuple[Reason, ...] = ()
    slots: tuple[str, ...] = ()


class CallFacts(Struct, frozen=True):
    """Effect, capabilities in force, reversibility and scores of one call.

    `risky` is: side-effecting and (external, irreversible, high impact or broader than the policy's scope).
    `spec` is None for a tool nobody knows.
    """

    call: ToolCall
    survey: Survey
    spec: ToolSpec | None
    effect: Effect
    capabilities: Capabilities
    external: bool
    irreversible: bool
    high_impact: bool
    broad: bool
    risky: bool
    risk: Score
    uncertainty: Score

    @property
    def changes(self) -> bool:
        """Whether the call has a side effect."""
        return self.effect.changes

    @property
    def resources(self) -> tuple[SurveyedResource, ...]:
        """The call's own resources as surveyed."""
        return self.survey.resources

    @property
    def target(self) -> str:
        """The first own resource, for display."""
        return self.survey.resources[0].id if self.survey.resources else ""
