"""What was written before a question is known to have come before it, whatever a thread was doing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from io import FileIO

import pytest

from foregate.views.terminal.terminal import InputLine, Pipe


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[FileIO]:
    """The other end of a standard input that is a pipe."""
    reading, writing = os.pipe()
    with open(reading, "rb") as stdin, FileIO(writing, "w") as other:
        monkeypatch.setattr("sys.stdin", stdin)
        yield other


async def test_lines_come_in_order_and_then_nothing_for_ever(writer: FileIO) -> None:
    writer.write(b"one\r\ntwo \xff\n\nrest")
    writer.close()
    pipe = Pipe()
    lines = [await pipe.next_line() for _ in range(6)]
    assert [line.text for line in lines if line] == ["one", "two \ufffd", "", "rest"]
    assert lines[4:] == [None, None]


async def test_what_arrived_before_a_question_and_be_it_in_part_came_before_it(writer: FileIO) -> None:
    pipe = Pipe()
    writer.write(b"first\n")
    assert await pipe.next_line() == InputLine("first", 0)
    writer.write(b"early\nhalf")
    pipe.count_question()
    writer.write(b" a line\nlate\nlater")
    writer.write(b" still\n")
    assert [await pipe.next_line() for _ in range(4)] == [
        InputLine("early", 0),
        InputLine("half a line", 0),
        InputLine("late", 1),
        InputLine("later still", 1),
    ]
    writer.close()


async def test_a_question_before_anything_was_read_makes_no_difference(writer: FileIO) -> None:
    pipe = Pipe()
    writer.write(b"early\n")
    pipe.count_question()
    writer.write(b"late\n")
    assert [await pipe.next_line(), await pipe.next_line()] == [InputLine("early", 0), InputLine("late", 1)]
    writer.close()


async def test_a_line_put_back_is_the_next_one(writer: FileIO) -> None:
    pipe = Pipe()
    writer.write(b"one\n")
    writer.close()
    line = await pipe.next_line()
    assert line is not None
    pipe.put_back(line)
    assert [await pipe.next_line(), await pipe.next_line()] == [line, None]
