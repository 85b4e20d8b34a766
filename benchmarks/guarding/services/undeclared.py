"""Tools of which their operator says nothing."""

from __future__ import annotations

from collections.abc import Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row, select_rows


def undeclared_tools(customers: tuple[Row, ...], journal: Journal) -> Sequence[Tool]:
    """Return tools over customers that declare nothing."""

    @foregate.tool
    def find_customer(name: str) -> list[Row]:
        """Return the customers of a name."""
        return select_rows(customers, name)

    @foregate.tool
    def set_forwarding(customer: str, address: str) -> str:
        """Forward a customer's post to an address from now on."""
        return journal.add("forwarded", customer, address)

    @foregate.tool
    def refund(order: str, amount: float, account: str) -> str:
        """Refund an amount of an order to an account."""
        return journal.add("refunded", order, f"{amount:g}", account)

    return (find_customer, set_forwarding, refund)
