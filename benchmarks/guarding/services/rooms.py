"""Rooms to be booked."""

from __future__ import annotations

from collections.abc import Sequence

import foregate
from foregate.agent.tools.tool import Tool
from guarding.services.journal import Journal, Row, select_rows


def rooms_tools(rooms: tuple[Row, ...], journal: Journal) -> Sequence[Tool]:
    """Return tools that search rooms and book one."""

    @foregate.tool(read_only=True, own="all")
    def search_rooms(city: str) -> list[Row]:
        """Return the rooms that are free in a city: number, house, price a night."""
        return select_rows(rooms, city)

    @foregate.tool(effect="send", external=True, reversible=False, targets={"room": "other"}, amounts=["nights"])
    def book_room(room: str, nights: int, arrival: str) -> str:
        """Book a room by its number; it is paid on arrival."""
        return journal.add("booked", room, nights, arrival)

    return (search_rooms, book_room)
