"""Under `classic` an ordinary order keeps its tools: words are wanted only where nothing asks for more."""

from __future__ import annotations

import pytest

from foregate.schemas.tool_call import ToolCall
from tests.agent.classic.play import CLASSIC
from tests.gates.turns import call, codes, judged, turn
from tests.policies import policy_with

NO_PLAN = policy_with({"plan.mode": "off", "critique.mode": "off", "uncertainty.mode": "off"}, CLASSIC)
EDIT = call("edit_file")
ORDERS = (
    "Fix the typo in a.txt",
    "Rename the variable x to count in a.txt",
    "Make a.txt shorter",
    "Book a table for two at eight",
    "Reply to Bob that I am late",
    "Please schedule the meeting for Monday",
    "Cancel my reservation",
    "Order more paper",
    "Translate a.txt into French and save it",
    "Pay the invoice of April",
    "Can you tidy up the notes?",
    "Put the second line first",
    "Upload the report",
    "Ändere die Überschrift in a.txt",
    "Bitte korrigiere den Tippfehler in a.txt",
    "Lösche die zweite Zeile",
    "Schick Bob eine Nachricht",
    "Kannst du den Termin verschieben?",
    "Überweise die Miete",
    "Corrige la faute dans a.txt",
    "Envoie un message à Bob",
    "Supprime la deuxième ligne",
    "Pouvez-vous réserver une table ?",
)
TALK = (
    "hello there",
    "Why is the sky blue?",
    "What would you delete here?",
    "Danke, das war gut",
    "Don't send anything",
)


def drift(says: str, of: ToolCall = EDIT) -> str:
    """Return what `drift` says of a change after these words."""
    return codes(judged(turn(of, says=says), NO_PLAN))["drift"]


@pytest.mark.parametrize("order", ORDERS)
def test_an_order_is_no_talk(order: str) -> None:
    assert drift(order) == "drift_passed"


@pytest.mark.parametrize("words", TALK)
def test_talk_questions_and_prohibitions_are_no_orders(words: str) -> None:
    assert drift(words) == "text_only_turn_side_effecting_tool_drift"


def test_the_name_of_a_tool_asks_for_it() -> None:
    says = "remember that I like tea"
    assert drift(says, call("remember")) == "drift_passed" != drift(says, call("send", "bob@example.org"))
