"""The plan a model writes from the person's words alone: it sees no call and nothing a tool returned."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from foregate.schemas.plan import EffectName, PlanHead

BoundRule = Literal["equals", "at_most", "contains", "free"]
"""How a value may be; `at_most` is a sum over all uses of the step."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class BlindTarget(_Part):
    """To whom or on what: a value that the person `said`, or one still to be found.

    That one is the `field` of the record that holds the words of `record`, in what `read` returned, a tool or words of
    its target; null is any. A null `argument` is any target.
    """

    argument: str | None
    said: str | None
    read: str | None
    record: str | None
    field: str | None


class Bound(_Part):
    """How the value of an argument may be; `free` needs no `value`."""

    argument: str
    rule: BoundRule
    value: str | None


class BlindStep(_Part):
    """A step, named by its tool, its effect or both; a null `uses` is 1."""

    tool: str | None
    effect: EffectName | None
    uses: int | None
    targets: list[BlindTarget]
    bounds: list[Bound]
    description: str


class BlindFlow(_Part):
    """What may go where: what a `read` returned, `to` a value that the person said."""

    read: str
    to: str


class BlindPlan(PlanHead):
    """`pre_execution_plan_v2`."""

    planned_steps: list[BlindStep]
    flows: list[BlindFlow]
