"""What a tool may touch: the paths that were judged, as they were judged, and never the protected ones."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_off_limits
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.tool_call import Survey, SurveyedResource
from foregate.schemas.tool_spec import ResourceKind

_JUDGED: ContextVar[Mapping[tuple[bool, str], SurveyedResource] | None] = ContextVar("foregate_judged", default=None)
"""By whether it is a command, and by id."""
_BOUND = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.OTHER, ResourceKind.PROCESS)


@contextmanager
def confine_to_survey(survey: Survey) -> Iterator[None]:
    """Bind the tool that runs inside to the paths and commands its call was judged on; set by the executor."""
    bound = {(r.kind is ResourceKind.PROCESS, r.id): r for r in survey.resources if r.kind in _BOUND}
    token = _JUDGED.set(bound)
    try:
        yield
    finally:
        _JUDGED.reset(token)


def check_readable(workspace: Workspace, path: str) -> str:
    """Return the canonical id of a path to look at; raise WorkspaceError for one outside, or not the judged one."""
    return check_judged(workspace.resolve(path), path)


def check_writable(workspace: Workspace, policy: Policy, path: str, *, follow: bool = True) -> str:
    """Return the canonical id of a path to change; raise WorkspaceError also for a protected one."""
    found = check_judged(workspace.resolve(path, follow=follow), path)
    if is_off_limits(found, policy):
        raise WorkspaceError(f"`{found[:80]}` belongs to git or to Foregate and is not the agent's to change")
    return found


def check_judged(found: str, path: str) -> str:
    """Return `found` when it is among what was judged; a link put there since leads elsewhere and is refused."""
    bound = _JUDGED.get()
    if bound is not None and (False, found) not in bound:
        raise WorkspaceError(f"`{path[:80]}` leads elsewhere than when it was judged; look again, then repeat the call")
    return found


def check_judged_command(words: Sequence[str]) -> Sequence[str]:
    """Return a command the tool worked out itself when it is the judged one; raise WorkspaceError for another."""
    bound = _JUDGED.get()
    text = shlex.join(words)
    if bound is not None and (True, text) not in bound:
        raise WorkspaceError(f"`{text[:80]}` is not what was judged; the workspace has changed, so repeat the call")
    return words


def check_unchanged(path: str, hash: str) -> None:  # noqa: A002
    """Raise WorkspaceError when what a change is about to replace is not what was judged; "" is nothing there."""
    bound = _JUDGED.get()
    resource = bound.get((False, path)) if bound is not None else None
    if resource is None or (resource.exists and not resource.hash) or hash == resource.hash:
        return
    raise WorkspaceError(f"`{path[:80]}` changed after this call was judged; look at it again, then repeat the call")
