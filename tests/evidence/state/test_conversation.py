"""Answers stand behind the message that asked for them, in the order of its calls, however they came in."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from foregate.evidence.state.conversation import Conversation
from foregate.schemas.message import Message
from foregate.schemas.tool_call import ToolCall


def asks(*ids: str) -> Message:
    """Return a message with calls of these ids."""
    return Message("assistant", "", tuple(ToolCall.of("x", {}, id=id_) for id_ in ids))


def answers(call: str) -> Message:
    """Return the answer to a call."""
    return Message("tool", call, call=call)


@given(st.permutations([*"abcdef"]), st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5)))
@example([*"fedcba"], {0}, {3})
def test_answers_stand_in_the_order_of_their_calls(came: list[str], strangers: set[int], words: set[int]) -> None:
    held = Conversation()
    held.add_message(asks("old"))
    held.add_message(answers("old"))
    held.add_message(asks(*"abcdef"))
    for number, call in enumerate(came):
        if number in strangers:
            held.add_message(answers("old"))
        if number in words:
            held.add_message(Message("user", "and?"), by_user=True)
        held.add_message(answers(call))
    behind = held.messages[3:]
    run = [message.call for message in behind[: [*(message.role for message in behind), "user"].index("user")]]
    assert [call for call in run if call != "old"] == [*"abcdef"]
    assert len(held.messages) == len(held.weights) == 3 + 6 + len(strangers) + len(words)
    if words:
        assert held.messages[held.newest].text == "and?"


def test_thousands_of_answers_find_their_places_without_looking_at_one_another() -> None:
    ids = [f"c{number}" for number in range(20_000)]
    held = Conversation()
    held.add_message(asks(*ids))
    for id_ in reversed(ids):
        held.add_message(answers(id_))
    assert [message.call for message in held.messages[1:]] == ids
