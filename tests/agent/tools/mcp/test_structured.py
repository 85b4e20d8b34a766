"""Structured content is where values of a server are found, as long as the model was told the same and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp import types

from foregate.agent.models.scripted import calls, says
from foregate.agent.tools.mcp.mcp_tools import render_answer
from foregate.evidence.records import read_records
from foregate.schemas.event_body import CallAnswered, ToolFinished
from foregate.schemas.strict_json import Json
from tests.agent.tools.mcp.conftest import Bench
from tests.agent.tools.mcp.test_real_servers import QUIET
from tests.events import bodies

SERVER = Path(__file__).with_name("structured_server.py")
PAID = {
    "one": "XX11200030004000",
    "several": "XX51000000000005",
    "table": "XX40311111111106",
    "bare": "XX73480000000008",
}
PAY = {
    "effect": "send",
    "external_side_effect": True,
    "reversible": False,
    "high_impact_write": False,
    "needs_approval": False,
    "targets": {"to": {"kind": "other", "access": "send"}},
    "amounts": ["amount"],
    "texts": [],
}
KEYS = {
    "tools": {**{f"bills.{name}": QUIET for name in (*PAID, "differing")}, "bills.pay": PAY},
    "sources": {"mcp:bills": {"own": ["account", "amount"]}},
}
BILL = {"account": "XX11200030004000", "amount": 40}
BETWEEN = "(the structured content)"
TEXTS = st.text(alphabet='ab1 ,;|-:{}[]"\n\t', max_size=30)


def answer(*texts: str, structure: Json = None) -> types.CallToolResult:
    """Return the answer of a server."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text) for text in texts], structured_content=structure
    )


def fields(told: str) -> list[dict[str, str]]:
    """Return the names and texts of the fields of each record in what a model is told."""
    return [{one.name: one.text for one in record.fields} for record in read_records(told)]


async def test_a_value_is_found_in_a_structure_unless_the_words_beside_it_differ(bench: Bench) -> None:
    bench.serve({"bills": {"command": sys.executable, "args": ["-I", str(SERVER)]}})
    await bench.pin()
    steps = [calls(("bills.differing", {}))]
    steps += [
        calls(("bills.pay", {"to": f"XX{account}", "amount": 40})) for account in (99000000000001, 84222222222209)
    ]
    for read, account in PAID.items():
        steps += [calls((f"bills.{read}", {})), calls(("bills.pay", {"to": account, "amount": 40}))]
    events, _ = await bench.play(*steps, says("x"), keys=KEYS, say="Pay the bills of Fjord.")
    done = [(body.tool, body.target) for body in bodies(events, ToolFinished)]
    assert [target for tool, target in done if tool == "bills.pay"] == [*PAID.values()]
    assert [body.code for body in bodies(events, CallAnswered)] == ["outside_mandate"] * 2


@pytest.mark.parametrize(
    ("texts", "structure", "told"),
    [
        ([json.dumps(BILL, indent=2)], BILL, json.dumps(BILL, indent=2)),
        ([], BILL, json.dumps(BILL)),
        (['{"a": 1}', '{ "a": 2 }'], {"result": [{"a": 1}, {"a": 2}]}, '{"result": [{"a": 1}, {"a": 2}]}'),
        (["one", "two"], {"result": ["one", "two"]}, '{"result": ["one", "two"]}'),
        (["one"], {"result": "one"}, "one"),
        (["5"], {"result": 5}, "5"),
        (["one"], {"word": "one"}, '{"word": "one"}'),
        (["one"], {"result": "one", "more": 1}, '{"result": "one", "more": 1}'),
        (["a\nb"], {"content": "a\nb"}, "a\nb"),
        (["a\nb"], {"ok": True, "output": "a\nb"}, f"a\nb\n{BETWEEN}\n" + '{"ok": true, "output": "a\\nb"}'),
        (["null"], {"more": 1}, f'null\n{BETWEEN}\n{{"more": 1}}'),
        (["Found 1."], BILL, f"Found 1.\n{BETWEEN}\n{json.dumps(BILL)}"),
        (["Found 1.", json.dumps(BILL)], BILL, f"Found 1.\n{BETWEEN}\n{json.dumps(BILL)}"),
        (["Found 1."], None, "Found 1."),
    ],
)
def test_what_is_said_twice_is_told_once(texts: list[str], structure: Json, told: str) -> None:
    assert render_answer(answer(*texts, structure=structure)) == told


@pytest.mark.parametrize(
    "text", ['{"to": "XX99"}', "to: XX99", "- XX99", "a,b\nXX99,1", "| a |\n|---|\n| XX99 |", "[1]"]
)
def test_neither_words_nor_structure_are_records_where_the_words_are_another_one(text: str) -> None:
    assert fields(render_answer(answer(text))) != []
    assert fields(render_answer(answer(text, structure=BILL))) == []


def test_an_image_beside_a_structure_makes_it_no_record() -> None:
    said = answer(structure=BILL)
    said.content.append(types.ImageContent(type="image", data="aGVsbG8=", mime_type="image/png"))
    assert fields(render_answer(said)) == []


@given(st.lists(TEXTS, max_size=3), st.dictionaries(TEXTS, st.one_of(TEXTS, st.lists(TEXTS, max_size=2)), max_size=2))
def test_there_are_no_records_but_those_of_the_structure_or_of_a_text_it_wraps(
    texts: list[str], structure: dict[str, Json]
) -> None:
    told = render_answer(answer(*texts, structure=structure))
    assert fields(told) in ([], fields(json.dumps(structure))) or [*structure.values()] == [told] == texts
