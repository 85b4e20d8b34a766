"""What is recorded is written to the bytes that its parts say, whoever made them."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, get_args

import pytest
from hypothesis import given
from msgspec import Struct
from msgspec.structs import fields, replace

from foregate.schemas import strict_json
from foregate.schemas.event import Body, NeedAnswered, TurnJudged
from foregate.schemas.event_body import ContextCompressed, Remotes, TaskStarted, ToolFinished, UserMessage
from foregate.schemas.judgement import Answer, Decision, Grant, Judgement
from foregate.schemas.noun import Noun
from foregate.schemas.noun_bytes import describe_noun, encode_noun
from foregate.schemas.task_plan import FillRequest, PlanStepChanged
from foregate.schemas.tool_call import EvidenceKind, EvidenceRecord, Origin
from foregate.schemas.tool_spec import Resource, ResourceKind
from foregate.schemas.turn import Counters, TurnRecord
from tests.schemas.test_codec import DECISIONS

_HASHES: dict[str, Any] = {f"{name}_hash": "0" * 64 for name in ("policy", "catalogue", "prompts")}
_BARE = TurnRecord(response=7, task=1, turn=2, now="", surveys=(), user_messages=(), **_HASHES)
_RECORD = replace(_BARE, counters=Counters(turns=1))
_JUDGED = TurnJudged(turn=_RECORD, judgement=Judgement((), ()), survey_hash="", fingerprints={})
_UNCOUNTED = replace(_JUDGED, turn=_BARE)
_CUT: dict[str, Any] = {"strategy": "keep_ends", "limit": 1, "counted_by": "estimate", "before": 2, "after": 1}
_COMPRESSED = ContextCompressed(left_out=((2, 4),), shortened=(), open=(), summary="", **_CUT)
_ASKED = FillRequest(notice="", about={}, request="", context=_COMPRESSED)
_CALL: dict[str, Any] = {"call": "c1", "tool": "t", "target": "", "duration": 1, "origin": Origin.WORKSPACE}
_FINISHED = ToolFinished(ok=True, content="null", evidence=(), changes=(), **_CALL)
_ANSWERED = NeedAnswered(answer=Answer("plan", "person", "", (), "", ""))
_SEEN = EvidenceRecord(EvidenceKind.FILE_READ, Resource(ResourceKind.FILE, 'a"\n'), origin=Origin.EXTERNAL)


def _build(text: str) -> Any:
    """Return a text that equals another without being the same object."""
    return "".join(list(text))


def _decide(**given: Any) -> TurnJudged:
    return replace(_JUDGED, judgement=Judgement((), (Decision("plan", "plan_passed", **given),)))


EQUAL: dict[str, tuple[Noun, Noun]] = {
    "a mapping that is no dict": (_decide(detail=MappingProxyType({})), _decide()),
    "a noun": (_UNCOUNTED, replace(_UNCOUNTED, notice="")),
    "a word in a part of a part": (
        replace(_ANSWERED, grants=(Grant("a", "b", "c", until=_build("session")),)),
        replace(_ANSWERED, grants=(Grant("a", "b", "c"),)),
    ),
    "a word of a Literal": (replace(_JUDGED, turn=replace(_BARE, actor=_build("model"))), _UNCOUNTED),
    "a word of a Literal in a part of a part": (_decide(mode=_build("enforce")), _decide()),
    "an empty mapping": (replace(_FINISHED, used={}), _FINISHED),
}
OTHER: list[Noun] = [
    _decide(mode="shadow", detail={"é": 1, "a": None}),
    replace(_JUDGED, turn=replace(_RECORD, done_steps={}, actor="runner", fired={"b": 2, "a": 1})),
    replace(_FINISHED, used=MappingProxyType({"tokens": 3})),
    replace(_FINISHED, evidence=(_SEEN,)),
    TaskStarted(task=1, depth=0, leave=None),
    Remotes({"b": "x", "a": "y"}),
    PlanStepChanged(
        plan="", step=1, status="running", ask=FillRequest(notice="", about={}, request="", context=_COMPRESSED)
    ),
]


@pytest.mark.parametrize("name", EQUAL)
def test_what_equals_its_default_is_left_out_whoever_made_it(name: str) -> None:
    made, plain = EQUAL[name]
    assert encode_noun(made) == encode_noun(plain) == strict_json.encode_record(strict_json.dump(plain))


@pytest.mark.parametrize("noun", OTHER)
def test_bytes_are_those_of_the_parts_written_one_by_one(noun: Noun) -> None:
    assert encode_noun(noun) == strict_json.encode_record(strict_json.dump(noun))


@given(DECISIONS)
def test_any_decision_is_written_as_its_parts_are(decision: Decision) -> None:
    assert encode_noun(decision) == strict_json.encode_record(strict_json.dump(decision))


def test_a_body_is_written_without_the_name_of_its_kind() -> None:
    assert encode_noun(UserMessage(text='"kind":"user_message"')) == rb'{"text":"\"kind\":\"user_message\""}'


def test_a_number_that_is_not_finite_is_refused_wherever_it_stands() -> None:
    with pytest.raises(ValueError, match="not finite"):
        encode_noun(_decide(detail={"a": [float("nan")]}))


@pytest.mark.parametrize("body", get_args(Body))
def test_every_kind_of_event_is_made_of_nouns_alone(body: type[Noun]) -> None:
    bare, *_ = describe_noun(body)
    assert [one.encode_name for one in fields(bare)] == [one.encode_name for one in fields(body)]


def test_a_part_that_is_no_noun_is_refused() -> None:
    class Part(Struct, frozen=True):
        text: str = ""

    with pytest.raises(TypeError, match="derive it from Noun"):
        describe_noun(type("Whole", (Noun,), {"__annotations__": {"part": Part}}))
