"""What was thought aloud before an answer is no answer, however the text is split."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas.thoughts import ThoughtSplitter, cut_thoughts, split_thoughts

CHANNEL = "<|channel|>analysis<|message|>We need<|end|><|start|>assistant"
TEXTS = [
    ("plain", "", "plain"),
    ("\n\n  plain", "", "\n\n  plain"),
    ("<think>a</think>b", "a", "b"),
    ("\n<think>\na\n</think>\n\nb", "a", "b"),
    ("<THINKING>a</thinking >b", "a", "b"),
    ("<thought>a</thought><reasoning>b</reasoning>c", "a\nb", "c"),
    ("<seed:think>a</seed:think>b", "a", "b"),
    ("<think>\n\n</think>\n\nb", "", "b"),
    ("<think>it never ends", "it never ends", ""),
    ("[THINK]a[/THINK]b", "a", "b"),
    ("◁think▷a◁/think▷b", "a", "b"),
    ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "a", "b"),
    ("<|channel>thought\na<channel|>b", "a", "b"),
    (f"{CHANNEL}<|channel|>final<|message|>It is 4.<|return|>", "We need", "It is 4."),
    ("analysis<|message|>We need<|end|><|start|>assistant<|channel|>final<|message|>4", "We need", "4"),
    ("analysisWe need.assistantfinalIt is 4.", "We need.", "It is 4."),
    ("Okay, so 4.\n</think>\n\nIt is 4.", "Okay, so 4.", "It is 4."),
    ("Okay, so 4.</think>It is 4.", "Okay, so 4.", "It is 4."),
    ("Okay, so 4. </think>\n\nIt is 4.", "Okay, so 4.", "It is 4."),
    ("</think>\n\nIt is 4.", "", "It is 4."),
]
WORDS = [
    "the mark <think> is one",
    "it writes <think>x</think> so",
    "A thought ends with `</think>`.",
    "A thought ends with </think>, then the answer comes.",
    'The tag "</think>" ends it',
    "In `a</think>b` the answer is b",
    "For example:\n```\nso it is four.\n</think>\n\nIt is 4.\n```\n",
    "Models write\n<think>\na\n</think>\nbefore they answer.",
    "[THIN] is no mark, and 3 < 4",
    "analysis of the assistant: final",
    "<html><body>hello</body></html>",
]


def feed(pieces: list[str]) -> tuple[str, str]:
    """Return what was thought and said of a text that came in pieces."""
    splitter, thoughts, said = ThoughtSplitter(), "", ""
    for number, piece in enumerate((*pieces, "")):
        found = splitter.feed(piece, last=number == len(pieces))
        thoughts, said = thoughts + found.thought, ("" if found.voids else said) + found.said
    return thoughts.strip(), said


@pytest.mark.parametrize(("text", "thought", "said"), [*TEXTS, *((text, "", text) for text in WORDS)])
def test_thoughts_stand_at_the_beginning_in_every_split(text: str, thought: str, said: str) -> None:
    assert (split_thoughts(text), cut_thoughts(text)) == ((thought, said), said)
    for size in (1, 2, 3, 7):
        assert feed([text[at : at + size] for at in range(0, len(text), size)]) == (thought, said), size


MARKS = st.sampled_from(
    ["<think>", "</think>", "[THINK]", "a", "`", "\n", " ", ".", "<|", "<|channel|>", "analysis", "fi"]
)


@given(st.lists(MARKS, max_size=12), st.data())
def test_a_split_changes_nothing(parts: list[str], data: Any) -> None:
    text = "".join(parts)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    assert feed([text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]) == split_thoughts(text)


def count_calls(text: str) -> int:
    """Return how many Python calls it takes to take a text apart that comes in pieces of 50 characters."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        feed([text[at : at + 50] for at in range(0, len(text), 50)])
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize(
    "mark", ["<think>", "</think>", "<think></think>", "<", "<|channel|>", "[/THINK", " ", "analysis"]
)
def test_half_open_marks_cost_as_much_as_there_are(mark: str) -> None:
    short, long = mark * 2000, mark * 8000
    count_calls(short)  # what is compiled late is compiled now
    assert count_calls(long) < 5 * count_calls(short)
