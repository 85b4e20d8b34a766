"""What the arguments of a call say of the command it runs: the words, and what it requests of the world outside."""

from __future__ import annotations

from foregate.policy.risk.access_request import parse_access
from foregate.schemas.errors import AccessError, WorkspaceError
from foregate.schemas.sandbox import Access
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Command


def read_access(given: Json) -> tuple[Access, ...]:
    """Return what a call requests of the world outside; raise WorkspaceError for what names none."""
    try:
        return tuple(sorted({parse_access(str(text)) for text in given} if isinstance(given, list) else ()))
    except AccessError as error:
        raise WorkspaceError(str(error)) from None


def read_command(given: Json) -> Command | None:
    """Return the command an argument holds: a list of words runs as it is, a text is for a shell; None for neither."""
    if isinstance(given, str) and given:
        return Command(shell=given)
    if isinstance(given, list) and given and all(isinstance(word, str) for word in given):
        return Command(tuple(given))
    return None
