"""What a person is shown of the calls in a text, before anything of it runs."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from foregate.agent.dialects.dialect_model import parse_response
from foregate.agent.dialects.tag_dialects import ActionTags, ServiceTags
from foregate.schemas.model_response import Block, ModelResponse
from foregate.schemas.tool_call import ToolCall
from foregate.views.terminal.layout import count_columns
from foregate.views.terminal.screen import MOST, describe_order, describe_texts, format_detected_calls
from tests.agent.dialects.specs import TOOLS

SPECS = {spec.name: spec for spec in TOOLS}


def shown(response: ModelResponse, width: int = 80) -> list[str]:
    """Return the lines for a response as it was recorded."""
    return [row.plain for row in format_detected_calls(response.stamp_calls(3), SPECS, width)]


def test_each_call_is_a_row_with_its_number_target_and_what_it_carries() -> None:
    text = (
        "<create_file><path>a.go</path><content>package main\n</content></create_file>\n"
        "<execute_command>go vet 'a b'</execute_command>\n<git_status/>"
    )
    assert shown(parse_response(ModelResponse(text=text), ActionTags(), TOOLS)) == [
        "  detected  3 calls in the text",
        "  1         write_file a.go (create, content: 13 characters)",
        "  2         run_command go vet 'a b' (execute)",
        "  3         git_status (reads)",
    ]


def test_a_call_that_cannot_be_read_says_why_and_an_example_in_a_fence_is_none() -> None:
    text = "```\n<git_status/>\n```\n<git_status/>\n<create_file><path>a</path><content>half"
    head, _, broken, *_ = shown(parse_response(ModelResponse(text=text), ActionTags(), TOOLS), 0x100)
    assert head == "  detected  2 calls in the text, 1 of them cannot be read"
    assert broken.startswith("  2         write_file cannot be read: the response ended before `<content>`")


def test_the_order_asked_for_is_said_in_the_numbers_of_the_rows() -> None:
    text = (
        "<sequential><git><status/></git><parallel><files><read_file>a</read_file></files>"
        "<files><read_file>$result_of_step_1.output</read_file></files></parallel></sequential><execute_tools/>"
    )
    *_, later, order = shown(parse_response(ModelResponse(text=text), ServiceTags(), TOOLS), 100)
    assert later.endswith(", with results of calls before it")
    assert order == "  order     1, then (2 and 3 together)"
    assert describe_order(Block("parallel", (0, Block("sequential", (1, 2)), Block("parallel", ())))) == (
        "1 and (2, then 3) and  together"
    )


def test_calls_the_endpoint_sent_as_calls_are_not_listed() -> None:
    native = replace(ToolCall.of("read_file", {"path": "a"}), wire_id="call_1")
    assert shown(ModelResponse(calls=(native,))) == []


@pytest.mark.parametrize("width", [20, 80])
def test_nothing_in_a_call_begins_a_row_or_reaches_the_terminal(width: int) -> None:
    evil = "a\n  ran     rm\x1b[2J\u202e" + "x" * 500
    lines = shown(
        ModelResponse(calls=(ToolCall.of("read_file", {"path": evil}), ToolCall.from_defect(evil, "", evil))), width
    )
    assert all(line.isprintable() and count_columns(line) <= width for line in lines)
    assert not any(line.startswith("  ran") for line in lines)


def test_a_flood_of_calls_is_counted_and_not_listed() -> None:
    lines = shown(ModelResponse(calls=(ToolCall.of("read_file", {"path": "a"}),) * 5000))
    assert (len(lines), lines[-1].strip()) == (MOST + 2, "and 4900 more")


def test_what_a_call_searches_for_stands_beside_its_target() -> None:
    call = ToolCall.of(
        "search_text", {"path": "src", "pattern": "def add", "long": "x" * 41, "odd": "\x1b", "limit": 3}
    )
    assert describe_texts(call, "src") == " (pattern: def add)"
    assert describe_texts(ToolCall.of("read_file", {"path": "a.txt"}), "a.txt") == ""
