"""The person at an MCP client names what only text from outside said, in fields of the one form."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from mcp import types

from foregate.agent.serving.mcp_server import ClientPerson, build_form
from foregate.assembly.serve import describe_need
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply

IBAN = "US133000000121212121212"
OUTSIDE = {"path": "to", "role": "target", "text": IBAN, "source": "outside", "words": "read_file a.txt"}
AMOUNT = {"path": "amount", "role": "amount", "text": "10", "source": "unsaid", "words": ""}


def pay(*to_name: str) -> Need:
    """Return a need about one payment of which these values are to be named."""
    call: dict[str, Any] = {"call": "c3.1", "tool": "pay", "target": IBAN, "arguments": "{}", "why": ["it pays"]}
    request: dict[str, Any] = {"calls": [{**call, "values": [OUTSIDE, AMOUNT], "to_name": [*to_name]}]}
    return Need("approval", "person", "approval:1", ("c3.1",), ("d",), request)


async def reply(need: Need, action: Any, **content: Any) -> Reply | None:
    """Return what the client's answer becomes."""
    person = ClientPerson(None)
    waiting = asyncio.ensure_future(person.answer(need))
    await person.asked
    person.reply(types.ElicitResult(action=action, content=content or None))
    return await waiting


def test_the_form_has_a_field_for_each_value_to_name_and_says_who_said_it() -> None:
    assert set(build_form(pay())["properties"]) == {"approve"}
    form = build_form(pay(IBAN, "10"))
    assert (set(form["properties"]), form["required"]) == ({"approve", "value_1", "value_2"}, ["approve"])
    assert form["properties"]["value_1"] == {
        "type": "string",
        "title": "Type the value of `to` to let it run",
        "description": "not you: read_file a.txt; others can write there",
    }
    assert "  who said it: nobody said this" in describe_need(pay()).splitlines()
    assert f"  value to: {IBAN}" in describe_need(pay()).splitlines()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"approve": True, "value_1": IBAN}, Reply("yes", by="the client's person", named={"c3.1": (IBAN,)})),
        (
            {"approve": True, "value_1": "x", "value_9": IBAN},
            Reply("yes", by="the client's person", named={"c3.1": ("x",)}),
        ),
        ({"approve": True, "value_1": " "}, Reply("yes", by="the client's person")),
        ({"approve": False, "value_1": IBAN}, Reply("no", by="the client's person")),
        ({}, Reply("no", by="the client's person")),
    ],
)
async def test_what_is_typed_into_the_fields_goes_into_the_answer(content: dict[str, Any], expected: Reply) -> None:
    assert await reply(pay(IBAN), "accept", **content) == expected


async def test_a_form_that_is_declined_is_a_no_and_one_that_is_closed_no_answer() -> None:
    assert await reply(pay(IBAN), "decline", approve=True, value_1=IBAN) == Reply("no", by="the client's person")
    assert await reply(pay(IBAN), "cancel", approve=True, value_1=IBAN) is None
