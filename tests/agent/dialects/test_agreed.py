"""What is shown of a response while nobody knows yet in which dialect its calls are."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from foregate.agent.dialects.dialect import Dialect, ParsedResponse
from foregate.agent.dialects.dialect_model import AutoModel, ConsensusReader
from foregate.agent.dialects.json_dialect import JsonDialect, parse_text
from foregate.agent.dialects.prose import find_bare_markup
from foregate.agent.dialects.tag_dialects import ActionTags, ServiceTags
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import ModelResponse
from tests.agent.dialects import test_json_any_text, test_tags_any_text
from tests.agent.dialects.conformance import CASES, Case
from tests.agent.dialects.specs import TOOLS

DIALECTS: Sequence[Dialect] = (JsonDialect(), ServiceTags(), ActionTags())
WRITTEN = [(case, text) for case in CASES for text in dict.fromkeys(case.written.values())]
TEXTS = st.lists(test_tags_any_text.SOUP | test_json_any_text.TEXTS, max_size=3).map("".join)


class Speaking:
    """A model whose response is one text, which arrives in parts. It has no tools of its own."""

    name = "speaking"

    def __init__(self, parts: Sequence[str]) -> None:
        self._parts = parts

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Say the text."""
        for part in self._parts if on_text is not None else ():
            on_text(part)
        return ModelResponse("".join(self._parts))


def agreed() -> ConsensusReader:
    """Return a reader for all dialects."""
    return ConsensusReader([dialect.build_reader(TOOLS) for dialect in DIALECTS])


def heard(parts: Sequence[str]) -> tuple[list[str], ModelResponse]:
    """Return what is shown of a response in `auto`, and the response."""
    shown: list[str] = []
    request = ModelRequest([Message("system", "s"), Message("user", "u")], tools=TOOLS)
    return shown, asyncio.run(AutoModel(Speaking(parts), DIALECTS).respond(request, shown.append))


@pytest.mark.parametrize(("case", "text"), WRITTEN, ids=lambda one: one.about if isinstance(one, Case) else "")
def test_nothing_but_the_words_of_a_response_is_shown_in_whichever_dialect_its_calls_are(case: Case, text: str) -> None:
    shown, response = heard(list(text))
    assert "".join(shown) == response.text == case.text


@pytest.mark.parametrize(
    "text",
    [
        "Use `a` and {b}, or [1, 2].",
        'It holds {"name": "Ada"} and a < b.',
        "So:\n```py\nprint(1)\n```\nSee `<read_file>`?",
        "An <b>old</b> one.",
    ],
)
def test_words_that_are_words_to_every_dialect_are_shown_as_they_come(text: str) -> None:
    reader = agreed()
    assert "".join(reader.feed(char) for char in f"\n {text} So") == f"{text} So"


@pytest.mark.parametrize(
    "call",
    [
        '{"tool": "read_file", "args": {"path": "a.txt"}}',
        "<read_file>a.txt</read_file>",
        "<files><read_file>a.txt</read_file></files>",
        "<think>so</think>",
    ],
)
def test_where_one_dialect_reads_a_call_or_a_thought_showing_stops_and_nothing_is_certain(call: str) -> None:
    reader = agreed()
    assert "".join(reader.feed(char) for char in f"I look: {call} and more words.").rstrip() == "I look:"
    assert (list(reader.calls), reader.close()) == ([], ParsedResponse(f"I look: {call} and more words."))


EXAMPLE = '{"tool": "read_file", "args": {"path": "a.txt"}}'


@pytest.mark.parametrize(
    "text",
    [
        f"{EXAMPLE} <read_file>a.txt</read_file></think>So.",
        f"So.<result>{EXAMPLE} <read_file>a.txt</read_file></result>",
        f"As `{EXAMPLE}` or `<read_file>a.txt</read_file>`.",
        f"`{EXAMPLE}`",
        f"<!-- {EXAMPLE} <read_file>a.txt</read_file> -->",
    ],
)
def test_what_is_a_thought_or_made_up_or_an_example_runs_through_no_dialect(text: str) -> None:
    for piece in (1, len(text)):
        _, response = heard([text[place : place + piece] for place in range(0, len(text), piece)])
        assert response.calls == ()


def test_words_behind_a_call_are_not_taken_for_the_call_where_they_are_alike() -> None:
    reader = agreed()
    text = 'I look: {"tool": "git_status"}{"x": 1}tool'
    assert "".join(reader.feed(char) for char in text) == 'I look: {"'
    assert parse_text(text, frozenset({"git_status"})).text == 'I look: {"x": 1}tool'


@given(TEXTS, st.lists(st.integers(0, 1000), max_size=6))
@example("\n {", [])
@example("<C/>", [])
@example("<parallel></parallel><A0>", [])
def test_what_was_shown_is_the_beginning_of_what_is_shown_in_the_end(text: str, cuts: list[int]) -> None:
    reader = agreed()
    shown = "".join(reader.feed(part) for part in test_json_any_text.in_parts(text, cuts))
    assert text.lstrip().startswith(shown)
    if "</th" not in text.lower():
        told, response = heard(test_json_any_text.in_parts(text, cuts))
        assert "".join(told) == response.text.lstrip()
        assert find_bare_markup(text) or response.text.lstrip().startswith(shown)
