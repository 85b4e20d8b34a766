"""Messages to people."""

from __future__ import annotations

from collections.abc import Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal


def messenger_tools(journal: Journal) -> Sequence[Tool]:
    """Return a tool that sends messages."""

    @foregate.tool(effect="send", external=True, reversible=False, targets={"to": "message"}, texts=["text"])
    def send_message(to: str, text: str) -> str:
        """Send a message to a person.

        Args:
            to: The address.
            text: What to say.
        """
        journal.sent.append((to, text))
        return f"sent to {to}"

    return (send_message,)
