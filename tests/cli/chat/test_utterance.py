"""A line of a program is clearly one thing or nothing at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.cli.chat.stream import Misheard, Utterance, parse_utterance
from foregate.gates.support.replies import check_calls
from foregate.schemas.errors import UsageError
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply

JSON = st.recursive(st.none() | st.booleans() | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3))


@pytest.mark.parametrize(
    ("line", "gate", "expected"),
    [
        ("fix a.txt", "", Utterance("message", "fix a.txt")),
        ("  y  ", "", Utterance("message", "y")),
        ("y", "approval", Utterance("answer", "", "yes")),
        ("No, wait", "approval", None),
        ("n wrong folder", "approval", Utterance("answer", "wrong folder", "no")),
        ("a", "approval", Utterance("answer", "", "grant")),
        ("a", "loop", Utterance("answer", "", "anyway")),
        ("m use b.txt", "loop", Utterance("answer", "use b.txt", "more")),
        ("y", "loop", None),
        ("fix b.txt", "approval", None),
        ("/undo c3.1", "", Utterance("command", "/undo c3.1")),
        ("/quit", "approval", Utterance("command", "/quit")),
        ("/tmp/a.txt is wrong", "", Utterance("message", "/tmp/a.txt is wrong")),
        ('["a", "list"]', "", Utterance("message", '["a", "list"]')),
        ('{"message": "a\\nb"}', "approval", Utterance("message", "a\nb")),
        ('{"command": "/auto on"}', "", Utterance("command", "/auto on")),
        ('{"answer": "no", "text": " why "}', "approval", Utterance("answer", "why", "no")),
        ('{"answer": "yes", "request": "ab"}', "approval", Utterance("answer", "", "yes", "ab")),
        (
            '{"answer": "no", "calls": {"c3.1": "yes"}, "named": {"c3.1": ["10", " GB "]}}',
            "approval",
            Utterance("answer", "", "no", "", {"c3.1": "yes"}, {"c3.1": ("10", " GB ")}),
        ),
        (
            '{"answer": "yes", "declared": {"mail.send": {"nature": "sends", "targets": ["to"], "all": true}}}',
            "approval",
            Utterance("answer", "", "yes", declared={"mail.send": {"nature": "sends", "targets": ["to"], "all": True}}),
        ),
    ],
)
def test_plain_text_and_objects_say_one_thing(line: str, gate: str, expected: Utterance | None) -> None:
    if expected is None:
        with pytest.raises(Misheard, match="a question is open"):
            parse_utterance(line, gate)
    else:
        assert parse_utterance(line, gate) == expected


def test_an_empty_line_says_nothing() -> None:
    assert parse_utterance("  ", "approval") is None


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{}",
        '{"answer": "yes"} ok',
        '{"answer": "yes", "answer": "no"}',
        '{"answer": "yes", "message": "x"}',
        '{"answer": "yes", "sure": true}',
        '{"answer": true}',
        '{"answer": ["yes"]}',
        '{"answer": ""}',
        '{"answer": "yes", "request": 1}',
        '{"answer": "yes", "text": null}',
        '{"answer": "yes", "calls": null}',
        '{"answer": "yes", "calls": ["c3.1"]}',
        '{"answer": "yes", "calls": {"c3.1": true}}',
        '{"answer": "yes", "calls": {"c3.1": "granted"}}',
        '{"answer": "yes", "named": {"c3.1": "10"}}',
        '{"answer": "yes", "named": {"c3.1": [10]}}',
        '{"answer": "yes", "declared": "reads"}',
        '{"answer": "yes", "declared": {"mail.send": 1}}',
        '{"message": "x", "calls": {"c3.1": "no"}}',
        '{"calls": {"c3.1": "no"}}',
        '{"message": 1}',
        '{"message": " "}',
        '{"message": "x", "text": "y"}',
        '{"Answer": "yes"}',
        '{"message": "\\ud800"}',
    ],
)
def test_an_object_that_is_not_clearly_one_thing_is_refused_in_one_sentence(line: str) -> None:
    with pytest.raises(Misheard) as refused:
        parse_utterance(line, "approval")
    assert "\n" not in str(refused.value)


@given(
    st.dictionaries(
        st.sampled_from(["answer", "message", "command", "text", "request", "calls", "named", "declared", "x"]),
        JSON,
        max_size=3,
    )
)
def test_whatever_an_object_holds_it_says_one_thing_or_is_refused(said: dict[str, object]) -> None:
    try:
        heard = parse_utterance(json.dumps(said), "approval")
    except Misheard:
        return
    assert heard is not None
    assert str(said[heard.kind]).strip() == (heard.choice if heard.kind == "answer" else heard.text)
    assert set(said) <= {
        heard.kind,
        *(("text", "request", "calls", "named", "declared") if heard.kind == "answer" else ()),
    }


PAY = Need("approval", "person", "approval:1", ("c3.1", "c3.2"), ("d", "e"))


@pytest.mark.parametrize(
    ("said", "gate", "sentence"),
    [
        ({"calls": {"c3.3": "no"}}, "approval", "`c3.3` is no call of this question, which has c3.1, c3.2"),
        ({"named": {"C3.1": ["10"]}}, "approval", "`C3.1` is no call of this question"),
        ({"calls": {"c3.1": "no"}}, "loop", "`calls` and `named` are for approvals"),
        ({"declared": {"mail.send": "reads"}}, "approval", "`mail.send` is no tool that this sheet asks about"),
        ({"declared": {"mail.send": "reads"}}, "loop", "`mail.send` is no tool that this sheet asks about"),
    ],
)
def test_an_answer_about_calls_that_were_not_asked_about_is_refused(
    said: dict[str, Any], gate: str, sentence: str
) -> None:
    heard = parse_utterance(json.dumps({"answer": "yes", **said}), gate)
    assert heard is not None
    reply = Reply(heard.choice, heard.text, "program", heard.calls, heard.named, heard.declared)
    with pytest.raises(UsageError, match=sentence) as refused:
        check_calls(replace(PAY, gate=gate), reply)
    assert "\n" not in str(refused.value)


def test_an_answer_about_calls_of_the_question_is_taken() -> None:
    check_calls(PAY, Reply("no", calls={"c3.1": "yes"}, named={"c3.2": ("10",)}))
