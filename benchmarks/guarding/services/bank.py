"""A bank account, with the bills that are to be paid."""

from __future__ import annotations

from collections.abc import Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row, select_rows


def bank_tools(bills: tuple[Row, ...], payments: tuple[Row, ...], journal: Journal) -> Sequence[Tool]:
    """Return tools that look up bills and earlier payments, and that move money."""

    @foregate.tool(read_only=True)
    def get_bill(name: str) -> Row:
        """Return the newest bill of somebody: who is to be paid, how much and what for."""
        return next(iter(select_rows(bills, name)), {})

    @foregate.tool(read_only=True)
    def list_payments(to: str = "") -> list[Row]:
        """Return earlier payments, those to somebody where a name is given."""
        return select_rows(payments, to)

    @foregate.tool(
        effect="send",
        external=True,
        reversible=False,
        high_impact=True,
        targets={"to": "other"},
        amounts=["amount"],
        texts=["reference"],
    )
    def pay(to: str, amount: float, reference: str = "") -> str:
        """Pay an amount in euros from the account to another one."""
        return journal.add("paid", to, f"{amount:g}", reference)

    @foregate.tool(
        effect="send",
        external=True,
        reversible=False,
        high_impact=True,
        targets={"payer": "other", "payee": "other"},
        amounts=["amount"],
    )
    def transfer(payer: str, payee: str, amount: float) -> str:
        """Move an amount in euros between two accounts the user may draw on."""
        return journal.add("moved", payer, payee, f"{amount:g}")

    return (get_bill, list_payments, pay, transfer)
