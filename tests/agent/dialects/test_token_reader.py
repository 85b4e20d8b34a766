"""Calls in the tokens of models are found by their structure, and texts about such tokens stay texts."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from foregate.agent.dialects.dialect_model import build_dialect_model
from foregate.agent.dialects.token_formats import FORMS
from foregate.agent.dialects.token_reader import TokenReader, find_calls
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import ScriptedModel, says
from foregate.schemas.event import ModelResponded
from foregate.schemas.event_body import CallAnswered, ToolFinished
from foregate.schemas.tool_spec import ToolSpec
from tests.agent.dialects.specs import BUILTIN
from tests.agent.models.openai.scripted_server import ScriptedServer, Stream, delta
from tests.agent.models.openai.test_model import model_at
from tests.agent.world import World

TOOLS: list[ToolSpec] = list(BUILTIN)
READ = ("read_file", '{"path":"a"}')
DEEP = "<\uff5ctool\u2581calls\u2581begin\uff5c>"
V3 = (
    "<\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>read_file\n```json\n"
    '{"path":"%s"}\n```<\uff5ctool\u2581call\u2581end\uff5c>'
)
READS = {
    **{form.example: [READ] for form in FORMS},
    f"I look.{DEEP}{V3 % 'a'}\n{V3 % 'b'}<\uff5ctool\u2581calls\u2581end\uff5c>"
    "<\uff5cend\u2581of\u2581sentence\uff5c>": [
        READ,
        ("read_file", '{"path":"b"}'),
    ],
    '<|tool\u2581calls\u2581begin|><|tool\u2581call\u2581begin|>read_file<|tool\u2581sep|>{"path":"a"}': [READ],
    '<|tool_calls_section_begin|>\n<|tool_call_begin|>\nfunctions.read_file:0<|tool_call_argument_begin|>\n{"path":"a"}\n'
    "<|tool_call_end|>\n<|tool_calls_section_end|>\nI look.": [READ],
    '[TOOL_CALLS] [{"name": "read_file", "arguments": {"path": "a"}, "id": "D681PevKs"}]</s>': [READ],
    'I look.[TOOL_CALLS]read_file{"path":"a"}[TOOL_CALLS]no_tool[CALL_ID]x1[ARGS]{}': [],
    '[TOOL_CALLS]read_file{"path":"a"}[TOOL_CALLS]no_tool[CALL_ID]x1[ARGS]{}': [READ, ("no_tool", "{}")],
    '<|python_tag|>{"name": "read_file", "parameters": {"path": "a"}}; '
    '{"name": "read_file", "parameters": {"path": "b"}}<|eom_id|>': [READ, ("read_file", '{"path":"b"}')],
    '<|python_tag|>read_file.call(path="a")': [READ],
    '{"name": "read_file", "parameters": {"path": "a"}}': [READ],
    '{"type": "function", "function": {"name": "read_file", "arguments": "{\\"path\\":\\"a\\"}"}}': [READ],
    "[read_file(path='a'), read_file(path=\"a]\")]": [READ, ("read_file", '{"path":"a]"}')],
    "I look into it: <tool_call>read_file <arg_key>path</arg_key> <arg_value>a</arg_value> </tool_call>": [READ],
    "<tool_call>\n<function=write_file>\n<parameter=path>\na\n</parameter>\n<parameter=content>\n</parameter>\n x\n"
    "</parameter>\n</function>\n</tool_call>": [("write_file", '{"content":"</parameter>\\n x","path":"a"}')],
    '<function=read_file>{"path":"a"}</function>': [READ],
    '<minimax:tool_call>\n<invoke name="read_file">\n<parameter name="path">a</parameter>\n</invoke>\n'
    "</minimax:tool_call>": [READ],
    '<|start|>assistant<|channel|>commentary to=functions.read_file json<|message|>{"path":"a"}<|call|>': [READ],
    ' to=functions.read_file<|channel|>commentary <|constrain|>json<|message|>{"path":"a"}': [READ],
    '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "read_file", "parameters": {"path": "a"}}]<|END_ACTION|>': [
        READ
    ],
}
WORDS = [
    '{"name": "read_file"}',
    '{"name": "Ann", "parameters": {"age": 7}}',
    "[1, 2]",
    "[sum(a=1)]",
    'A call is written `<tool_call>{"name": "read_file", "arguments": {}}</tool_call>` there.',
    'It looks so:\n```\n<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>\n```\n',
    'Mistral writes [TOOL_CALLS][{"name": "read_file", "arguments": {}}] before its calls.',
    "The tokens <|channel|>, <|start|> and <|message|> are those of Harmony, to=you.",
    "I use <function=f> for it",
    "Write [TOOL_CALLS] first",
]


@pytest.mark.parametrize(("text", "calls"), READS.items())
def test_a_call_in_tokens_is_the_call_that_it_says(text: str, calls: Any) -> None:
    found = find_calls(text, TOOLS)
    assert [(call.name, call.raw.replace(": ", ":")) for call in found.calls] == calls
    assert all(not call.defect for call in found.calls)
    assert not calls or found.text in ("", "I look.", "I look into it:")


@pytest.mark.parametrize("text", WORDS)
def test_a_text_about_tokens_is_a_text(text: str) -> None:
    assert (find_calls(text, TOOLS).calls, find_calls(text, TOOLS).text) == ((), text)


@pytest.mark.parametrize("text", [*READS, *WORDS])
def test_nothing_that_may_be_a_token_is_shown_however_a_text_is_split(text: str) -> None:
    said = find_calls(text, TOOLS).text
    for size in (1, 2, 5):
        reader = TokenReader(TOOLS)
        shown = "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size))
        assert said.lstrip().startswith(shown.strip()), size


@pytest.mark.parametrize(
    ("text", "defect"),
    [
        ('<tool_call>{"name": "read_file", "arg', "ends before it is complete"),
        ('<tool_call>{"name": "read_file", "arguments": {\'path\': 1}}</tool_call>', "no valid JSON"),
        ('<tool_call>{"name": "read_file", "arguments": 7}</tool_call>', "`arguments` is no object"),
        ('<tool_call>{"name": "read_file", "path": "a"}</tool_call>', "`path` is no part of a call"),
        ("<function=read_file><parameter=path>a</parameter><parameter=path>b</parameter></function>", "given twice"),
        ('[TOOL_CALLS]read_file[ARGS]{"path": "a", "path": "b"}', "twice"),
        ("<|tool_calls_section_begin|>", "names no tool"),
        ("<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>", "ends before it is complete"),
        (
            "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value><arg_key>x</tool_call>",
            "ends before",
        ),
        ("<function=write_file><parameter=path>a\n<parameter=content>x\n</function>", "ends before it is complete"),
        (
            '<|tool_call_begin|>functions.read_file:1<|tool_call_argument_begin|>"{path}"<|tool_call_end|>',
            "not a JSON object",
        ),
    ],
)
def test_a_call_that_was_begun_and_cannot_be_read_says_what_is_wrong(text: str, defect: str) -> None:
    (call,) = find_calls(text, TOOLS).calls
    assert (call.arguments, defect in call.defect) == (None, True), call.defect


@pytest.mark.parametrize(
    "token",
    ["<tool_call>", "<tool_call>{", "[TOOL_CALLS]", "<|channel|>", "<function=a>", "{", "`<|", "[a("],
)
def test_half_open_tokens_cost_as_much_as_there_are(token: str) -> None:
    def count_calls(text: str) -> int:
        calls = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        reader = TokenReader(TOOLS)
        sys.setprofile(count)
        try:
            for at in range(0, len(text), 50):
                reader.feed(text[at : at + 50])
            reader.close()
        finally:
            sys.setprofile(None)
        return calls

    count_calls(token * 2000)  # what is compiled late is compiled now
    calls = count_calls(token * 8000)
    assert calls < 5 * count_calls(token * 2000)
    assert calls < 20 * 8000


async def at_work(text: str, dialect: str) -> tuple[World, Any, str]:
    """Return a world where a model said a text and then an answer, the outcome, and what was shown."""
    world, shown = World(), list[str]()
    pieces = [delta(content=text[at : at + 3]) for at in range(0, len(text), 3)]
    scripts = Stream([*pieces, delta("stop")]), Stream([delta(content="It says teh cat."), delta("stop")])
    async with ScriptedServer(*scripts) as server:
        session = await world.open(build_dialect_model(model_at(server), dialect))
        session.on_text = shown.append
        outcome = await run(session, "what does a.txt say?")
    return world, outcome, "".join(shown)


CALLS = [text.replace('"a"', '"a.txt"') for text, calls in READS.items() if calls == [READ] and '"a"' in text]


@pytest.mark.parametrize("text", CALLS)
async def test_with_auto_a_call_in_tokens_runs(text: str) -> None:
    world, outcome, shown = await at_work(text, "auto")
    assert [body.tool for body in await world.bodies(ToolFinished)] == ["read_file"]
    assert (outcome.status, outcome.text) == ("completed", "It says teh cat.")
    assert shown.removeprefix("I look.") == outcome.text
    assert (await world.bodies(ModelResponded))[0].raw == text


@pytest.mark.parametrize("text", CALLS)
async def test_natively_a_call_in_tokens_does_not_run_and_the_model_is_told(text: str) -> None:
    world, outcome, shown = await at_work(text, "native")
    assert await world.bodies(ToolFinished) == []
    (answer,) = await world.bodies(CallAnswered)
    assert (answer.tool, answer.code) == ("read_file", "invalid_arguments")
    assert "did not run; send it as a function call" in answer.message
    assert (outcome.status, shown.removeprefix("I look.")) == ("completed", outcome.text)


@pytest.mark.parametrize(("dialect", "words_only"), [("native", False), ("native", True), ("auto", True)])
async def test_a_model_that_only_ever_writes_calls_as_text_completes_nothing(dialect: str, words_only: bool) -> None:
    world, text = World(), '[TOOL_CALLS]read_file[ARGS]{"path": "a.txt"}'
    session = await world.open(build_dialect_model(ScriptedModel([says(text)] * 60), dialect))
    await session.record_message("what does a.txt say?")
    session.state.running_task.words_only_task = words_only
    outcome = await run_to_outcome(session)
    assert (outcome.status, "answer in words" in outcome.report.blocker) == ("blocked", words_only)
    assert len(await world.bodies(ModelResponded)) < 12
