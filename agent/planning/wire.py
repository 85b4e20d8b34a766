"""The form a planning model is asked to write a plan in: strict, so that every endpoint takes the schema."""

from __future__ import annotations

from foregate.agent.planning.reading import Reading
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Catalogue

NAME = "task_plan_v1"
"""The name the schema travels under."""


def wire_schema() -> Json:
    """Return the JSON Schema of a plan on the wire: every key required, optional ones nullable, no other key.

    What has no fixed keys (`arguments`, `params`, `metadata`, `when`) travels as JSON text.
    """
    raise NotImplementedError


def from_wire(text: str, *, query: str = "", catalogue: Catalogue | None = None) -> Reading:
    """Return the plan an endpoint sent, read as `reader.read` reads it; never raise for what it says.

    The id and the query are never the model's: the query is `query`, and the id is made of the plan's content.
    """
    raise NotImplementedError
