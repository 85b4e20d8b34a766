"""The command a call runs: its words, what it requests of the world outside, and what can hold it."""

from __future__ import annotations

from typing import Literal

from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.in_place import find_reason_against
from foregate.agent.workspace.work_sandbox import find_work_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.access import parse_access
from foregate.policy.risk.reading import is_held_work
from foregate.schemas.errors import AccessError, SyncError, WorkspaceError
from foregate.schemas.sandbox import Access
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Command, Tier
from foregate.schemas.tool_spec import ToolSpec


def read_access(given: Json) -> tuple[Access, ...]:
    """Return what a call requests of the world outside; raise WorkspaceError for what names none."""
    try:
        return tuple(sorted({parse_access(str(text)) for text in given} if isinstance(given, list) else ()))
    except AccessError as error:
        raise WorkspaceError(str(error)) from None


def read_command(given: Json) -> Command | None:
    """Return the command an argument holds: a list of words runs itself, a text is for a shell; None for neither."""
    if isinstance(given, str) and given:
        return Command(shell=given)
    if isinstance(given, list) and given and all(isinstance(word, str) for word in given):
        return Command(tuple(given))
    return None


def find_holder(
    workspace: Workspace, policy: Policy, spec: ToolSpec, command: Command | None
) -> tuple[Literal["", Tier], str]:
    """Return what holds the command of a built-in tool where it changes something, and why nothing does in here.

    Raises WorkspaceError where what an earlier one changed here has not been taken back.
    """
    if command is None or spec.provenance != "builtin":
        return "", ""
    found = find_work_tier(workspace, policy)
    tier = found["tier"]
    if tier == "none" and find_tier(workspace, policy)["tier"] != "none":
        return tier, "; ".join(filter(None, (found["reason"], found["cure"])))
    if tier != "limited" or not is_held_work(command, policy, tier):
        return tier, ""
    try:
        unheld = find_reason_against(workspace, policy)
    except SyncError as error:
        unheld = str(error)
    return ("none" if unheld else tier), unheld
