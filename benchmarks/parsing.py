"""What a byte of a response costs to read at 1 MB, against one at 10 KB, as ratios in one run.

Texts of ordinary kinds and of hostile ones, read whole and in pieces of a few characters as they arrive from a model.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

from figures import Report

from foregate.agent.dialects.dialect import Dialect
from foregate.agent.dialects.dialect_model import build_dialects
from foregate.agent.dialects.json_dialect import JsonDialect
from foregate.agent.dialects.tag_dialects import ActionTags, ServiceTags
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.policy.source.load import default_policy

SMALL, LARGE = 10_000, 1_000_000
ROUNDS = 8
BOUND = 1.5
TOOLS = [
    tool.spec
    for tool in builtin_tools(MemoryWorkspace({}), default_policy(), memory=Path("memory"))  # type: ignore[arg-type]
]
Kind = Callable[[int], str]


def repeated(before: str, middle: str, after: str) -> Kind:
    """Return what makes a text of about a size: one piece over and over between two others."""
    return lambda size: before + middle * (size // len(middle)) + after


def runs(size: int) -> str:
    """Return a line of ever shorter runs of backticks: none of them closes another."""
    longest = int((2 * size) ** 0.5)
    return "".join("`" * length + "a" for length in range(longest, 0, -1)) + "<b>"


TAGS: Mapping[str, Kind] = {
    "one file": repeated("<write_file><path>a</path><content>\n", "if a < b:  # <b>&lt;\n", "</content></write_file>"),
    "many calls": repeated("", "Now.\n<read_file>\n<path>src/a.py</path>\n</read_file>\n", ""),
    "words": repeated("", "A *word*, `code <x>`, and a < b; <b>bold</b>.\n\n```\n<read_file>a</read_file>\n```\n", ""),
    "closing tags in content": repeated(
        "<write_file><path>a</path><content>", "</content> x", "</content></write_file>"
    ),
    "blanks after closing tags": repeated(
        "<write_file><path>a</path><content>", "</content>   ", "</content></write_file>"
    ),
    "opening tags in content": repeated("<write_file><path>a</path><content>", "<content>", ""),
    "blanks in a tag": repeated("<read_file", " ", "/>"),
    "an attribute": repeated('<read_file path="', "<a b='", '"/>'),
    "tags that are none": repeated("", "<a b='<a b=\" ", ""),
    "backticks in one line": repeated("", "` `` ``` ```` ````` ", "<b>"),
    "code in one line": repeated("", "`a`b", "<b>"),
    "fences": repeated("", "```\n~~~\n````\n", ""),
    "blocks": repeated("", "<parallel>", ""),
    "thoughts": repeated("<think>", "</thinking> <think>", ""),
    "CDATA": repeated("<write_file><path>a</path><content>", "<![CDATA[", "]]></content></write_file>"),
    "sections": repeated("<write_file><path>a</path><content>", "<![CDATA[x]]>", "</content></write_file>"),
    "look-alikes": repeated("", "<cre\u0430te_file> ", ""),
    "brackets": repeated("", "<", ""),
    "digits": repeated("", "1. ", ""),
    "quotes in a command": repeated("<run_command>", "'a b' \"c\" ", "</run_command>"),
    "runs of backticks": runs,
}
CALL = '{"tool": "read_file", "args": {"path": "a"}}'
JSON: Mapping[str, Kind] = {
    "one file": repeated(
        '{"tool": "write_file", "args": {"path": "a", "content": "', 'if a < b:  # {\\"x\\"}\\n', '"}}'
    ),
    "a list of calls": repeated("[", f"{CALL}, ", f"{CALL}]"),
    "calls in a fence": repeated("```json\n", f"{CALL}\n", "```\n"),
    "calls one behind another": repeated("", f"{CALL}\n", ""),
    "objects that hold no calls": repeated("", '{"a": 1} and ', ""),
    "words": TAGS["words"],
    "braces": repeated("", "{", ""),
    "braces in an object": repeated('{"a":', "{", ""),
    "objects in lists": repeated("", '[{"a":', ""),
    "blanks after braces": repeated("", "{" + " " * 300, '"'),
    "backslashes and quotes": repeated('{"tool": "read_file", "args": {"path": "', '\\\\\\"', '"}}'),
    "quotes": repeated('{"a": "', '""', ""),
    "halves of characters": repeated('{"tool": "read_file", "args": {"path": "', "\ud83d\ude00", '"}}'),
    "fences": TAGS["fences"],
    "fences of no language": repeated("", "```\n```\n", ""),
    "fences in a fence": repeated("```json\n", "``` \n ```x\n", ""),
    "blanks after a fence": repeated("```x\n```", " ", "x\n```\n"),
    "thoughts": repeated("", "<think>a</think>", ""),
    "a thought": repeated("<think>", "</thin<think>", ""),
    "thoughts in a thought": repeated("", "<think>", ""),
    "ends of thoughts": repeated("", f"{CALL}</think>\n", ""),
    "marks that are none": repeated("", "<think a='<result b=\" </thought <!- ", ""),
    "results in code": repeated("", "`<result>` ", "<result>"),
    "what follows a result": repeated("<result>", f"{CALL} <result>", ""),
    "comments": repeated("", f"<!-- {CALL} -->", ""),
    "a comment": repeated("<!--", "-- ->\n", ""),
    "CDATA": TAGS["CDATA"],
    "backticks in one line": TAGS["backticks in one line"],
    "code in one line": repeated("", f"`{CALL}`a", ""),
    "JSON behind backticks": repeated("", '` ``{\n"a": 1}', ""),
    "runs of backticks": runs,
}
DIALECTS: tuple[Dialect, ...] = (JsonDialect(), ActionTags(), ServiceTags())


def find_kinds(dialect: Dialect) -> Mapping[str, Kind]:
    """Return the kinds of text that a dialect is measured with."""
    return JSON if isinstance(dialect, JsonDialect) else TAGS


def read(dialect: Dialect, text: str, piece: int) -> int:
    """Read a text in pieces of a size, 0 for whole; return the nanoseconds it computed."""
    start = time.process_time_ns()
    reader = dialect.build_reader(TOOLS)
    for place in range(0, len(text), piece or len(text)):
        reader.feed(text[place : place + (piece or len(text))])
    reader.close()
    return time.process_time_ns() - start


def ratio(dialect: Dialect, name: str, piece: int) -> float:
    """Return what a character costs in a large text against a small one, the best of interleaved rounds each.

    What else the machine does only adds to a cost, so rounds go on while the ratio is above the bound.
    """
    kind = find_kinds(dialect)[name]
    small, large = kind(SMALL), kind(LARGE)
    found, least, most = BOUND + 1, float("inf"), float("inf")
    for _ in range(ROUNDS):
        if found <= BOUND:
            break
        least = min(least, *(read(dialect, small, piece) / len(small) for _ in range(5)))
        most = min(most, read(dialect, large, piece) / len(large))
        found = most / least
    return found


def main() -> int:
    """Print, for each dialect, the worst ratio of all kinds of text, whole and in pieces."""
    report = Report("parsing", "agent/dialects")
    names = {type(dialect): name for name, dialect in build_dialects().items()}
    jobs = [job for dialect in DIALECTS for job in product([dialect], find_kinds(dialect), (0, 7))]
    with ProcessPoolExecutor() as pool:
        ratios = list(zip(pool.map(ratio, *zip(*jobs, strict=True)), jobs, strict=True))
    for dialect in DIALECTS:
        (whole, kind), (pieces, other) = (
            max((found, name) for found, (of, name, size) in ratios if (of, size) == (dialect, piece))
            for piece in (0, 7)
        )
        note = f"{whole:.2f} whole ({kind}), {pieces:.2f} in pieces ({other})"
        report.add(f"a byte of 1 MB, {names[type(dialect)]}", max(whole, pieces), "x", most=BOUND, note=note)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
