"""The table of servers that the benchmark of endpoints plays, and how they put an answer on the wire."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.models.openai.assembler import Assembler, Emitter, Prices
from foregate.agent.models.openai.endpoint import Endpoint
from foregate.agent.models.openai.model import END
from foregate.schemas.message import WireNames

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = ("read_file", "edit_file", "add_entry")


@pytest.fixture(scope="module", autouse=True)
def beside() -> Iterator[None]:
    """Make the benchmarks' own modules importable, as they are beside the scripts."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def load(name: str) -> Any:
    return import_module(f"serving.{name}")


def test_the_table_holds_at_least_25_servers_and_every_condition_is_one_that_a_server_can_check() -> None:
    table, conditions = load("row").read_table(), load("rules").CONDITIONS
    used = {name for row in table.values() for refusal in row.refuses for name in refusal.when}
    assert len(table) >= 25
    assert used <= {*conditions}


def test_every_fact_of_a_row_says_where_it_was_found() -> None:
    for row in load("row").read_table().values():
        assert all(fact.source.startswith("https://") for fact in load("row").list_facts(row))


def test_a_server_sends_the_same_answer_whole_and_streamed() -> None:
    wire, mind = load("wire"), load("mind")
    said = mind.JOBS[mind.TYPO][1]
    for row in load("row").read_table().values():
        if row.answers.written:
            continue
        message = wire.build_message(row, said, 1, native=True)
        whole = assemble([wire.build_whole(row, message)])
        events = b"".join(wire.build_events(row, message, usage=True)).decode("utf-8-sig").splitlines()
        data = [line.removeprefix("data: ") for line in events if line.startswith("data: ")]
        chunks = [END if text == "[DONE]" else json.loads(text) for text in data]
        assert assemble(chunks) == whole, row.name
        assert [name for name, _, _ in whole[1]] == [name for name, _ in said.calls], row.name


def assemble(chunks: list[Any]) -> tuple[str, list[tuple[str, str, str]], str]:
    """Return the text, the calls and the thoughts that chunks make."""
    assembler = Assembler(WireNames(NAMES), Emitter(None), Endpoint.of("http://h/v1", "k"), 100_000)
    for chunk in chunks:
        assembler.end() if chunk is END else assembler.add(chunk)
    response = assembler.build_response("m", Prices(), ())
    return response.text, [(call.name, call.raw, call.wire_id) for call in response.calls], response.reasoning


def test_a_condition_finds_what_it_is_about_and_nothing_else() -> None:
    find = load("rules").find_refusal
    call = {"id": "c1", "function": {"name": "f", "arguments": "{}"}}
    spoken = {"role": "assistant", "content": None, "tool_calls": [call]}
    body = {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}, spoken]}
    schema = {"type": "object", "additionalProperties": False, "properties": {"const": {"type": "string"}}}
    tools = [{"type": "function", "function": {"name": "f", "description": "d" * 9, "parameters": schema}}]
    assert find({"other_id": "[a-z]{9}"}, body) == {"id": "c1"}
    assert find({"other_id": "c."}, body) is None
    assert find({"lacks_field": "reasoning_content"}, body) == {"at": 2}
    assert find({"content": "null"}, body) == {"at": 2}
    assert find({"content": "empty"}, body) is None
    assert find({"keyword": ["additionalProperties"]}, {**body, "tools": tools}) is not None
    assert find({"keyword": ["const"]}, {**body, "tools": tools}) is None
    assert find({"window": 10}, body) is not None
    assert find({"window": 10_000}, body) is None
