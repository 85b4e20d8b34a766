"""Whatever a model writes, and however it arrives: reading never fails, and splits change nothing."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foregate.agent.dialects.dialect import Dialect, Names, ParsedResponse
from foregate.agent.dialects.tag_dialects import ActionTags, ServiceTags
from foregate.schemas import strict_json
from foregate.schemas.message import Message
from foregate.schemas.model_response import Block
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall
from tests.agent.dialects.specs import TOOLS

DIALECTS: list[Dialect] = [ActionTags(), ServiceTags(Names(services={"sandbox": "shell"}))]
TAGS = (
    "create_file path content read_file files shell sandbox run_command types map list parallel sequential think "
    "result tool_b foo web search_replace cre\u0430te_file"
)
MARKS = (
    "<types ", '<var name="x">', "</var>", "<execute_tools />", "Final Answer:", "<![CDATA[", "]]>", "<!--", "-->",
    "```", "```xml", "~~~", "`", "``", "\n", "\r\n", " ", "{", '{"path": "a"}', "}", "&lt;", "&amp;", "<", ">", "/",
    "</", "<!", "<!DOCTYPE x>", '<!ENTITY a "b">', "a", "ls -l", "|", "'", '"', '="', "b/c", "$result_of_step_1",
    "**", "Final", " ansewr", ":", "\x0b", "\u2028", " " * 70, "\ud800", '<call_tool name="x" arguments="{}"/>',
    "<web.search ", 'query="a"', "/>", "- ", "> ",
)  # fmt: skip
PIECES = (*(f"<{tag}>" for tag in TAGS.split()), *(f"</{tag}>" for tag in TAGS.split()), *MARKS)
WRAPPED = st.recursive(
    st.lists(st.sampled_from(PIECES), max_size=3).map("".join),
    lambda inner: st.builds(
        lambda tag, parts: f"<{tag}>{''.join(parts)}</{tag}>",
        st.sampled_from(TAGS.split()),
        st.lists(inner, max_size=3),
    ),
    max_leaves=8,
)
SOUP = WRAPPED | st.lists(st.sampled_from(PIECES), max_size=40).map("".join) | st.text(max_size=60)


def read(dialect: Dialect, text: str) -> ParsedResponse:
    """Return what a whole text says."""
    reader = dialect.build_reader(TOOLS)
    reader.feed(text)
    return reader.close()


def read_in_pieces(dialect: Dialect, text: str, cuts: Sequence[int]) -> tuple[ParsedResponse, str]:
    """Return what a text says that arrives in pieces, and the words shown meanwhile."""
    reader, places = dialect.build_reader(TOOLS), sorted({0, *(cut % (len(text) + 1) for cut in cuts), len(text)})
    shown = [reader.feed(text[start:end]) for start, end in zip(places, [*places[1:], len(text)], strict=True)]
    return reader.close(), "".join(shown)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@given(text=SOUP, cuts=st.lists(st.integers(0, 1000), max_size=6))
@example(text="**Final Answer:** yes", cuts=[])
@example(text="\u2028Final Answer: yes", cuts=[1])
@example(text=f"{' ' * 70}Final Answer: yes", cuts=[70])
@example(text="as ```xml\n<read_file>a</read_file>\n```\n<foo>", cuts=[5])
def test_a_text_says_the_same_however_it_is_split(dialect: Dialect, text: str, cuts: list[int]) -> None:
    whole = read(dialect, text)
    parsed, shown = read_in_pieces(dialect, text, cuts)
    assert parsed == whole
    assert parsed == read_in_pieces(dialect, text, range(len(text)))[0]
    if "</think>" not in text:
        assert whole.text.startswith(shown)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@given(text=SOUP)
def test_calls_known_early_are_those_known_at_the_end(dialect: Dialect, text: str) -> None:
    reader = dialect.build_reader(TOOLS)
    early: list[ToolCall] = []
    for char in text:
        reader.feed(char)
        assert list(reader.calls)[: len(early)] == early or "</think" in text or "</though" in text
        early = list(reader.calls)
    parsed = reader.close()
    assert list(parsed.calls)[: len(early)] == early
    assert set(parsed.deferred) <= set(range(len(parsed.calls)))
    if parsed.order is not None:
        assert list(parsed.order.find_places()) == list(range(len(parsed.calls)))
        assert Block.from_json(parsed.order.to_json()) == parsed.order


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@given(answers=st.lists(st.tuples(SOUP, SOUP), max_size=3))
def test_nothing_in_an_answer_is_a_call(dialect: Dialect, answers: list[tuple[str, str]]) -> None:
    text = dialect.render_answers(answers)
    assert read(dialect, text).calls == ()
    inside = [line.partition('">')[2] for line in text.split("<result ")]
    assert not any("<" in line.removesuffix("\n").removesuffix("</result>") for line in inside)


EDGES = ["", "\n", "\r\n", " a ", "a\n", "\n\na", "\n \t", "]]>", "x]]>y", "a\n  ", "1", "true", "[", "{}"]
HARD = (SOUP | st.sampled_from(EDGES)).map(strict_json.scrub)
VALUES: dict[str, st.SearchStrategy[Json]] = {
    "text": HARD,
    "content": HARD,
    "count": st.integers(),
    "share": st.floats(allow_nan=False, allow_infinity=False),
    "flag": st.booleans(),
    "list": st.lists(HARD),
    "map": st.dictionaries(HARD, HARD, max_size=3),
    "kind": st.sampled_from(["one", "two"]),
    "perhaps": st.none() | st.integers(),
    "deep": st.fixed_dictionaries({}, optional={"inner": st.lists(HARD)}),
}
TYPED = st.builds(ToolCall.of, st.just("types"), st.fixed_dictionaries({}, optional=VALUES))
FILES = st.builds(lambda path, text: ToolCall.of("write_file", {"path": path, "content": text}), HARD, HARD)
EDITS = st.builds(lambda old, new: ToolCall.of("edit_file", {"path": "a", "old": old, "new": new}), HARD, HARD)
REPLACED = st.builds(
    lambda paths, text: ToolCall.of("search_replace", {"paths": paths, "pattern": text, "replacement": text}),
    st.lists(HARD, max_size=2),
    HARD,
)
RUNS = st.builds(lambda argv: ToolCall.of("run_command", {"argv": argv}), st.lists(HARD))
NAMES = ["", "a b", "think", "result", "b", "nothing", "files.read_file", "x.y", "A.b.c", "web.search"]
ODD = st.builds(ToolCall.of, st.sampled_from(NAMES), st.dictionaries(HARD, HARD | st.integers(), max_size=2))
BROKEN = st.builds(ToolCall.from_defect, st.sampled_from(["read_file", "x y"]), SOUP, SOUP.filter(bool)) | st.builds(
    ToolCall.parse, st.just("read_file"), SOUP
)
CALLS = TYPED | FILES | EDITS | REPLACED | RUNS | ODD | BROKEN


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Draw a message with calls, in order or in blocks that hold all of them."""
    calls = tuple(draw(st.lists(CALLS, max_size=4)))
    order = draw(blocks(0, len(calls), 0)) if calls and draw(st.booleans()) else None
    return Message("assistant", draw(HARD), calls, order=order)


@st.composite
def blocks(draw: st.DrawFn, start: int, end: int, depth: int) -> Block:
    """Draw a block of the calls from one place to another."""
    items: list[int | Block] = []
    while start < end:
        size = draw(st.integers(1, end - start))
        nested = depth < 3 and draw(st.booleans())
        items += [draw(blocks(start, start + size, depth + 1))] if nested else range(start, start + size)
        start += size
    return Block(draw(st.sampled_from(["parallel", "sequential"])), tuple(items))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: type(dialect).__name__)
@given(message=messages())
@example(message=Message("assistant", "```\nopen"))
@example(message=Message("assistant", "see <read_fi"))
@example(message=Message("assistant", "Finial answer: yes", (ToolCall.of("read_file", {"path": "a"}),)))
@example(message=Message("assistant", "see <read_file>", (ToolCall.of("read_file", {"path": "a"}),)))
def test_what_is_written_reads_as_the_same(dialect: Dialect, message: Message) -> None:
    parsed = read(dialect, dialect.render_message(message))
    assert parsed.text == message.text
    assert [(call.name, call.arguments, call.digest) for call in parsed.calls] == [
        (call.name, call.arguments, call.digest) for call in message.calls
    ]
    assert parsed.order == message.order
