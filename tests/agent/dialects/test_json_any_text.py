"""Whatever a model writes, and however it arrives: JSON is found in it all the same, and what was said stays said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import assume, example, given
from hypothesis import strategies as st

from foregate.agent.dialects.json_calls import find_json_end
from foregate.agent.dialects.json_dialect import JsonReader, TextSplitter, parse_text
from foregate.agent.dialects.window import Window

KNOWN = frozenset({"a", "read_file"})
PARTS = (
    '{"tool": "a", "args": {"b": "```"}}', '{"tool":"a"}', '[{"tool":"a"},', '{"x": 1}', '{"tool":"b","args":"', "{",
    "}", "[", "]", '"', "\\", '\\"', "```", "```json\n", "```py\n", "a ```py\n",
    "```json {", "```json ", "~~~", "~~~ c++ \r\n", "> ```", "````",
    "\n```", "\n```\n", "\n", "\r\n", "  ", " ", "`",
    "``", "<think>", "</think>", "<Thought>", "</Thought>", "<", "<th", "<thinki", "ng>", "</", "</thinking >",
    "<think/>", "<think a='b'>", "<result>", "</result>", "<Result n='1'>", "<result/>", "<results>", "<resu", "lt>",
    "<!--", "-->", "<!-", "-", "->", "<![CDATA[", "]]>", "`{", '}`', '`{"tool":"a"}`', '`{\n"tool":"a"}`', "/>",
    "a", ",", "7", '"name": "q"', '{"parallel":[', '{"sequential":[',
    '\n  ```json\n', '{ "tool": "a" }', '[ {"tool":"a"} ]', "$result_of_step_1", "\ud83d", "\ude00", "\u2028",
    " " * 300,
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=30).map("".join) | st.text(max_size=60)


class TextPiece(NamedTuple):
    """A piece of a text, as it is handed on."""

    kind: str
    whole: str
    inner: str


def ends_a_thought(text: str) -> bool:
    """Whether a text says that what stands before some place in it was a thought."""
    return any(piece.kind == "end" for piece in pieces([text]))


def in_parts(text: str, cuts: Sequence[int]) -> list[str]:
    """Return a text cut at some places."""
    places = sorted({0, *(cut % (len(text) + 1) for cut in cuts), len(text)})
    return [text[start:end] for start, end in zip(places, [*places[1:], len(text)], strict=True)]


def pieces(parts: Sequence[str]) -> list[TextPiece]:
    """Return the pieces of a text that arrives in parts."""
    window, found = Window(), list[TextPiece]()
    running = TextSplitter(window, lambda *piece: found.append(TextPiece(*piece))).read()
    for part in parts:
        window.push(part)
        next(running)
    window.ended = True
    next(running, None)
    return found


@given(TEXTS, st.lists(st.integers(0, 1000), max_size=6))
@example('{"tool": "a", "args": {"b": "\\"}"}} x', [])
@example('a\n  ```json\n{"tool": "a"}\n  ```', [4])
@example('{"tool": "a"}</think> a {"tool":"a"}', [])
@example('`{\n"tool": "a"}` `a', [])
@example('x ```json {"tool":"a"} ``` y\n```json {"tool":"a"}```', [9, 40])
def test_a_text_says_the_same_however_it_is_split(text: str, cuts: list[int]) -> None:
    whole = parse_text(text, KNOWN)
    for parts in (in_parts(text, cuts), list(text)):
        reader = JsonReader(KNOWN)
        shown = "".join(reader.feed(part) for part in parts)
        assert reader.close() == whole
        assert whole.text.startswith(shown) or ends_a_thought(text)


@given(TEXTS, TEXTS)
@example('{"tool": "a"}', '{"tool": "a"}')
@example('[{"tool": "a"}', ", ]")
@example('```json\n{"tool": "a"}\n```', "x")
def test_what_is_known_and_shown_stays_whatever_follows(text: str, more: str) -> None:
    reader = JsonReader(KNOWN)
    shown = reader.feed(text)
    for end in ("", more):
        if ends_a_thought(text + end):
            continue
        said = parse_text(text + end, KNOWN)
        assert said.calls[: len(reader.calls)] == tuple(reader.calls)
        assert said.text.startswith(shown)


@given(TEXTS, st.lists(st.integers(0, 1000), max_size=6))
def test_the_pieces_of_a_text_are_the_text(text: str, cuts: list[int]) -> None:
    assert "".join(piece.whole for piece in pieces(in_parts(text, cuts))) == text


@given(TEXTS)
def test_json_outside_a_fence_ends_at_its_last_bracket(text: str) -> None:
    for piece in pieces([text]):
        if piece.kind == "json" and piece.whole == piece.inner:
            assert find_json_end(piece.whole, 0) in (len(piece.whole), -1)


@given(TEXTS)
def test_what_follows_a_thought_that_began_in_the_prompt_is_read_as_if_nothing_stood_before_it(text: str) -> None:
    assume(not ends_a_thought(text))
    before = 'I could {"tool": "a"} or so'
    alone, after = parse_text(f"\n{text}", KNOWN), parse_text(f"{before}</think>\n{text}", KNOWN)
    assert (after.text, after.calls, after.order) == (alone.text, alone.calls, alone.order)
    assert after.reasoning.startswith("I could  or so")


@given(TEXTS, TEXTS)
def test_a_response_ends_at_a_result_of_its_own(text: str, more: str) -> None:
    ended = f"{text}\n<result>"
    assume([piece.kind for piece in pieces([ended])][-1] == "cut")
    one, other = parse_text(ended, KNOWN), parse_text(ended + more, KNOWN)
    assert (one.text, one.calls, one.reasoning) == (other.text, other.calls, other.reasoning)
