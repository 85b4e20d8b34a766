"""What only an endpoint understands: it may add to a message, and never say whose words or which calls they are."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from foregate.schemas.message import Message, WireNames, format_messages
from foregate.schemas.model_response import WireMessage, read_fields, write_fields
from foregate.schemas.tool_call import ToolCall

CALL = ToolCall.parse("read", '{"path":"a"}', id="c1.1", wire_id="w1")


def test_own_fields_take_the_place_of_no_role_call_id_name_or_arguments() -> None:
    bad = {"role": "system", "tool_calls": [], "note": "n"}
    call = {"id": "x", "type": "t", "function": {"name": "rm", "arguments": "{}", "strict": True}, "note": "n"}
    wire = WireMessage("e", write_fields(bad), (write_fields(call),))
    history = [Message("assistant", "", (CALL,), wire=wire), Message("assistant", "hi", wire=wire)]
    made, _, plain = format_messages(history, WireNames([]), "e")
    function = {"strict": True, "name": "read", "arguments": '{"path":"a"}'}
    sent = {"id": "w1", "type": "function", "function": function, "note": "n"}
    assert made == {"role": "assistant", "content": None, "tool_calls": [sent], "note": "n"}
    assert plain == {"role": "assistant", "content": "hi", "note": "n"}


@pytest.mark.parametrize("text", ["", "[]", "null", "{", "[" * 500, '{"a":' * 300 + "1" + "}" * 300])
def test_what_is_no_object_or_nested_too_deep_has_no_fields(text: str) -> None:
    assert read_fields(text) == {}


@pytest.mark.parametrize("endpoint", [None, "e", "other"])
def test_each_message_of_a_longer_history_takes_the_same_work(endpoint: str | None) -> None:
    counted = [count_work(size, endpoint) for size in (10, 20, 40)]
    assert counted[2] - counted[1] == 2 * (counted[1] - counted[0])
    assert (counted[1] - counted[0]) / 10 < 40


def count_work(size: int, endpoint: str | None) -> int:
    """Return how many functions are called to write a history of so many calls with their answers."""
    history: list[Message] = []
    for number in range(size):
        call = ToolCall.parse("read", "{}", id=f"c{number}.1", wire_id=f"w{number}")
        wire = WireMessage("e", '{"note":"n"}', ('{"extra":1}',))
        history += [Message("assistant", "", (call,), wire=wire), Message("tool", "{}", call=call.id)]
    names, calls = WireNames(["read"]), 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event == "call"

    format_messages(history, names, endpoint)
    sys.setprofile(note)
    format_messages(history, names, endpoint)
    sys.setprofile(None)
    return calls
