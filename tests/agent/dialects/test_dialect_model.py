"""A model that writes its calls into its text, in a real session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from foregate.agent.dialects.dialect_model import DialectModel
from foregate.agent.dialects.json_dialect import JsonDialect
from foregate.agent.dialects.tag_dialects import ActionTags
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, says
from foregate.schemas.event import ModelResponded
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import Follower, ModelResponse
from tests.agent.dialects.specs import TOOLS
from tests.agent.world import World


async def test_calls_in_text_are_judged_run_and_answered_like_any_other() -> None:
    world = World()
    model = ScriptedModel(
        [
            says('I look first. {"tool": "read_file", "args": {"path": "a.txt"}}'),
            says('{"tool": "edit_file", "args": {"path": "a.txt", "old": "teh", "new": "the"}}'),
            says("Done."),
        ]
    )
    session = await world.open(DialectModel(model, JsonDialect()))
    outcome = await run(session, "fix the typo teh in a.txt: replace it with the")
    assert (outcome.status, outcome.text, len(world.effects)) == ("completed", "Done.", 2)
    first, last = model.requests[0], model.requests[-1]
    assert not any(request.tools for request in model.requests)
    assert '- "edit_file"' in first.messages[0].text
    assert [message.role for message in last.messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert not any(message.calls for message in last.messages)
    assert '"tool":"read_file"' in last.messages[2].text
    assert '"output":"teh cat' in last.messages[3].text
    assert [body.raw[:16] for body in await world.bodies(ModelResponded)] == [
        'I look first. {"',
        '{"tool": "edit_f',
        "",
    ]


async def test_words_are_shown_as_they_come_and_calls_never() -> None:
    shown: list[str] = []
    model = DialectModel(ScriptedModel([says('Now. {"tool": "read_file", "args": {}} Then.')]), JsonDialect())
    response = await model.respond(ModelRequest([Message("system", "s"), Message("user", "u")]), shown.append)
    assert "".join(shown) == response.text == "Now.  Then."
    assert response.finish_reason == "tool_calls"


class Cut:
    """A model whose text is cut off within a tag and begins again."""

    name = "cut"

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        assert isinstance(on_text, Follower)
        on_text("I look. <read_file>a.t")
        on_text.restart("again")
        on_text("I look. <read_file>a.txt</read_file>")
        return says("I look. <read_file>a.txt</read_file>")


async def test_a_text_that_begins_again_is_read_from_its_beginning() -> None:
    shown: list[str] = []
    request = ModelRequest([Message("system", "s"), Message("user", "u")], TOOLS)
    response = await DialectModel(Cut(), ActionTags()).respond(request, shown.append)
    assert "".join(shown).split() == ["I", "look.", "[again]", "I", "look."]
    assert [(call.name, call.arguments) for call in response.calls] == [("read_file", {"path": "a.txt"})]


@pytest.mark.parametrize(
    "asked", [{"purpose": "critique"}, {"schema_name": "x", "schema": {"type": "object"}, "purpose": "chat"}]
)
async def test_a_request_for_strict_json_is_passed_on_as_it_is(asked: dict[str, Any]) -> None:
    model = ScriptedModel([says('{"tool": "read_file", "args": {}}')])
    request = ModelRequest([Message("user", "u")], **asked)
    response = await DialectModel(model, JsonDialect()).respond(request)
    assert (response.calls, model.requests) == ((), [request])
