"""What a command said, as far as a person wants it at once: its end, and the line in which a test runner sums up."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from rich.text import Text

from foregate.schemas.event_body import ToolFinished
from foregate.schemas.late_pattern import compile_late
from foregate.views.terminal.layout import chop_text, expand_tabs, format_labelled

LINES = 4
"""Lines of a command's output that are shown where it ran."""
FAILED_LINES = 12
"""Lines of an output that are shown where it failed: the failure stands in the last."""
SHORT_OUTPUT = 320
"""Characters up to which the one line something failed with stands in its row."""
# "=== 3 passed in 0.12s ===", "Tests run: 3, Failures: 0".
_RESULTS = compile_late(
    # pytest
    r"=* ?(?:\d+ (?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?)(?:, )?)+ in [\d.]+ ?s.*"
    r"|no tests ran in [\d.]+ ?s"
    # Unittest.
    r"|(?:OK|FAILED)(?: \(.*\))?|Ran \d+ tests? in [\d.]+s"
    # Cargo.
    r"|test result: .*"
    # Go.
    r"|(?:ok|FAIL)\s+\S+\s+(?:[\d.]+s|\(cached\)).*"
    # Jest, vitest.
    r"|\s*(?:Tests|Test Suites|Test Files):?\s+\d.*"
    # Mocha.
    r"|\s*\d+ (?:passing|failing|pending)(?: \(.*\))?"
    # Node.
    r"|# (?:pass|fail) \d+"
    # Rspec.
    r"|\d+ examples?, \d+ failures?.*"
    # Maven, gradle.
    r"|(?:BUILD|Build) (?:SUCCESS|FAILURE|SUCCESSFUL|FAILED).*|Tests run: \d+, .*"
)
# "\x1b[31m": a program's colours are no part of what it says.
_COLOURS = compile_late(r"\x1b\[[0-9;]*m")


class Output(Struct, frozen=True):
    """What a call said: its text without what Foregate added, and `how` it ended where that was not well."""

    text: str
    how: str = ""

    @property
    def lines(self) -> list[str]:
        """The lines that say something, without colours."""
        return [line.rstrip() for line in _COLOURS.sub("", self.text).split("\n") if line.strip()]

    @property
    def result(self) -> str:
        """The last line in which a test runner sums up, "" where none does."""
        short = (line for line in reversed(self.lines) if len(line) <= SHORT_OUTPUT)
        return next((line.strip() for line in short if _RESULTS.fullmatch(line)), "")


def read_output(body: ToolFinished) -> Output:
    """Return what a call said."""
    text, how = body.content.strip(), ""
    if body.error == "exit_code":
        begin, _, last = text.rpartition("\n")
        if last.startswith(("exit code ", "ended by signal ")):
            text, how = begin, last
    return Output(text, how)


def format_end(said: Output, width: int, most: int) -> Iterator[Text]:
    """Yield the last lines, a row each, behind bars, and what sums tests up where it does not stand in them."""
    lines = said.lines
    last = lines[-most:]
    if (result := said.result) and not any(line.strip() == result for line in last):
        last = [result, *last[1:]]
    if len(lines) > most:
        yield from format_labelled("", f"the last {most} of {len(lines)} lines:", width, "dim", room=7)
    room = max(8, width - 7)
    for line in last:
        shown = expand_tabs(line)
        begin = chop_text(shown, room)[0] if width else shown
        yield Text().append("  | ", "dim").append(f"{begin}…" if begin != shown else begin)
