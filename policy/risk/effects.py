"""What happens to one resource of a call. Pure."""

from __future__ import annotations

from foregate.schemas.tool_call import SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind


def effect_of_access(resource: SurveyedResource) -> Effect:
    """Return what happens to a resource: creating what is there already is editing it."""
    if resource.access is Effect.CREATE and resource.exists and resource.kind is ResourceKind.FILE:
        return Effect.EDIT
    return resource.access
