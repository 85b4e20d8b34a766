"""What of a call's resources would run by itself once the call has changed it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from msgspec.structs import replace

from foregate.agent.workspace import directory
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.self_running import RUNS_BY_ITSELF, UNCHANGED, FileContents, is_self_running
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import ToolSource
from foregate.schemas.tool_call import SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind

_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_TAKING_AWAY = (Effect.DELETE, Effect.MOVE)
"""What leaves nothing at a path that could run; where a move leads to is a resource of its own."""


def mark_self_running(
    resources: Sequence[SurveyedResource], call: ToolCall, workspace: Workspace, tools: ToolSource, policy: Policy
) -> tuple[SurveyedResource, ...]:
    """Return the resources of a call with those protected that it would create or change and a program runs unasked."""
    sources = [one for one in resources if one.access is Effect.MOVE and one.kind is ResourceKind.DIRECTORY]
    made = [one for one in resources if _puts_something(one)]
    if not made:
        return tuple(resources)

    def exists(path: str) -> bool:
        return bool(workspace.look(path).kind)

    def read(path: str) -> FileContents | None:
        try:
            changes = tools.preview(call)
        except WorkspaceError:
            # Running it raises the same.
            return UNCHANGED
        except Exception:
            return None
        return next((FileContents(one.before, one.after) for one in changes if one.path == path), None)

    is_link = any(one.access is Effect.MOVE and workspace.look(one.id).kind == "link" for one in resources)

    def is_marked(one: SurveyedResource) -> bool:
        paths = [one.id, *_list_moved(one.id, sources, workspace, policy)]
        return any(is_self_running(path, policy, exists, partial(read, path), is_link=is_link) for path in paths)

    marked = {one.id for one in made if is_marked(one)}
    return tuple(
        replace(one, protected=RUNS_BY_ITSELF) if one.id in marked and _puts_something(one) else one
        for one in resources
    )


def _puts_something(resource: SurveyedResource) -> bool:
    changes = resource.access.changes and resource.access not in _TAKING_AWAY
    return changes and resource.kind in _PATHS and not resource.protected


def _list_moved(path: str, sources: Sequence[SurveyedResource], workspace: Workspace, policy: Policy) -> Iterator[str]:
    """Yield where what is in a folder would lie that a call moves to a path; a folder of too much asks anyway."""
    for source in sources:
        for entry in directory.list_tree(workspace, source.id, policy.files.max_entries).entries:
            yield path + strict_json.scrub(entry.path)[len(source.id) :]


def mark_remote_resource(resource: SurveyedResource, policy: Policy) -> SurveyedResource:
    """Return a runtime's resource, protected where its path says that a program runs it; contents only the runtime
    has seen, and so what it says of a manifest's keys holds."""
    runs = is_self_running(resource.id, policy, lambda path: False, lambda: UNCHANGED)
    return replace(resource, protected=RUNS_BY_ITSELF) if _puts_something(resource) and runs else resource
