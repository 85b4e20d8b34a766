"""What is said stays at home: not a byte of it is exported unless that is asked for, and then it is masked."""

from __future__ import annotations

import json

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls
from foregate.agent.session.session import Session
from foregate.schemas.model_response import ModelResponse
from foregate.telemetry.log.masking import Secret
from foregate.telemetry.otel import names
from foregate.telemetry.otel.rows import SHOWN, format_arguments, mask_and_cut
from tests.agent.world import World
from tests.telemetry.otel.conftest import Receive, to
from tests.telemetry.otel.receiver import Receiver

MARK = "marzipan"
SECRET = f"sk-{'a1B2' * 8}"
PATTERNS = (r"sk-[A-Za-z0-9_-]{20,}",)


async def told(receiver: Receiver, *, content: bool) -> Session:
    """Run a session that says the mark wherever anything can be said, and export it."""
    telemetry = to(receiver, content=content)
    world = World(files={f"{MARK}.txt": f"teh {MARK} {SECRET}".encode()})
    path = f"{MARK}.txt"
    model = [
        calls((f"{MARK}_tool", {MARK: MARK}), text=f"I will fix the {MARK}."),
        calls(("read_file", {"path": path})),
        calls(("edit_file", {"path": path, "old": "teh", "new": "the", MARK: SECRET})),
        calls(("edit_file", {"path": path, "old": "teh", "new": f"the {SECRET}"})),
        calls(("read_file", {"path": f"no-{path}"})),
        ModelResponse(f"done with {MARK} and {SECRET}", finish_reason=MARK),
    ]
    session = await world.open(model, listeners=[telemetry.take_event])
    assert (await run(session, f"fix the {MARK} with {SECRET} in {path}")).status == "completed"
    await telemetry.close()
    assert receiver.spans
    assert receiver.metrics
    return session


async def test_without_content_no_byte_anybody_said_is_exported(receiver: Receiver) -> None:
    await told(receiver, content=False)
    everything = b"".join(body for _, body in receiver.bodies)
    assert MARK.encode() not in everything
    assert SECRET.encode() not in everything


async def test_with_content_what_was_said_is_exported_and_what_the_policy_calls_sensitive_is_masked(
    receiver: Receiver,
) -> None:
    await told(receiver, content=True)
    assert SECRET.encode() not in b"".join(body for _, body in receiver.bodies)
    task, *rest = receiver.spans
    assert f"fix the {MARK} with [masked" in task.about[names.INPUT_MESSAGES]
    assert f"done with {MARK} and [masked" in task.about[names.OUTPUT_MESSAGES]
    (edit,) = [span for span in rest if span.name == "execute_tool edit_file"]
    assert json.loads(edit.about[names.TOOL_ARGUMENTS])["path"] == f"{MARK}.txt"
    assert "[masked" in edit.about[names.TOOL_ARGUMENTS]
    (read, _) = [span for span in rest if span.name == "execute_tool read_file"]
    assert f"teh {MARK} [masked" in read.about[names.TOOL_RESULT]
    targets = {event.about.get(names.TARGET) for span in rest for event in span.told}
    assert f"{MARK}.txt" in targets


async def test_a_secret_of_whoever_exports_is_masked_by_its_value(receiver: Receiver) -> None:
    telemetry = to(receiver, (Secret("DB_PASSWORD", "correct.horse"),), content=True)
    session = await World().open([ModelResponse("it is correct.horse")], listeners=[telemetry.take_event])
    await run(session, "is it correct.horse?")
    await telemetry.close()
    assert b"correct.horse" not in b"".join(body for _, body in receiver.bodies)
    assert "is it [masked DB_PASSWORD]?" in receiver.spans[0].about[names.INPUT_MESSAGES]


async def test_each_request_tells_what_was_said_since_the_one_before(receiver: Receiver) -> None:
    await told(receiver, content=True)
    requests = [span.about for span in receiver.spans if span.name.startswith("chat")]
    roles = [[message["role"] for message in json.loads(about[names.INPUT_MESSAGES])] for about in requests]
    assert roles == [["user"], *[["tool"]] * 5]
    (answer,) = json.loads(requests[1][names.OUTPUT_MESSAGES])
    assert [part["type"] for part in answer["parts"]] == ["text", "tool_call"]


async def test_the_question_a_task_pauses_with_is_content(receive: Receive) -> None:
    world = World()
    for content, found in ((False, None), (True, "assistant")):
        receiver = receive()
        telemetry = to(receiver, content=content)
        send = calls(("send", {"to": "x@example.org"}), text="I will tidy up as you asked me to.")
        session = await world.open([send], name=str(content), listeners=[telemetry.take_event])
        assert (await run(session, "clean this up")).status == "needs_input"
        await telemetry.close()
        said = receiver.spans[0].about.get(names.OUTPUT_MESSAGES)
        assert (said and json.loads(said)[0]["role"]) == found


@pytest.mark.parametrize(
    "raw",
    [
        json.dumps({"key": SECRET}),
        json.dumps({SECRET: 1}),
        '{"key": "' + "".join(f"\\u{ord(char):04x}" for char in SECRET) + '"}',
        "not json " + SECRET,
    ],
    ids=["value", "key", "escaped", "unreadable"],
)
def test_no_spelling_of_arguments_hides_a_secret(raw: str) -> None:
    text = format_arguments(raw, PATTERNS)
    assert "[masked" in text
    assert SECRET not in text


def test_a_text_is_masked_before_it_is_cut() -> None:
    text = mask_and_cut("x" * (SHOWN - 10) + SECRET, PATTERNS)
    assert SECRET[:8] not in text
    assert len(text) <= SHOWN + len(" [cut]")


async def test_what_was_seen_early_is_told_once_and_within_the_request_it_was_seen_in(receiver: Receiver) -> None:
    telemetry = to(receiver, content=True)
    model = [calls(("read_file", {"path": "a.txt"})), ModelResponse("ok")]
    session = await World().open(model, listeners=[telemetry.take_event], prefetch=True)
    await run(session, "what does a.txt say?")
    await telemetry.close()
    first, second = [span for span in receiver.spans if span.name.startswith("chat")]
    said = [json.loads(request.about[names.INPUT_MESSAGES]) for request in (first, second)]
    assert [[message["role"] for message in messages] for messages in said] == [["user"], ["tool"]]
    looks = [span for span in receiver.spans if span.name == "execute_tool read_file"]
    assert [first.start <= look.start <= first.end for look in looks] == [True, False]
