"""Reading a plan somebody wrote: JSON or YAML, bare or in one code fence, in any of the shapes in use."""

from __future__ import annotations

from foregate.agent.planning.reading import Reading
from foregate.schemas.tool_spec import Catalogue


def read(text: str, *, query: str = "", catalogue: Catalogue | None = None) -> Reading:
    """Return the plan `text` holds; never raise for what it says.

    `query` is the request the plan is for, used where the text names none. Foreign names of tools and parameters are
    resolved by the table of aliases, unless `catalogue` has a tool of that very name. The defects are those of form;
    `validate` finds the others, so that both together are everything that is wrong.
    """
    raise NotImplementedError
