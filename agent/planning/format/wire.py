"""The form a planning model is asked to write a plan in: strict, so that every endpoint takes the schema."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace
from pydantic import BaseModel

from foregate.agent.planning.format import reader
from foregate.agent.planning.format.reader import Reading
from foregate.schemas.strict_json import Json, scrub
from foregate.schemas.strict_schema import strict_schema
from foregate.schemas.tool_spec import Catalogue

NAME = "task_plan_v1"
"""The name the schema travels under."""


class WireCall(BaseModel):
    """A call; `arguments` is an object as JSON text."""

    tool: str
    arguments: str
    description: str | None


class WireTask(BaseModel):
    """A task; `params` and `when` are objects as JSON text."""

    id: int
    action: str | None
    target: str | None
    reason: str
    expected_outcome: str | None
    depends_on: list[int]
    params: str | None
    calls: list[WireCall] | None
    when: str | None
    may_fail: bool | None


class WirePlan(BaseModel):
    """A plan; `metadata` is an object as JSON text, `estimated_duration` in seconds."""

    goal: str
    tasks: list[WireTask]
    estimated_duration: int | None
    requires_confirmation: bool
    metadata: str | None


def build_wire_schema() -> Mapping[str, Json]:
    """Return the JSON Schema of a plan on the wire: every key required, optional ones nullable, no other key.

    What has no fixed keys (`arguments`, `params`, `metadata`, `when`) travels as JSON text.
    """
    return strict_schema(WirePlan)


def parse_wire_plan(text: str, *, query: str = "", catalogue: Catalogue | None = None) -> Reading:
    """Return the plan an endpoint sent, read as `reader.read` reads it; never raise for what it says.

    The id and the query are never the model's: the query is `query`, and the id is made of the plan's content.
    """
    reading = reader.read_plan(text, query=query, catalogue=catalogue)
    if reading.plan is None:
        return reading
    return replace(reading, plan=reader.add_own_id(replace(reading.plan, query=scrub(query))))
