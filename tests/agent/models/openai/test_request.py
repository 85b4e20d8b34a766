"""What is sent: names, ids and messages in the form every endpoint takes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.models.openai.request import WireRequest, encode_body
from foregate.schemas.errors import ModelError
from foregate.schemas.message import ALLOWED, UNANSWERED, Message, ModelRequest, WireNames, format_messages
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec
from tests.agent.models.openai.wire_rules import refusals

NAMES = WireNames(["read", "server.tool"])


def call(id: str, name: str = "read", raw: str = "{}") -> ToolCall:  # noqa: A002
    return ToolCall.parse(name, raw, id=id)


@given(st.lists(st.text(max_size=90) | st.sampled_from(["a.b", "a_b", "a b", "a" * 70, "a" * 71]), unique=True))
def test_names_go_to_the_wires_alphabet_and_back(names: list[str]) -> None:
    table = WireNames(names)
    wires = [table.to_wire(name) for name in names]
    assert len(set(wires)) == len(names)
    assert all(ALLOWED.fullmatch(wire) and len(wire) <= 64 for wire in wires)
    assert [table.to_own(wire) for wire in wires] == names


def test_at_most_four_stops_are_sent_and_none_that_was_declined() -> None:
    wire = WireRequest(ModelRequest([Message("user", "u")], stop=("a", "b", "c", "d", "e")))
    body, _ = wire.build_body("m", stream=False)
    assert (body["stop"], list(refusals(body))) == (["a", "b", "c", "d"], [])
    assert "stop" not in wire.build_body("m", stream=False, learnt={"stop": True})[0]


def test_a_name_the_wire_allows_stays_and_others_make_way() -> None:
    table = WireNames(["server.tool", "server_tool"])
    assert table.to_wire("server_tool") == "server_tool"
    assert table.to_wire("server.tool").startswith("server_tool_")


def test_a_name_from_history_is_spelled_but_never_read_as_a_tool() -> None:
    table = WireNames(["read"])
    assert table.to_wire("made up!") == "made_up_"
    assert table.to_own("made_up_") == "made_up_"


def test_answers_follow_their_calls_at_once_and_what_stood_between_comes_after() -> None:
    history = [
        Message("user", "go"),
        Message("assistant", "", (call("c1.1"), call("c1.2", "server.tool"))),
        Message("tool", "two", call="c1.2"),
        Message("user", "a notice"),
        Message("tool", "one", call="c1.1"),
    ]
    sent = format_messages(history, NAMES)
    assert [(m["role"], m["content"]) for m in sent[2:]] == [("tool", "one"), ("tool", "two"), ("user", "a notice")]
    assert [c["function"]["name"] for c in sent[1]["tool_calls"]] == ["read", "server_tool"]
    assert sent[1]["content"] is None


def test_a_call_without_an_answer_gets_one_that_says_so() -> None:
    assert format_messages([Message("assistant", "x", (call("c1.1"),))], NAMES)[1]["content"] == UNANSWERED


def test_arguments_that_are_no_json_do_not_spoil_the_conversation() -> None:
    sent = format_messages([Message("assistant", "", (call("c1.1", raw='{"a":'),))], NAMES)
    assert sent[0]["tool_calls"][0]["function"]["arguments"] == '{"unreadable_arguments": "{\\"a\\":"}'


def test_an_empty_answer_of_the_model_is_left_out() -> None:
    assert [m["role"] for m in format_messages([Message("user", ""), Message("assistant", "")], NAMES)] == ["user"]


@pytest.mark.parametrize(
    ("history", "sentence"),
    [
        ([Message("tool", "x", call="c1.1")], "a call nobody made"),
        ([Message("tool", "x", call="c1.1"), Message("assistant", "", (call("c1.1"),))], "a call nobody made"),
        ([Message("assistant", "", (call("c1.1"),)), *[Message("tool", "x", call="c1.1")] * 2], "twice"),
        ([Message("assistant", "", (call("c1.1"), call("c1.1")))], "two calls with the id"),
    ],
)
def test_a_conversation_that_does_not_fit_together_is_refused(history: list[Message], sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        format_messages(history, NAMES)


TEXTS = st.text(alphabet=st.characters(), max_size=6)


@given(st.lists(st.lists(st.tuples(TEXTS, TEXTS), max_size=3), max_size=4), st.randoms(), st.booleans())
def test_every_conversation_of_ours_is_one_a_real_endpoint_takes(turns: Any, random: Any, words_only: bool) -> None:
    history = [Message("system", "be good"), Message("user", "go")]
    for seq, turn in enumerate(turns):
        calls = tuple(call(f"c{seq}.{n}", name, raw) for n, (name, raw) in enumerate(turn))
        history.append(Message("assistant", "", calls))
        answers = [Message("tool", "ok", call=one.id) for one in calls if random.random() < 0.8]
        random.shuffle(answers)
        history += [Message("user", "notice"), *answers]
    specs = [ToolSpec(name, "", {}) for name in dict.fromkeys(name for turn in turns for name, _ in turn)]
    body, _ = WireRequest(ModelRequest(history, specs, words_only)).build_body("m", stream=True)
    assert list(refusals(body)) == []
    encode_body(body).decode("utf-8")
