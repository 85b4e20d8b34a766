"""What a command printed of a file counts as read only where the bytes are the file's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools.builtin_tool import find_printed, has_lines

A = b"one\n\ntwo\nthree\n"


@pytest.mark.parametrize(
    ("output", "contents", "found"),
    [
        (A, {"a": A}, {"a": True}),
        (A + b"b\n", {"a": A, "b": b"b\n"}, {"a": True, "b": True}),
        (b"x" + A, {"a": b"x", "b": A}, {"a": True, "b": True}),
        (b"---\n" + A + b"---\n", {"a": A}, {"a": True}),
        (b"two\nthree\n", {"a": A}, {"a": False}),
        (b"two\n", {"a": A}, {"a": False}),
        (b"     1\tone\n     2\t\n     3\ttwo\n     4\tthree\n", {"a": A}, {"a": True}),
        (b"     1\tone\n       \n     2\ttwo\n     3\tthree\n", {"a": A}, {"a": True}),
        (b"3:two\n4:three\n", {"a": A}, {"a": False}),
        (b"", {"a": b""}, {"a": True}),
        (b"", {"a": A}, {}),
        (b"\n", {"a": A}, {}),
        (b"one\ntwo\n", {"a": A}, {}),
        (b"wo\nthr", {"a": A}, {}),
        (b"one\n\ntwo\nthree", {"a": A}, {"a": False}),
        (b"ONE\n\ntwo\nthree\n", {"a": A}, {}),
        (A, {"a": b"x\n", "b": b""}, {}),
        (A, {}, {}),
    ],
)
def test_the_whole_the_lines_of_a_part_or_nothing(
    output: bytes, contents: dict[str, bytes], found: dict[str, bool]
) -> None:
    assert find_printed(output, contents) == found


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_what_counts_as_shown_stands_in_the_output_byte_for_byte(output: bytes, data: bytes) -> None:
    if find_printed(output, {"a": data}).get("a") and not output.lstrip(b" ")[:1].isdigit() and b" \n" not in output:
        assert data in output


@given(st.lists(st.binary(max_size=8).map(lambda line: line.replace(b"\n", b"")), max_size=6))
def test_whole_lines_of_a_text_stand_in_it(lines: list[bytes]) -> None:
    text = b"".join(line + b"\n" for line in lines)
    for at, line in enumerate(lines):
        assert has_lines(text, line + b"\n") or not line.strip()
        assert has_lines(text, b"".join(one + b"\n" for one in lines[at:])) or not b"".join(lines[at:]).strip()
