"""A response on its way into the log and out again."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import ModelResponded
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.tool_call import ToolCall

CALL = ToolCall.parse("read_file", '{"path": "notes.txt"}', wire_id="w1")


def recorded(response: ModelResponse) -> ModelResponse:
    """Return a response as the log gives it back."""
    line = json.dumps(strict_json.dump(ModelResponded.of(response)))
    return strict_json.load(ModelResponded, {**json.loads(line), "kind": "model_response"}).response


def test_the_stamped_response_is_what_reading_its_recorded_form_gives() -> None:
    stamped = ModelResponse("text \ud800", (CALL, CALL), reasoning="why", finish_reason="tool_calls").stamp_calls(7)
    assert recorded(stamped) == stamped
    assert [call.id for call in stamped.calls] == ["c7.1", "c7.2"]


def test_what_a_call_asks_for_is_read_from_its_text_whatever_its_maker_said() -> None:
    lying = replace(CALL, arguments={"path": "other.txt"}, digest="0" * 64)
    stamped = ModelResponse("", (lying,)).stamp_calls(7)
    assert stamped.calls[0].arguments == {"path": "notes.txt"}
    assert recorded(stamped).calls[0].digest == CALL.digest


def test_a_call_that_was_begun_and_not_finished_stays_unreadable_with_what_is_wrong_though_its_text_is_json() -> None:
    broken = ToolCall.from_defect(
        "create_file", '{"path": "a"}', "the tag `create_file` is cut off; send it again, whole"
    )
    stamped = ModelResponse("", (broken,)).stamp_calls(7)
    copy = recorded(stamped)
    assert copy == stamped
    assert copy.calls[0].arguments is None
    assert "cut off" in copy.calls[0].defect


def test_the_order_of_the_calls_and_which_wait_for_results_are_recorded() -> None:
    order = Block("sequential", (0, Block("parallel", (1, 2))))
    stamped = ModelResponse("", (CALL, CALL, CALL), order=order, deferred=(2,)).stamp_calls(7)
    copy = recorded(stamped)
    assert (copy.order, copy.deferred) == (order, (2,))
    assert list(order.find_places()) == [0, 1, 2]


@pytest.mark.parametrize("data", ["parallel", [], ["both", 1], ["parallel", -1], ["parallel", True], ["parallel", "1"]])
def test_what_describes_no_block_is_refused(data: object) -> None:
    with pytest.raises(InvalidJson):
        Block.from_json(data)


def test_blocks_nested_beyond_reason_are_refused() -> None:
    data: list[object] = ["parallel", 0]
    for _ in range(40):
        data = ["parallel", data]
    with pytest.raises(InvalidJson):
        Block.from_json(data)
