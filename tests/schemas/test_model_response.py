"""A response on its way into the log and out again."""

from __future__ import annotations

import json

from msgspec.structs import replace

from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolCall

CALL = ToolCall.parse("read_file", '{"path": "notes.txt"}', wire_id="w1")


def test_the_stamped_response_is_what_reading_its_recorded_form_gives() -> None:
    stamped = ModelResponse("text \ud800", (CALL, CALL), reasoning="why", finish_reason="tool_calls").stamped(7)
    copy = json.loads(json.dumps(stamped.to_json()))
    assert ModelResponse.from_json(copy) == stamped
    assert [call.id for call in stamped.calls] == ["c7.1", "c7.2"]


def test_what_a_call_asks_for_is_read_from_its_text_whatever_its_maker_said() -> None:
    lying = replace(CALL, arguments={"path": "other.txt"}, digest="0" * 64)
    stamped = ModelResponse("", (lying,)).stamped(7)
    assert stamped.calls[0].arguments == {"path": "notes.txt"}
    assert ModelResponse.from_json(stamped.to_json()).calls[0].digest == CALL.digest
