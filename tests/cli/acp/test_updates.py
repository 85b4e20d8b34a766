"""What others say cannot pass for more than text in an editor, and every message is one that can be read."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from foregate.cli.acp.editor_person import build_call_question, build_held_question
from foregate.cli.acp.transport import find_defect, word_error
from foregate.cli.acp.updates import build_title, fence_text, quote_own, quote_text
from foregate.schemas.judgement import Need
from foregate.schemas.strict_json import Json


@given(st.text(st.sampled_from("`~ab\n \t![](x)<>")))
def test_no_text_of_others_leaves_its_fence(text: str) -> None:
    (token,) = MarkdownIt().parse(fence_text(text))
    assert (token.type, token.content) == ("fence", f"{text}\n")


@pytest.mark.parametrize("hidden", ["\x1b[2J", "\u202e", "\u200b", "\r"])
def test_what_hides_in_a_text_is_seen(hidden: str) -> None:
    shown = [quote_text(f"a{hidden}b")[0].content.text, build_title("tool", f"a{hidden}b"), quote_own(f"a{hidden}b")]  # type: ignore[union-attr]
    assert all(hidden not in text and "\\u{" in text for text in shown)


def test_a_title_is_one_line_of_bounded_length() -> None:
    title = build_title("run_shell", "a\nb" * 1000)
    assert "\n" not in title
    assert len(title) < 250


def build_need(**call: Json) -> Need:
    """Return the question about one call."""
    asked: dict[str, Json] = {"call": "c1.1", "tool": "pay", "target": "", "arguments": "{}", "effect": "send"}
    asked |= {"why": ["it reaches beyond"], "said_first": "", "permits": {"project": "p1"}, **call}
    request: dict[str, Json] = {"question": "1 call needs your yes", "calls": [asked], "plan": None, "changed": []}
    return Need(
        "approval",
        "person",
        "k",
        ("c1.1",),
        ("d",),
        {**request, "permissions": [{"id": "p1", "words": "`pay` anybody"}]},
    )


def test_what_has_to_be_named_offers_no_yes_and_no_lasting_one() -> None:
    value: Json = {"path": "to", "text": "eve@x.org", "source": "outside", "words": "a page"}
    need = build_need(to_name=["eve@x.org"], values=[value])
    question = build_call_question(need, 1, "c1.1", None, Path("/w"))
    assert [option.kind for option in question.options] == ["reject_once"]
    assert "eve@x.org" in (question.call.title or "")
    assert "permits" not in question.call.content[0].content.text  # type: ignore[index,union-attr]
    other = build_call_question(build_need(), 1, "c1.1", None, Path("/w"))
    assert [option.kind for option in other.options] == ["allow_once", "allow_always", "reject_once"]
    assert "p permits `pay` anybody" in other.call.content[0].content.text  # type: ignore[index,union-attr]


@pytest.mark.parametrize("can_override", [True, False])
def test_a_call_held_again_is_done_anyway_only_where_that_is_offered(*, can_override: bool) -> None:
    call: Json = {"tool": "x", "target": "y", "arguments": '{"a": "b"}'}
    request: dict[str, Json] = {"question": "held twice", "can_override": can_override, "calls": [call]}
    question = build_held_question(Need("loop", "person", "k", ("c",), ("d",), request), "c")
    assert [option.option_id for option in question.options] == [*(["anyway"] if can_override else []), "stop"]


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists), st.text(), st.integers())
def test_only_requests_notices_and_answers_are_messages(value: Json, method: str, number: int) -> None:
    assert find_defect({"id": number, "method": method, "params": {}}) is None
    assert find_defect({"method": method}) is None
    assert find_defect({"id": number, "result": value}) is None
    assert find_defect(value) is not None
    assert find_defect({"id": value, "method": method}) is None or type(value) not in (int, str)
    assert find_defect({"id": number, "error": value}) is not None


def test_an_error_is_one_sentence_whatever_it_was() -> None:
    assert word_error({"code": -32603, "message": "Internal error", "data": {"details": "no"}})["message"].endswith(  # type: ignore[union-attr]
        ": no"
    )
    assert word_error({"code": -32600, "message": "so it is", "data": None}) == {"code": -32600, "message": "so it is"}


def test_half_a_character_becomes_one_that_every_reader_takes() -> None:
    script = """
import asyncio, sys
from foregate.cli.acp.transport import EditorTransport
async def main():
    async def end(): pass
    transport = EditorTransport(1000, end)
    print("not of the protocol")
    await transport.send({"jsonrpc": "2.0", "method": "x", "params": {"text": "\\ud83d", "key\\ud83d": ["\\udc00"]}})
    await transport.close()
asyncio.run(main())
"""
    ran = subprocess.run([sys.executable, "-Ic", script], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert "not of the protocol" in ran.stderr
    assert "\\ud" not in ran.stdout
    assert set(json.loads(ran.stdout)["params"]["text"]) == {"\ufffd"}


async def test_an_editor_that_takes_nothing_any_more_stops_nobody() -> None:
    script = """
import asyncio, os
from foregate.cli.acp.transport import EditorTransport
async def main():
    async def end(): pass
    transport = EditorTransport(1000, end)
    for _ in range(9):
        await transport.send({"jsonrpc": "2.0", "method": "x" * 100_000})
    await transport.close()
asyncio.run(main())
"""
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-Ic", script, stdin=asyncio.subprocess.DEVNULL, stdout=writing
    )
    os.close(writing)
    os.close(reading)
    assert await process.wait() == 0
