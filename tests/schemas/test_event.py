"""Events: one class for each kind, and nothing read that this version does not know to the last field."""

from __future__ import annotations

import json
from typing import Any, get_args

import msgspec.inspect as inspect
import pytest
from hypothesis import given
from msgspec import Struct
from pydantic import BaseModel

from foregate import __version__
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import FORMAT, GENESIS, Body, Draft, Event
from foregate.schemas.event_body import KINDS, EventBody, get_kind
from foregate.telemetry.log import chain
from tests.schemas.made_bodies import TYPES, Same, bodies, body_of, nouns

OLD = "0.0.1"
"""A version that is not this one."""


def sealed(body: Body) -> tuple[Event, str]:
    """Return the event with this body, and its line in the log."""
    ((event, text),) = chain.seal_drafts(
        [Draft(body, "tool")], session="s", after=0, prev=GENESIS, policy="p", time="now"
    )
    return event, text


def changed(*path: str | int, to: Any, by: str = OLD) -> str:
    """Return the line of a finished call, written by a version, with something else at a path."""
    line = json.loads(sealed(body_of("tool_finished", Same()))[1])
    line["foregate"] = by
    place = line
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = to
    return json.dumps(line)


def refusal(line: str) -> str:
    """Return the sentence with which a line is refused."""
    with pytest.raises(InvalidJson) as caught:
        chain.read_line(line, "h")
    return str(caught.value)


def list_leaves(kind: type[EventBody]) -> set[type[EventBody]]:
    """Return the classes of ours below one that have none below themselves."""
    below = [one for one in kind.__subclasses__() if one.__module__.startswith("foregate.")]
    return set().union(*map(list_leaves, below)) if below else {kind}


def test_every_kind_has_exactly_one_body_and_the_union_lists_them_all() -> None:
    classes = get_args(Body)
    assert [get_kind(body) for body in classes] == list(KINDS)
    assert set(classes) == list_leaves(EventBody)
    assert [body_of(kind, Same()).kind for kind in KINDS] == list(KINDS)


def test_an_event_and_its_draft_name_the_kind_of_their_body() -> None:
    body = body_of("task_paused", Same())
    assert Draft(body, "user").kind == sealed(body)[0].kind == "task_paused"


def test_every_noun_in_a_body_refuses_fields_it_does_not_know() -> None:
    found = [noun for kind in TYPES for noun in nouns(kind)]
    assert len({noun.cls for noun in found}) > len(KINDS)
    for noun in found:
        if isinstance(noun, inspect.StructType):
            assert noun.forbid_unknown_fields, noun.cls
        else:
            assert issubclass(noun.cls, BaseModel), noun.cls
            assert noun.cls.model_config.get("extra") == "forbid", noun.cls


def test_no_noun_in_a_body_can_be_changed() -> None:
    changeable = {noun.cls for kind in TYPES for noun in nouns(kind) if issubclass(noun.cls, Struct)}
    assert [noun for noun in changeable if not noun.__struct_config__.frozen] == []


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "bare"])
@pytest.mark.parametrize("kind", KINDS)
def test_writing_what_was_read_gives_the_same_bytes(kind: str, whole: bool) -> None:
    event, text = sealed(body_of(kind, Same(whole=whole)))
    again = chain.read_line(text, event.hash)
    assert again == event
    assert strict_json.encode_record(chain.build_header(again)).decode() == text


@given(bodies())
def test_writing_what_was_read_gives_the_same_bytes_whatever_the_fields_hold(body: Body) -> None:
    event, text = sealed(body)
    again = chain.read_line(text, event.hash)
    assert again == event
    assert strict_json.encode_record(chain.build_header(again)).decode() == text


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.tag)
def test_a_field_at_its_default_is_left_out_and_every_other_written(kind: inspect.StructType) -> None:
    line = json.loads(sealed(body_of(str(kind.tag), Same(whole=False)))[1])
    assert set(line["body"]) == {field.encode_name for field in kind.fields if field.required}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (changed("kind", to="tool_done"), "kind `tool_done` is not one this version reads"),
        (changed("v", to=FORMAT + 1), f"format {FORMAT + 1}, kind `tool_finished` is not one this version reads"),
        (changed("colour", to=3), "its tool_finished cannot be read: Object contains unknown field `colour`"),
        (
            changed("body", "contnet", to="x"),
            "its tool_finished cannot be read: Object contains unknown field `contnet`",
        ),
        (changed("body", "evidence", 0, "resource", "colour", to=3), "unknown field `colour` - at `$.body.evidence[0]"),
        (
            changed("body", "ok", to="yes"),
            "its tool_finished cannot be read: Expected `bool`, got `str` - at `$.body.ok`",
        ),
        (changed("body", "changes", 0, "mode", to="x"), "Expected `int`, got `str` - at `$.body.changes[0].mode`"),
        (changed("body", "changes", to=None), "Expected `array`, got `null` - at `$.body.changes`"),
        (changed("body", "origin", to="moon"), "Invalid enum value 'moon' - at `$.body.origin`"),
        (changed("body", to=3), "Expected `object`, got `int` - at `$.body`"),
        (changed("body", to=[]), "Expected `object`, got `array` - at `$.body`"),
        (changed("body", to={}), "its tool_finished cannot be read: Object missing required field"),
        (changed("seq", to="1"), "its tool_finished cannot be read: Expected `int`, got `str` - at `$.seq`"),
        (changed("actor", to="moon"), "Invalid enum value 'moon' - at `$.actor`"),
    ],
)
def test_what_this_version_does_not_know_is_refused_in_a_sentence_that_names_it_and_who_wrote_it(
    line: str, said: str
) -> None:
    sentence = refusal(line)
    assert said in sentence
    assert sentence.endswith(f"; Foregate {OLD} wrote it and can read it")
    assert "\n" not in sentence


def test_of_what_this_version_wrote_itself_no_other_is_named() -> None:
    assert "wrote it" not in refusal(changed("kind", to="tool_done", by=__version__))
    assert "wrote it" not in refusal(changed("body", "ok", to="yes", by=__version__))


@pytest.mark.parametrize("line", ["3", "[]", "{}", '{"kind":"checkpoint"}'])
def test_a_line_that_is_no_event_at_all_is_refused(line: str) -> None:
    assert refusal(line) == "a stored line is not an event of this log's format"


@pytest.mark.parametrize("kind", ["checkpoint", "tool_finished", None])
def test_a_kind_inside_the_body_is_a_field_that_no_body_has(kind: str | None) -> None:
    assert "Object contains unknown field `kind` - at `$.body`" in refusal(changed("body", "kind", to=kind))
