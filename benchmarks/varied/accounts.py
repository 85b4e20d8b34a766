"""The accounts of a company: what an administrator does, what nobody can bring back, and a tool of somebody else's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from guarding.services.journal import Journal

import foregate
from foregate.agent.tools.tool import Tool
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import OBSERVER, Effect, ToolSpec


@dataclass
class Issue:
    """What a ticket is about."""

    text: str
    place: str = ""


def account_tools(journal: Journal) -> Sequence[Tool]:
    """Return tools that give rights, close accounts, empty archives, file tickets and look up orders."""

    @foregate.tool(effect="administer", external=False, reversible=True, targets={"user": "other"})
    def grant_role(user: str, role: str) -> str:
        """Give a user a role."""
        return journal.add("granted", user, role)

    @foregate.tool(effect="administer", external=False, reversible=False, high_impact=True, targets={"user": "other"})
    def close_account(user: str) -> str:
        """Close an account for good, with all that is in it."""
        return journal.add("closed", user)

    @foregate.tool(effect="delete", external=False, reversible=False, targets={"archive": "other"})
    def empty_archive(archive: str) -> str:
        """Delete all that an archive holds, for good."""
        return journal.add("emptied", archive)

    @foregate.tool(effect="create", external=False, reversible=True, texts=["title"])
    def file_ticket(title: str, issues: list[Issue]) -> str:
        """File a ticket about a few issues."""
        return journal.add("tickets", title, len(issues))

    return (grant_role, close_account, empty_archive, file_ticket, _build_order_tool())


def _build_order_tool() -> Tool:
    """Return a tool whose schema says nothing of further arguments, as those of many servers."""

    async def run(arguments: Mapping[str, Json]) -> ToolResult:
        return ToolResult(True, f"order {arguments.get('order', '')} is on its way")

    schema: dict[str, Json] = {"type": "object", "properties": {"order": {"type": "string"}}, "required": ["order"]}
    return Tool(ToolSpec("find_order", "Look up an order.", schema, Effect.OBSERVATION, OBSERVER), run)
