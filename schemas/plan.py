"""The plan a model writes before a risky call, and the scope an accepted plan binds as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from msgspec import field
from pydantic import BaseModel, ConfigDict

from foregate.schemas.noun import Noun
from foregate.schemas.tool_spec import Effect, ResourceKind

EffectName = Literal[
    "observation", "create", "edit", "move", "delete", "commit", "send", "execute", "administer", "unknown"
]


class Criterion(BaseModel):
    """How success would be recognised; `check` names what can be checked mechanically, with its object."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    text: str
    check: Literal["file_exists", "file_contains", "command_succeeds", "http_status"] | None
    target: str | None
    expected: str | None


class PlannedAction(BaseModel):
    """The first action: tool, target and what it does."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    tool: str
    target: str
    description: str


class PlannedStep(BaseModel):
    """A later step; `target` may be a glob, a null `effect` is the tool's strongest, null `uses` is 1."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    tool: str
    target: str
    description: str
    effect: EffectName | None
    uses: int | None


class PlanHead(BaseModel):
    """What every plan says: on the wire every key is required, optional ones are nullable."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
    goal: str
    success_criteria: list[Criterion]
    first_action: PlannedAction
    requires_verification: bool
    risky_actions: list[str]
    version: int = 0


class Plan(PlanHead):
    """`pre_execution_plan_v1`."""

    planned_steps: list[PlannedStep] | None


class PlanTerm(Noun, frozen=True):
    """What the value of an argument has to be; an empty `argument` is any target.

    `said` and `found` are the value, or where it is to be found: the `read`, the words of the `record`, the `field`.
    The others bound it by `value`; of `at_most`, `spent` is what calls have used up so far, a decimal number.
    """

    argument: str
    rule: Literal["said", "found", "equals", "at_most", "contains", "free"]
    value: str = ""
    read: str = ""
    record: str = ""
    field: str = ""
    spent: str = "0"


class Flow(Noun, frozen=True):
    """Leave for what a read returned to go, word for word, to a value that the person said.

    `read` names the read by its tool or by words of its target.
    """

    read: str
    to: str


class ScopeItem(Noun, frozen=True):
    """Permission for `uses` calls of an effect on resources matching `pattern`; `used` counts those made.

    A pattern `sha256:...` is one exact call. `tool` narrows the item to one tool, where the policy binds a plan by its
    steps. `approved` says that a person saw it and said yes. With `exact` the pattern is a plain name. A command is
    covered only in `folder`, "" for the root, and with `scripts` as they were at the yes, "" for none. With `during`
    the item counts only while that task of a confirmed plan runs, for its tool, and not for a risky call. `values` is a
    hash over the values of the call it was made for, "" for none. With `terms` it was planned without the calls: it
    covers calls of its tool or effect whose values keep them, and `pattern` is the step's description.
    """

    effect: Effect
    kind: ResourceKind
    pattern: str
    uses: int = 1
    used: int = 0
    step: str = ""
    tool: str = ""
    approved: bool = False
    exact: bool = False
    folder: str = ""
    during: str = ""
    scripts: str = ""
    values: str = ""
    terms: tuple[PlanTerm, ...] | None = None


class PlanInForce(Noun, frozen=True):
    """The accepted plan of a task: its revision, its scope, and the classes of risk it was accepted with.

    `blind` says that its planner was asked without the calls, `missing` why that made no plan, "" where it did.
    `flows` is what may go where, `risks` what its planner says could go wrong.
    """

    revision: int
    goal: str
    items: tuple[ScopeItem, ...]
    requires_verification: bool = False
    criteria: tuple[Criterion, ...] = ()
    amendments: int = 0
    classes: tuple[str, ...] = ()
    seq: int = 0
    blind: bool = False
    missing: str = ""
    flows: tuple[Flow, ...] = ()
    risks: tuple[str, ...] = ()

    def find_step(self, used: Sequence[int]) -> ScopeItem | None:
        """Return the first step of the person's words among the items a call uses, None for none."""
        found = (self.items[at] for at in used if at < len(self.items))
        return next((item for item in found if item.terms is not None), None)


class Leave(Noun, frozen=True):
    """What a child task may use of its parent's mandate: the blind plan in force, and what is used of the mentions.

    `said_used` counts uses by the key of the value; `outside` says that the parent has read something from outside.
    """

    plan: PlanInForce | None = None
    said_used: Mapping[str, int] = field(default_factory=dict)
    outside: bool = False


class SharedUses(Noun, frozen=True):
    """What a child task used of its parent's plan, by item and by bound that is a sum, and of the mentions by key."""

    used: tuple[int, ...] = ()
    spent: tuple[str, ...] = ()
    said: Mapping[str, int] = field(default_factory=dict)
