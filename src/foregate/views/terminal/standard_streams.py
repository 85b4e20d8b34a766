"""Standard input, output and error of this process, whatever whoever started it made of them.

Output may be closed, full, or a pipe whose reader has gone. A command that only prints ends there. A task does not: it
would be lost half-way, because nobody reads.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from typing import Any, TextIO


class StandardOutput(io.FileIO):
    """Writes to a file descriptor until that fails, and drops what comes afterwards.

    `failure` is why it failed. It is raised once, where it happened, or not at all while `outlasts` says that the work
    goes on without a reader.
    """

    def __init__(self, descriptor: int, *, outlasts: bool = False) -> None:
        super().__init__(descriptor, "wb", closefd=False)
        self.outlasts = outlasts
        self.failure: OSError | None = None

    def write(self, data: Any, /) -> int:
        """Write, and return how many bytes are dealt with; see io.RawIOBase."""
        if self.failure is None:
            try:
                return super().write(data)
            except OSError as error:
                self.failure = error
                if not self.outlasts:
                    raise
        return len(data)


def open_standard_streams() -> None:
    """Make the three streams of this process such that reading and printing never end in a traceback."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # A file opened later, such as the log, would get the number of a closed stream, and with it all that is
            # printed. Opened for reading only, it refuses what is written just as a closed one does.
            os.set_inheritable(os.open(os.devnull, os.O_RDONLY), True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open as long as we are
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    sys.stdout = _wrap_output(sys.stdout, StandardOutput(1))
    # Who cannot be told is told nothing.
    sys.stderr = _wrap_output(sys.stderr, StandardOutput(2, outlasts=True))


def _wrap_output(before: TextIO | None, output: StandardOutput) -> TextIO:
    encoding = before.encoding if before is not None else "utf-8"
    at_once = bool(getattr(before, "write_through", False))
    by_line = bool(getattr(before, "line_buffering", False))
    return io.TextIOWrapper(
        io.BufferedWriter(output),
        encoding,
        "backslashreplace",
        line_buffering=by_line,
        write_through=at_once,
    )


def find_output(stream: object = None) -> StandardOutput | None:
    """Return what `stream`, else standard output, writes to; None where it is not ours, as in somebody's program."""
    raw = getattr(getattr(stream or sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, StandardOutput) else None


def outlast_output() -> None:
    """Let the work go on from here when standard output can no longer be written."""
    if (output := find_output()) is not None:
        output.outlasts = True


def is_lost(stream: object) -> bool:
    """Whether a stream can no longer be written."""
    output = find_output(stream)
    return output is not None and output.failure is not None


def describe_loss(failure: OSError) -> str:
    """Return the sentence for output that could not be written, "" where the reader left, as `head` does."""
    if isinstance(failure, BrokenPipeError):
        return ""
    why = "it is closed" if failure.errno == errno.EBADF else failure.strerror
    return f"standard output cannot be written ({why}); what should stand there is lost, so send it elsewhere"
