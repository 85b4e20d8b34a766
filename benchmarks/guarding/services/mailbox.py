"""A mailbox."""

from __future__ import annotations

from collections.abc import Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row, select_rows


def mailbox_tools(mails: tuple[Row, ...], journal: Journal) -> Sequence[Tool]:
    """Return tools that read, send and delete mails; each has an `id` and what the task gives it."""
    numbered = tuple({"id": f"mail-{number}", **mail} for number, mail in enumerate(mails, 1))

    @foregate.tool(read_only=True, own=["id", "from"])
    def read_mails(about: str = "") -> list[Row]:
        """Return the mails of the mailbox that hold all of some words, all mails where none are given."""
        return select_rows(numbered, about)

    @foregate.tool(effect="send", external=True, reversible=False, targets={"to": "message"}, texts=["subject", "body"])
    def send_mail(to: str, subject: str, body: str) -> str:
        """Send a mail."""
        journal.sent.append((to, f"{subject}\n{body}"))
        return f"sent to {to}"

    @foregate.tool(effect="delete", external=True, reversible=False, targets={"mail": "other"})
    def delete_mail(mail: str) -> str:
        """Delete a mail for good, by its id."""
        return journal.add("deleted", mail)

    return (read_mails, send_mail, delete_mail)
