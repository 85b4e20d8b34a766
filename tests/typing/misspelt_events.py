"""Mistakes in reading and writing events, each of which mypy must find; never run.

A line ends in the code of the error that belongs to it. A line without one is right, and mypy must not complain of it.
"""

from typing import assert_never

from foregate.schemas.event import Body, Draft, Event
from foregate.schemas.event_body import (
    Kind,
    OutcomeUnknown,
    TaskEnded,
    TaskPaused,
    ToolFinished,
    ToolStarted,
    UserMessage,
)
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin

Ended = ToolFinished | OutcomeUnknown


def writes(draft: Draft) -> None:
    UserMessage(text="hello")
    UserMessage(txt="hello")  # error: call-arg
    OutcomeUnknown(call="c1", tool="t", target="", reason="it died")
    OutcomeUnknown(call="c1", tool="t", target="")  # error: call-arg
    TaskPaused(reason="tired")  # error: arg-type
    ToolFinished(  # error: call-arg
        call="c1",
        tool="t",
        target="",
        ok=True,
        contnet="",
        duration=0,
        origin=Origin.USER,
        evidence=(),
        changes=(),
        exit_code="1",  # error: arg-type
    )
    Draft(UserMessage(text="hello"), "user")
    Draft({"text": "hello"}, "user")  # error: arg-type
    Draft(UserMessage(text="hello"), "usr")  # error: arg-type
    draft.body = UserMessage(text="another")  # error: misc


def reads(event: Event) -> str:
    text: str = event.body["text"]  # error: index
    text = event.body.text  # error: union-attr
    match event.body:
        case ToolFinished() as body:
            number: int | None = body.exit_code
            number = body.content  # error: assignment
            text = body.contnet  # error: attr-defined
            return f"{number} {text}"
        case ToolStarted(tool=tool, permit=permit):
            return f"{tool} {permit.judged} {permit.jugded}"  # error: attr-defined
        case TaskEnded(status="done"):
            return "a status there is none of"  # error: unreachable
        case UserMessage(txt=words):  # error: misc
            return str(words)
        case _:
            return event.kind


def reads_only_ends(body: Ended) -> str:
    match body:
        case ToolFinished(content=content):
            return content
        case OutcomeUnknown(reason=reason):
            return reason
        case _:
            assert_never(body)


def misses_an_end(body: Ended) -> str:
    match body:
        case ToolFinished(content=content):
            return content
        case _:
            assert_never(body)  # error: arg-type


def misses_most_kinds(body: Body) -> str:
    match body:
        case UserMessage(text=text):
            return text
        case _:
            assert_never(body)  # error: arg-type


def names_a_kind() -> tuple[Kind, ...]:
    kinds: tuple[Kind, ...] = ("tool_started", "tool_finished")
    return (*kinds, "tool_finishd")  # error: arg-type


def reads_json(value: Json) -> str:
    if isinstance(value, str):
        return value
    return value["text"]  # error: index
