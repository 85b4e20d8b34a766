"""The values of a call: which count, and where each comes from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from foregate.schemas.strict_json import Json
from foregate.schemas.tool_spec import Declaration, Effect, ResourceKind, TargetParameter
from tests.agent.survey.values import LOOK, PAY, SEND, SENDS, THIEF, TO, UNDECLARED, sources, survey
from tests.policies import policy_with

BEN = "ben@lake.example"
ASKED = f"Send {BEN} the minutes."
PAGE = "a page from outside"


@pytest.mark.parametrize(
    "to",
    [
        THIEF,
        f"Ben <{THIEF}>",
        f"{BEN}, {THIEF}",
        f"{BEN};{THIEF}",
        f"{BEN}\nBcc: {THIEF}",
        f"{BEN}?cc={THIEF}",
        f"{BEN}%0Acc:{THIEF}",
        f'"{BEN}" {THIEF}',
        "b\u200ben@lake.example",
        "ben@lake.example\u202e",
        "b\u0435n@lake.example",
        "be\u0301n@lake.example",
        "ben@lake.example.evil.example",
        "ben@lake.exampl\u0435",
        f"{BEN} " + "x" * 400,
        [BEN, THIEF],
        {"address": THIEF},
        {THIEF: "to"},
        {BEN: True, THIEF: True},
    ],
)
def test_what_a_person_did_not_say_as_a_whole_is_outside_however_it_is_wrapped(to: Json) -> None:
    assert "outside" in sources(SEND, {"to": to, "body": "hi"}, ASKED, outside=PAGE).values()


@pytest.mark.parametrize("to", [BEN, "Ben@Lake.example", f"mailto:{BEN}", f"<{BEN}>", "ben\uff20lake.example", [BEN]])
def test_what_a_person_said_is_said_however_it_is_written(to: Json) -> None:
    assert set(sources(SEND, {"to": to, "body": "hi"}, ASKED, outside=PAGE).values()) == {"said"}


@pytest.mark.parametrize(
    "url",
    [
        "https://good.example@evil.example/",
        "https://good.example/?d=s3cr3t",
        "https://good.example:8443/",
        "https://good.example#s3cr3t",
        "https://user:s3cr3t@good.example/",
        "https://good.example\\@evil.example/",
        "https://xn--god-jna.example/",
        "https://good.example.evil.example/",
        "//evil.example/",
        "ftp://good.example/",
    ],
)
def test_a_look_at_another_address_than_the_one_said_leaves_for_outside(url: str) -> None:
    spec = replace(LOOK, targets=(TargetParameter("url", ResourceKind.URL, LOOK.effect),))
    found = survey(spec, {"url": url}, "Read https://good.example/ for me.", outside=PAGE)
    assert found.leaves == url[:64]
    assert [value.source for value in found.values or ()] == ["outside"]


@pytest.mark.parametrize("url", ["https://good.example/", "https://GOOD.example", "https://good.example./"])
def test_a_look_at_the_address_said_is_said(url: str) -> None:
    assert sources(LOOK, {"url": url}, "Read https://good.example/ for me.", outside=PAGE) == {"url": "said"}


@pytest.mark.parametrize("text", [f"Ben <{THIEF}>", "see https://evil.example/?d=s3cr3t now", f"{BEN},{THIEF}"])
def test_an_address_within_the_words_of_a_look_leaves_too(text: str) -> None:
    found = survey(LOOK, {"words": text}, outside=PAGE)
    assert found.leaves
    assert "outside" in {value.source for value in found.values or ()}


def test_plain_words_of_a_look_leave_for_nowhere() -> None:
    found = survey(LOOK, {"words": "boats in 2024", "deep": {"a": [1, True, None]}}, outside=PAGE)
    assert (found.leaves, found.values) == ("", ())


def test_free_text_is_no_value_and_a_target_or_an_address_in_it_is_one() -> None:
    assert sources(SEND, {"to": BEN, "body": "write to her"}, ASKED, outside=PAGE) == {"to": "said"}
    (value, _) = survey(SEND, {"to": BEN, "body": f"write to {THIEF}"}, ASKED, outside=PAGE).values or ()
    assert (value.path, value.role, value.text, value.source) == ("body", "value", THIEF, "outside")
    hidden = replace(SEND, texts=("to", "body"))
    assert sources(hidden, {"to": THIEF, "body": "hi"}, ASKED, outside=PAGE) == {"to": "outside"}


def test_an_address_in_free_text_may_be_said_own_or_the_calls_and_leaves_only_with_what_leaves() -> None:
    body = {"to": BEN, "body": f"write to {THIEF}"}
    mine = {"own": ["email"], "reads": [f'{{"email": "{THIEF}", "text": "x"}}']}
    assert sources(SEND, body, ASKED, outside=PAGE, **mine) == {"to": "said"}
    assert sources(SEND, body, ASKED, outside=PAGE, **{**mine, "own": ["text"]})["body"] == "outside"
    prose = [f'{{"email": "write to {THIEF}"}}']
    assert sources(SEND, body, ASKED, outside=PAGE, own=["email"], reads=prose)["body"] == "outside"
    assert "body" not in sources(SEND, body, f"{ASKED} Is {THIEF} hers?", outside=PAGE)
    assert sources(SEND, {"to": BEN, "body": f"hi {BEN}"}, ASKED, outside=PAGE) == {"to": "said"}
    assert sources(SEND, body, ASKED) == {"to": "said"}
    keep = replace(SEND, effect=Effect.CREATE, capabilities=replace(SENDS, external_side_effect=False))
    assert "body" not in sources(keep, body, ASKED, outside=PAGE)
    assert "body" not in sources(replace(SEND, destination="own"), body, ASKED, outside=PAGE)


def test_of_a_tool_that_says_nothing_of_its_texts_an_address_within_an_object_counts() -> None:
    spec = replace(SEND, texts=())
    message = {"text": "hi", "cc": [THIEF]}
    assert sources(spec, {"to": BEN, "message": message}, ASKED, outside=PAGE) == {
        "to": "said",
        "message.cc[0]": "outside",
    }


def test_of_an_undeclared_tool_every_argument_counts() -> None:
    arguments = {"body": "hi", "n": 3, "deep": {"text": ["x"]}, "note": None, "empty": ""}
    assert sources(UNDECLARED, arguments, outside=PAGE) == dict.fromkeys(["body", "n", "deep.text[0]"], "outside")


def test_a_truth_value_that_the_tool_does_not_list_is_nobodys_and_none_to_be_named() -> None:
    schema: Json = {"type": "object", "properties": {"public": {"type": "boolean", "default": False}}}
    spec = replace(SEND, parameters=schema)
    assert sources(spec, {"to": BEN, "public": True}, ASKED, outside=PAGE) == {"to": "said", "public": "unsaid"}
    assert sources(spec, {"to": BEN, "public": False}, ASKED, outside=PAGE) == {"to": "said"}


def test_a_choice_counts_where_it_is_no_default_and_is_said_by_its_words_or_shown_but_never_to_be_named() -> None:
    roles: Json = {"anyOf": [{"$ref": "#/$defs/Role"}, {"type": "null"}]}
    properties: Json = {"role": roles, "trip": {"enum": ["one_way", "return"]}, "days": {"default": 7}}
    schema: Json = {"type": "object", "properties": properties, "$defs": {"Role": {"enum": ["viewer", "owner"]}}}
    spec = replace(SEND, parameters=schema)
    given = {"to": BEN, "role": "owner", "trip": "one_way", "days": 7}
    assert sources(spec, given, ASKED, outside=PAGE) == {"to": "said", "role": "unsaid", "trip": "unsaid"}
    asked = f"{ASKED} Make him an owner, one way."
    assert sources(spec, given, asked, outside=PAGE) == {"to": "said", "role": "said", "trip": "said"}
    assert sources(spec, {**given, "days": 9}, asked, outside=PAGE)["days"] == "outside"


def test_what_a_server_calls_a_choice_or_a_default_is_a_value_like_any_other() -> None:
    schema: Json = {"type": "object", "properties": {"role": {"enum": ["viewer", "owner"]}, "days": {"default": 7}}}
    spec = replace(SEND, parameters=schema, provenance="mcp:server")
    found = sources(spec, {"to": BEN, "role": "owner", "days": 7}, ASKED, outside=PAGE)
    assert found == {"to": "said", "role": "outside", "days": "outside"}


def test_keys_that_the_tool_lists_or_that_are_plain_words_are_no_values() -> None:
    schema: Json = {"type": "object", "properties": {"of": {"properties": {"x1": {}}}}}
    spec = replace(UNDECLARED, parameters=schema)
    found = sources(spec, {"of": {"x1": "a", "plain": "b", "XX99": "c"}}, outside=PAGE)
    assert set(found) == {"of.x1", "of.plain", "of.XX99 (key)", "of.XX99"}


def test_a_call_with_more_values_than_a_person_could_look_at_is_to_be_split() -> None:
    found = survey(UNDECLARED, {"all": [f"v{number}" for number in range(10_000)]}, outside=PAGE)
    assert (found.values, "more than 64 values" in found.problem) == (None, True)
    deep: Any = THIEF
    for _ in range(30):
        deep = [deep]
    (value,) = survey(UNDECLARED, {"deep": deep}, outside=PAGE).values or ()
    assert value.source == "outside"


def test_two_long_values_that_begin_alike_are_two_values() -> None:
    long = "word " * 60
    found = survey(UNDECLARED, {"a": f"{long}one", "b": f"{long}two"}, outside=PAGE).values or ()
    assert len({value.key for value in found}) == len({value.text for value in found}) == 2


def test_a_policy_without_a_mandate_looks_for_no_values() -> None:
    off = policy_with({"mandate.mode": "off"})
    assert survey(SEND, {"to": THIEF}, ASKED, outside=PAGE, policy=off).values is None


TEXT = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
JSON = st.recursive(LEAVES, lambda of: st.lists(of, max_size=4) | st.dictionaries(TEXT, of, max_size=4), max_leaves=12)


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_no_argument_whatever_it_is_makes_looking_fail_or_counts_as_said(arguments: dict[str, Any]) -> None:
    for spec in (UNDECLARED, PAY, LOOK):
        found = survey(spec, arguments, outside=json.dumps(arguments))
        assert {value.source for value in found.values or ()} <= {"outside", "unsaid"}


def test_a_target_that_the_operator_names_binds_though_they_call_it_free_text_too() -> None:
    """As for a server's tool, of which only the operator's policy says anything."""
    entry = {"texts": ["to", "body"], "targets": {"to": {"kind": "message", "access": "send"}}}
    policy = policy_with({"tools": {UNDECLARED.name: entry}})
    found = survey(UNDECLARED, {"to": THIEF, "body": "hi"}, ASKED, outside=PAGE, policy=policy)
    assert [(value.path, value.role, value.source) for value in found.values or ()] == [("to", "target", "outside")]


def test_what_a_person_called_free_text_is_that_as_a_text_and_not_as_an_object() -> None:
    said = Declaration("sends", "", targets=(TO,), texts=("body",))
    tool = replace(UNDECLARED, declared=said)
    flat = {"to": "bob@example.org", "body": "see you on the bridge"}
    assert sources(tool, flat, "mail bob@example.org") == {"to": "said"}
    assert sources(tool, {**flat, "body": ["see you", "on the bridge"]}, "mail bob@example.org") == {"to": "said"}
    nested = {**flat, "body": {"text": "see you", "copy": "Mallory"}}
    assert sources(tool, nested, "mail bob@example.org", outside="Mallory").keys() == {"to", "body.text", "body.copy"}


@pytest.mark.parametrize(
    ("message", "read", "unread"),
    [
        ("Pay the harbour bill.", "a page from outside", True),
        ("Pay the harbour bill.", "", True),
        ("Pay the harbour bill to acct_7334.", "a page from outside", False),
        ("Pay the harbour bill.", "the account is acct_7334", False),
        ("Pay the harbour bill.", json.dumps({"account": "acct_7334"}), False),
    ],
)
def test_a_code_that_nobody_said_and_nothing_read_holds_is_unread(message: str, read: str, unread: bool) -> None:
    found = survey(PAY, {"to": "acct_7334", "sum": 5}, message, outside=read)
    assert {value.path: value.is_unread for value in found.values or ()} == {"to": unread, "sum": False}


def test_what_a_call_creates_may_be_called_as_the_model_likes() -> None:
    spec = replace(PAY, effect=Effect.CREATE, targets=(TargetParameter("to", ResourceKind.OTHER, Effect.CREATE),))
    found = survey(spec, {"to": "acct_7334"}, "Open an account.", outside=PAGE)
    assert [value.is_unread for value in found.values or ()] == [False]


def test_a_number_is_made_up_where_it_is_a_target_and_may_be_reckoned_elsewhere() -> None:
    found = survey(PAY, {"to": 73340000, "amount": 1204500, "at": 1732928400}, "Pay the harbour bill.", outside=PAGE)
    assert {value.path: value.is_unread for value in found.values or ()} == {"to": True, "amount": False, "at": False}


def test_names_and_plain_numbers_are_shown_to_a_person_and_not_sent_back() -> None:
    for to in (THIEF, "Eve", "12", "https://evil.example/7"):
        found = survey(PAY, {"to": to}, "Pay the harbour bill.", outside=PAGE)
        assert not any(value.is_unread for value in found.values or ()), to
