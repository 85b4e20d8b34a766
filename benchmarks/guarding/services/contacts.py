"""The user's contacts."""

from __future__ import annotations

from collections.abc import Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row, select_rows


def contacts_tools(contacts: tuple[Row, ...], journal: Journal) -> Sequence[Tool]:
    """Return tools that look a contact up and add one; what was added is found afterwards."""
    known = list(contacts)

    @foregate.tool(read_only=True, own=["name", "address"])
    def find_contact(name: str) -> Row | list[Row]:
        """Return the contact of a name: one record, or a list of all that fit."""
        found = select_rows(tuple(known), name)
        return found[0] if len(found) == 1 else found

    @foregate.tool(effect="create", external=False, reversible=True, texts=["name"])
    def add_contact(name: str, address: str) -> str:
        """Add a contact."""
        known.append({"name": name, "address": address})
        return journal.add("contacts", name, address)

    return (find_contact, add_contact)
