"""Calls as JSON in a model's text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from foregate.agent.dialects.json_dialect import JsonDialect, JsonReader, parse_text
from foregate.schemas.message import Message
from foregate.schemas.model_response import Block
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Effect, ToolSpec

KNOWN = frozenset({"read_file", "git_status"})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
CALLS = st.builds(ToolCall.of, st.text(min_size=1, max_size=20), st.dictionaries(st.text(), JSON, max_size=3))
TEXTS = st.text() | st.text(alphabet='{}[]":,\\ntol ea`<>thik/$1', max_size=80)


def named(text: str) -> list[tuple[str, Any]]:
    """Return the names and arguments of the calls in a text."""
    return [(call.name, call.arguments) for call in parse_text(text, KNOWN).calls]


@pytest.mark.parametrize(
    "text",
    [
        '{"tool": "read_file", "args": {"path": "a"}}',
        '[{"tool_name": "read_file", "arguments": {"path": "a"}}]',
        '{"name": "read_file", "parameters": "{\\"path\\": \\"a\\"}"}',
        '{"tool_calls": [{"type": "function", "function": {"name": "read_file", "arguments": {"path": "a"}}}]}',
        '```json\n{"tool": "read_file", "args": {"path": "a"}}\n```',
        '```\n{"tool": "read_file", "args": {"path": "a"}}\n```\n',
        'I read it: {"tool": "read_file", "args": {"path": "a"}} and see.',
        '<think>{"tool": "other", "args": {}}</think>{"tool": "read_file", "args": {"path": "a"}}',
        '<Thinking>{"tool": "other", "args": {}}</Thinking>{"tool": "read_file", "args": {"path": "a"}}',
        'as ```python\n{"tool": "other", "args": {}}\n```\nso {"tool": "read_file", "args": {"path": "a"}}',
        'as ```json\n{"tool": "read_file", "args": {"path": "a"}}\n```',
        'three ``` and ~~~ {"tool": "read_file", "args": {"path": "a"}}',
        '<thought>{"tool": "other", "args": {}}</thought>{"tool": "read_file", "args": {"path": "a"}}',
        '<think>a <think> {"tool": "other", "args": {}} </think> {"tool": "other", "args": {}}</think>'
        '{"tool": "read_file", "args": {"path": "a"}}',
        'I could {"tool": "other", "args": {}}.</think>{"tool": "read_file", "args": {"path": "a"}}',
        '```json\n{"tool": "other", "args": {}}\n```\n</Thought >\n{"tool": "read_file", "args": {"path": "a"}}',
        '{"tool": "read_file", "args": {"path": "a"}}<result>ok</result>{"tool": "other", "args": {}}',
        'see `</think>` or `<result>`: {"tool": "read_file", "args": {"path": "a"}}',
        'so </thinker> <results> <result-set> </result> {"tool": "read_file", "args": {"path": "a"}}',
        'as `{"tool": "other", "args": {}}` here: {"tool": "read_file", "args": {"path": "a"}}',
        '<!-- {"tool": "other", "args": {}} -->{"tool": "read_file", "args": {"path": "a"}}',
        '`{\n"x": 1\n}` then {"tool": "read_file", "args": {"path": "a"}} and `so`',
        'Don`t worry: {"tool": "read_file", "args": {"path": "a"}}',
        'a ` b\n{"tool": "read_file", "args": {"path": "a"}} ` c',
        '` {"tool": "read_file", "args": {\n"path": "a"}} ` c',
        '```json {"tool": "read_file", "args": {"path": "a"}}```',
        'I look: ```json {"tool": "read_file", "args": {"path": "a"}} ``` and go on.',
        '````JSON [{"tool": "read_file", "args": {"path": "a"}}]````\n',
    ],
)
def test_every_form_of_one_call_is_read_as_the_same_call(text: str) -> None:
    assert named(text) == [("read_file", {"path": "a"})]


def test_the_words_around_a_call_stay_and_its_reasoning_is_apart() -> None:
    parsed = parse_text('Before. {"tool": "git_status", "args": {}, "reasoning": "to see"} After.')
    assert (parsed.text, parsed.reasoning) == ("Before.  After.", "to see")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Ada", "age": 36}',
        '{"tool": "hammer"}',
        '```python\n{"tool": "read_file", "args": {}}\n```',
        'as in ```python\n{"tool": "read_file", "args": {}}\n``` or so',
        '~~~yaml\n{"tool": "read_file", "args": {}}\n```\n{"tool": "read_file", "args": {}}\n~~~',
        '> ```py\r\n> {"tool": "read_file", "args": {}}\r\n> ```',
        '- ````text\n  ```\n  {"tool": "read_file", "args": {}}\n  ```\n  ````',
        "use {x} or [1, 2] and {'tool': 'read_file'}",
        "a { that never ends",
        '`{"tool": "read_file", "args": {}}`',
        'use `` `{"tool": "read_file", "args": {}}` `` for it',
        'in one line ```py {"tool": "read_file", "args": {}}``` so',
        'in one line ``json {"tool": "read_file", "args": {}}`` so',
        '`{\n  "tool": "read_file",\n  "args": {}\n}` and `so` on',
        '<!-- {"tool": "read_file", "args": {}} -->',
        '<!-- so\n```json\n{"tool": "read_file", "args": {}}\n```',
        '<![CDATA[{"tool": "read_file", "args": {}}]]>',
        "[]",
    ],
)
def test_what_is_no_call_stays_words(text: str) -> None:
    parsed = parse_text(text, KNOWN)
    assert (parsed.text, parsed.calls) == (text, ())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"tool": "read_file", "args": {"path": ', "ends before it is complete"),
        ('```json\n[{"tool": "read_file", "args": {"path": "a"}},', "ends before it is complete"),
        ('{"tool": "read_file", "args": {"path": "a",}}', "no valid JSON"),
        ('{"tool": "read_file", "args": {"path": "a", "path": "b"}}', "no valid JSON"),
        ('{"tool": "read_file", "path": "a"}', "`path` is no part of a call"),
        ('{"tool": "read_file", "args": ["a"]}', "`args` is no object"),
        ('[{"tool": "read_file", "args": {}}, 7]', "a call is an object"),
    ],
)
def test_a_call_that_cannot_be_read_is_a_call_that_says_so(text: str, says: str) -> None:
    assert says in parse_text(text, KNOWN).calls[-1].defect


def test_only_the_first_json_of_a_response_runs_and_the_next_is_answered() -> None:
    first, second = parse_text(
        '{"tool": "git_status"} it is clean {"tool": "read_file", "args": {"path": "a"}}', KNOWN
    ).calls
    assert first.arguments == {}
    assert (second.arguments, "only the first JSON" in second.defect) == (None, True)


def test_of_the_json_after_the_second_it_is_only_said_how_much_there_was() -> None:
    parsed = parse_text('{"tool": "git_status"} ' * 4, KNOWN)
    assert len(parsed.calls) == 2
    assert parsed.notes == ("2 more pieces of JSON with calls were left out",)


def test_blocks_say_the_order_and_places_in_them_wait_for_results() -> None:
    parsed = parse_text(
        '{"sequential": [{"tool": "git_status"}, {"parallel": ['
        '{"tool": "read_file", "args": {"path": "$result_of_step_1"}}, {"tool": "git_status"}]}]}',
        KNOWN,
    )
    assert parsed.order == Block("sequential", (0, Block("parallel", (1, 2))))
    assert parsed.deferred == (1,)


def test_outside_a_sequence_a_place_is_text_like_any_other() -> None:
    assert parse_text('{"tool": "read_file", "args": {"path": "$result_of_step_1"}}').deferred == ()


def arriving(*parts: str) -> list[tuple[str, list[str]]]:
    """Return, for each part of a response as it arrives, the words shown by it and the calls known after it."""
    reader = JsonReader(KNOWN)
    return [(reader.feed(part), [call.name for call in reader.calls]) for part in parts]


def test_a_call_is_known_at_its_last_bracket_and_not_before() -> None:
    assert arriving('Now. {"tool": "git_status"', "}", " Then.") == [
        ("Now.", []),
        ("", ["git_status"]),
        ("  Then.", ["git_status"]),
    ]


def test_calls_in_a_fence_are_known_when_the_line_that_closes_it_has_ended() -> None:
    call = '{"tool": "git_status"}\n'
    assert [known for _, known in arriving("```json\n", call, call, "```", " ", "\n")] == [
        [], [], [], [], [], ["git_status", "git_status"],
    ]  # fmt: skip


def test_no_entry_of_a_list_is_known_before_the_list_is_since_a_later_one_may_break_it() -> None:
    *_, (_, before), (_, after) = arriving('[{"tool": "git_status"},', '{"tool": "git_status"},', "]")
    assert (before, after) == ([], ["git_status"])
    assert [call.defect != "" for call in parse_text('[{"tool": "git_status"}, ]', KNOWN).calls] == [True]


def test_calls_that_come_after_the_first_json_are_added_to_those_known() -> None:
    assert [known for _, known in arriving('{"tool": "git_status"}', " and ", '{"tool": "read_file"}')] == [
        ["git_status"], ["git_status"], ["git_status", "read_file"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        'See {"name": "Ada"} there',
        "take `x` and `{y}` here",
        "an <b>old</b> a < b here",
        "it is\n```python\n{}\n```\nso",
        "it is\n```json\n{}\n```\nso",
        "{\n[ \n  `a` b",
        "<!- and <table>",
        "<thinner",
    ],
)
def test_words_are_shown_as_soon_as_they_are_words(text: str) -> None:
    assert [words for words, _ in arriving(text, " .")] == [text, " ."]


def test_words_behind_a_backtick_wait_for_another_or_for_the_end_of_the_line() -> None:
    assert [words for words, _ in arriving("Don`t", " do", "\nit.")] == ["Don", "", "`t do\nit."]


def test_all_that_stands_before_the_end_of_a_thought_alone_is_one() -> None:
    parsed = parse_text('I might {"tool": "git_status"} it.</think> {"tool": "read_file"} Done.', KNOWN)
    assert (parsed.reasoning, parsed.text) == ("I might  it.", "Done.")
    assert [call.name for call in parsed.calls] == ["read_file"]
    assert parsed.notes == ("calls before `</think>` stood in a thought; they were not made",)


def test_nothing_is_left_of_calls_that_stood_in_a_thought() -> None:
    call = '{"tool": "read_file", "args": {"path": "$result_of_step_1"}, "reasoning": "r"}'
    parsed = parse_text(f'{{"sequential": [{{"tool": "git_status"}}, {call}]}} {call} {call}</think>So.', KNOWN)
    assert (parsed.text, parsed.calls, parsed.order, parsed.deferred, parsed.reasoning) == ("So.", (), None, (), "")
    assert parsed.notes == ("calls before `</think>` stood in a thought; they were not made",)


def test_the_end_of_a_thought_that_stands_behind_a_thought_says_nothing() -> None:
    parsed = parse_text('<think>a</think>{"tool": "git_status"}</think> So.', KNOWN)
    assert (parsed.reasoning, parsed.text, len(parsed.calls), parsed.notes) == ("a", "So.", 1, ())


def test_calls_that_were_known_are_none_once_they_turn_out_to_be_a_thought() -> None:
    call = '{"tool": "git_status"}'
    assert arriving(f"So {call}", "</think>", f"Now {call}") == [
        ("So", ["git_status"]),
        ("", []),
        ("Now", ["git_status"]),
    ]


def test_a_response_is_cut_at_a_result_it_makes_up_with_a_note() -> None:
    parsed = parse_text('I see. <Result call="1">{"tool": "git_status"}</Result> All done.', KNOWN)
    assert (parsed.text, parsed.calls) == ("I see.", ())
    assert parsed.notes == (
        "what stood after `<Result>` was cut (41 characters): results come from the tools, never from the model",
    )
    assert parse_text("So. <result> \n", KNOWN).notes == ()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ('<think>{"tool": "git_status"}', "`<think>` was not closed"),
        ('<!-- {"tool": "git_status"}', "`-->` never came"),
    ],
)
def test_what_has_no_end_goes_to_that_of_the_response_and_a_note_says_so(text: str, note: str) -> None:
    parsed = parse_text(text, KNOWN)
    assert (parsed.calls, note in parsed.notes[0]) == ((), True)


def test_the_lines_of_code_are_shown_as_they_come() -> None:
    parts = ("So:\n```py\n", "a = {}\n", "```", "\n", "Done.")
    assert [words for words, _ in arriving(*parts)] == ["So:\n```py", "\na = {}", "", "\n```", "\nDone."]


def test_words_hold_no_half_of_a_character_wherever_the_text_was_split() -> None:
    assert (
        "".join(words for words, _ in arriving("a\ud83d", "\ude00b"))
        == parse_text("a\ud83d\ude00b").text
        == "a" + "\ufffd" * 6 + "b"
    )


@given(TEXTS, st.lists(CALLS, min_size=1, max_size=4))
def test_what_the_dialect_writes_it_reads_again(words: str, calls: list[ToolCall]) -> None:
    words = words.strip()
    known = frozenset(call.name for call in calls)
    assume(parse_text(words, known).text == words and not parse_text(words, known).calls)
    parsed = parse_text(JsonDialect().render_message(Message("assistant", words, tuple(calls))), known)
    assert (parsed.text, parsed.calls, parsed.order) == (words, tuple(calls), None)


def test_an_order_of_calls_is_written_and_read_again() -> None:
    calls = tuple(ToolCall.of("git_status", {"n": n}) for n in range(4))
    order = Block("sequential", (0, Block("parallel", (1, Block("sequential", (2, 3))))))
    parsed = parse_text(JsonDialect().render_message(Message("assistant", "So:", calls, order=order)))
    assert (parsed.text, parsed.calls, parsed.order) == ("So:", calls, order)


def test_the_section_names_every_tool_with_its_schema() -> None:
    spec = ToolSpec("read_file", "Read\n  a file.", {"type": "object", "required": ["path"]}, Effect.OBSERVATION)
    section = JsonDialect().build_section([spec])
    assert '"read_file": Read a file. {"required":["path"],"type":"object"}' in section
    assert '{"tool": "<name>", "args": {...}, "reasoning": "<why>"}' in section


def test_answers_are_data_in_one_object() -> None:
    text = JsonDialect().render_answers([("read_file", '{"ok":true,"output":"x\\n```json\\n{}"}')])
    assert text == '{"results":[{"answer":{"ok":true,"output":"x\\n```json\\n{}"},"tool":"read_file"}]}'
