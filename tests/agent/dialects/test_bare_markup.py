"""A response of nothing but tags or names of results is no answer: the model is told so, and asked again."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.dialects.dialect_model import build_dialect_model
from foregate.agent.dialects.prose import find_bare_markup, may_be_bare
from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedModel, says
from foregate.schemas.message import Message, ModelRequest
from tests.agent.dialects.specs import TOOLS
from tests.agent.world import World

DIALECTS = ["native", "json", "service_tags", "action_tags", "auto"]
BARE = {
    "$result_of_step_1": "result_of_step_1",
    "`$result_of_step_2.items[0].id`.": "result_of_step_2",
    "<forecast>$result_of_step_1</forecast>": "forecast",
    "<forecast>\n$result_of_step_1\n</forecast>\n\n<mail>$result_of_step_2</mail>": "forecast",
    "<forecast/>": "forecast",
    "<forecast></forecast>": "forecast",
    "<forecast>": "forecast",
    "</forecast>": "forecast",
    '<forecast city="Oslo" />': "forecast",
    "<forecast>Rain.</forecast>": "forecast",
    "<file_read>\n<path>a.txt</path>\n</file_read>": "file_read",
}
WORDS = [
    "",
    "Done.",
    "<forecast>Rain.</forecast> So take a coat.",
    "<p>Rain.</p>",
    "<answer>42</answer>",
    "The result is $result_of_step_1.",
    "$result_of_steps",
    "<br/>",
    "<b></b>",
    "`<note/>`",
    "```\n<note/>\n```",
    "<bob@example.org>",
    "<https://lake.example/>",
    "< note >",
    "1 < 2",
    "...",
]


@pytest.mark.parametrize(("text", "name"), BARE.items())
def test_a_text_without_a_word_is_named_after_what_it_begins_with(text: str, name: str) -> None:
    assert find_bare_markup(f" {text}\n") == name
    assert all(may_be_bare(text[:size]) for size in range(len(text) + 1))


@pytest.mark.parametrize("text", WORDS)
def test_a_text_with_a_word_or_markup_of_a_page_is_left_alone(text: str) -> None:
    assert find_bare_markup(text) == ""


NATIVE = frozenset(["read_file", "mcp__box__forecast", "result_of_all"])
ANSWERS = [
    "<result>\nThe file is a.\n</result>",
    "<RESULT>\n[]\n</RESULT>",
    '<result status="ok" lang="en">I used read_file.</result>',
    '<result>{"name": "read_file"}</result>',
    "<result>\n```python\nread_file('a')\n```\n</result>",
    "<result><item>a</item>\n<item>b</item></result>",
    "<result>a <result>b</result> c</result>",
    "**Done:**\n<result>a</result>",
    "```xml\n<result>a</result>\n```",
    "<answer>NOT_FOUND</answer>",
    "<final>a</final>",
    "<FINAL_ANSWER>1.5</FINAL_ANSWER>",
    "<output>a</output>",
    "<notes>It is short.</notes>\n<final_answer>a</final_answer>",
    "<findings>The file is a.</findings>",
    "<conclusion>\nYou should read it; the view is good.\n</conclusion>",
]
CALLS = {
    "<read_file>\n<path>a.txt</path>\n</read_file>": "read_file",
    "<Read_File>a.txt</Read_File>": "Read_File",
    "<forecast>Oslo</forecast>": "forecast",
    "<bash>ls</bash>": "bash",
    '<action>{"tool": "read_file", "path": "a"}</action>': "action",
    '<action>{"tool": "Bash", "command": "ls"}</action>': "action",
    "<action>read_file a.txt</action>": "action",
    "<steps><bash>ls</bash></steps>": "steps",
    '<call name="read_file">a.txt</call>': "call",
    "<run>\n<function=bash>ls</function>\n</run>": "run",
    '<tool_call>{"name": "frobnicate"}</tool_call>': "tool_call",
    "<result></result>": "result",
    "<findings>$result_of_step_1</findings>": "findings",
}


@pytest.mark.parametrize("text", [*ANSWERS, *WORDS])
def test_an_answer_in_a_tag_that_neither_is_nor_names_a_tool_is_an_answer(text: str) -> None:
    assert find_bare_markup(f" {text}\n", NATIVE) == ""


@pytest.mark.parametrize(("text", "name"), CALLS.items())
def test_a_tag_that_is_or_names_a_tool_or_holds_no_word_is_none(text: str, name: str) -> None:
    assert find_bare_markup(f" {text}\n", NATIVE) == name
    assert all(may_be_bare(text[:size], NATIVE) for size in range(len(text) + 1))


@pytest.mark.parametrize("tag", ["result", "Result", "RESULT"])
def test_a_tool_called_result_keeps_its_tag(tag: str) -> None:
    assert find_bare_markup(f"<{tag}>a</{tag}>", frozenset(["result"])) == tag


@pytest.mark.parametrize("dialect", ["native", "auto"])
@pytest.mark.parametrize("text", ANSWERS)
async def test_an_answer_in_a_tag_ends_the_task_as_the_model_wrote_it(dialect: str, text: str) -> None:
    world, model, shown = World(), ScriptedModel([says(text)] * 3), list[str]()
    session = await world.open(build_dialect_model(model, dialect))
    session.on_text = shown.append
    outcome = await run(session, "what is the weather?")
    assert (outcome.status, outcome.text, "".join(shown)) == ("completed", text, text)
    assert len(model.requests) == 1


@given(st.text(alphabet='<>/ab `$._1[]\n"', max_size=40) | st.sampled_from([*BARE, *WORDS]), st.integers(0, 40))
def test_what_is_bare_was_never_taken_for_words_on_the_way(text: str, size: int) -> None:
    assert not find_bare_markup(text) or may_be_bare(text[:size])
    assert not find_bare_markup(text, NATIVE) or may_be_bare(text[:size], NATIVE)


@pytest.mark.parametrize(
    "text",
    ["<a " * 50_000, "<" * 200_000, "$result_of_step_1" * 20_000, "<a>" * 60_000 + "x", "<a>" + "'a" * 90_000 + "</a>"],
)
def test_a_text_that_is_meant_to_take_long_does_not(text: str) -> None:
    assert find_bare_markup(text) in ("", "result_of_step_1", "a")
    assert find_bare_markup(text, NATIVE) in ("", "result_of_step_1")
    assert isinstance(may_be_bare(text), bool)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("text", ["<forecast>$result_of_step_1</forecast>", "$result_of_step_1", "<forecast/>"])
async def test_a_response_that_says_nothing_does_not_end_the_task(dialect: str, text: str) -> None:
    world, model = World(), ScriptedModel([says(text), says("It rains.")])
    session = await world.open(build_dialect_model(model, dialect))
    outcome = await run(session, "what is the weather?")
    assert (outcome.status, outcome.text) == ("completed", "It rains.")
    assert any("answer in words" in message.text for message in model.requests[-1].messages)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_model_that_never_says_anything_is_stopped_by_the_limits(dialect: str) -> None:
    world, model = World(), ScriptedModel([says("<forecast/>")] * 4)
    outcome = await run(await world.open(build_dialect_model(model, dialect)), "what is the weather?")
    assert outcome.status == "blocked"
    assert len(model.requests) < 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_says_nothing_is_not_shown_as_words_either(dialect: str) -> None:
    request = ModelRequest([Message("system", "s"), Message("user", "u")], tools=TOOLS)

    def show(text: str) -> tuple[str, str]:
        shown: list[str] = []
        model = build_dialect_model(ScriptedModel([says(text)]), dialect)
        response = asyncio.run(model.respond(request, shown.append))
        return "".join(shown), response.text

    assert show("<forecast/>") == ("", "")
    assert show("<forecast> is a tag.") == ("<forecast> is a tag.",) * 2
