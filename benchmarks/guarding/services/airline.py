"""An airline: travellers, their reservations, and the flights they may book."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row

Cabin = Literal["basic_economy", "economy", "business"]


def airline_tools(
    travellers: tuple[Row, ...], reservations: tuple[Row, ...], flights: tuple[Row, ...], journal: Journal
) -> Sequence[Tool]:
    """Return tools that look travellers, reservations and flights up, and that book, change and cancel."""

    @foregate.tool(read_only=True, own="all")
    def get_traveller(traveller: str) -> Row:
        """Return a traveller by their id: name, birthday, ways to pay, reservations."""
        return find(travellers, "traveller", traveller)

    @foregate.tool(read_only=True, own="all")
    def get_reservation(reservation: str) -> Row:
        """Return a reservation by its id: traveller, cabin, flights, passengers, bags."""
        return find(reservations, "reservation", reservation)

    @foregate.tool(read_only=True, own="all")
    def search_flights(origin: str, destination: str, date: str) -> list[Row]:
        """Return the flights between two airports on a day, as in 2027-05-20."""
        return [
            row for row in flights if (row["origin"], row["destination"], row["date"]) == (origin, destination, date)
        ]

    @foregate.tool(effect="send", external=True, reversible=False, targets={"traveller": "other"})
    def book_flight(
        traveller: str,
        origin: str,
        destination: str,
        cabin: Cabin,
        flights: list[dict[str, Any]],
        passengers: list[dict[str, Any]],
        payments: list[dict[str, Any]],
        bags: int,
        insurance: Literal["yes", "no"],
    ) -> str:
        """Book flights for passengers.

        Args:
            traveller: The id of the traveller who books.
            origin: The airport it begins at.
            destination: The airport it leads to.
            cabin: The class.
            flights: Each with `flight` and `date`.
            passengers: Each with `first_name`, `last_name` and `birthday`.
            payments: Each with `payment` and `amount`.
            bags: How many are checked.
            insurance: Whether the trip is insured.
        """
        numbers = " ".join(f"{one['flight']} {one['date']}" for one in flights)
        names = " ".join(f"{one['first_name']} {one['last_name']}" for one in passengers)
        paid = " ".join(f"{one['payment']} {one['amount']:g}" for one in payments)
        return journal.add("reserved", traveller, cabin, numbers, names, paid, bags, insurance)

    @foregate.tool(effect="edit", external=True, reversible=False, targets={"reservation": "other"})
    def change_flights(reservation: str, cabin: Cabin, flights: list[dict[str, Any]], payment: str) -> str:
        """Change the flights of a reservation, each with `flight` and `date`, and pay the difference."""
        numbers = " ".join(f"{one['flight']} {one['date']}" for one in flights)
        return journal.add("changed", reservation, cabin, numbers, payment)

    @foregate.tool(effect="edit", external=True, reversible=False, targets={"reservation": "other"}, amounts=["bags"])
    def change_bags(reservation: str, bags: int, payment: str) -> str:
        """Set how many bags a reservation has in all, and pay for those that are new."""
        return journal.add("changed", reservation, "bags", bags, payment)

    @foregate.tool(effect="delete", external=True, reversible=False, targets={"reservation": "other"})
    def cancel_reservation(reservation: str) -> str:
        """Cancel a reservation for good."""
        return journal.add("cancelled", reservation)

    return (
        get_traveller,
        get_reservation,
        search_flights,
        book_flight,
        change_flights,
        change_bags,
        cancel_reservation,
    )


def find(rows: tuple[Row, ...], key: str, wanted: str) -> Row:
    """Return the row whose key is the wanted one, an empty one where there is none."""
    return next((row for row in rows if row[key] == wanted), {})
