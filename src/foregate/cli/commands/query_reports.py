"""What commands print for people about many sessions: sessions, decisions, and where a text stands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from rich.text import Text

from foregate.cli.terminal.exit_codes import STATUS
from foregate.cli.terminal.layout import BAD, CARE, GOOD, chop_text, count_columns, make_visible, shorten_text

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.index.rows import DecisionRow, Passage, SessionRow

_VERDICT = {"allow": GOOD, "ask": CARE, "hold": CARE, "deny": BAD}
_PIPED = 48
_WIDE = 120
_LEAST = 24
"""Columns that a row's text has at least; with less, what stands before it has a line of its own."""


def format_sessions(
    rows: Sequence[SessionRow], width: int, signed: Mapping[str, Mapping[str, Json]] = MappingProxyType({})
) -> Iterator[str]:
    """Yield a line for each session below one that names the columns; what was asked first ends at `width` columns,
    with 0 at 48. A wide terminal also shows when it was and how many calls were held or denied. `signed` says by
    session who signed it off.
    """
    name = max([len("SESSION"), *(len(make_visible(row.session)) for row in rows)])
    state = max(map(len, STATUS))
    wide = width >= _WIDE
    for number, row in enumerate(rows):
        if number == 0:
            more = f"{'LAST':<16}  {'STOPPED':>7}  " if wide else ""
            yield f"{'SESSION':<{name}}  {'EVENTS':>6}  {'STATE':<{state}}  {more}ASKED"
        more = f"{_format_time(row.last):<16}  {row.held + row.denied:>7}  " if wide else ""
        head = f"{make_visible(row.session):<{name}}  {row.events:>6}  {row.state:<{state}}  {more}"
        mark = _describe_sign_off(signed.get(row.session, {}))
        asked = mark + (row.asked or (f"goes on with {row.follows}" if row.follows else ""))
        yield f"{head}{shorten_text(asked, max(8, width - len(head)) if width else _PIPED)}".rstrip()


def _describe_sign_off(about: Mapping[str, Json]) -> str:
    by = about.get("by")
    if not isinstance(by, Mapping):
        return ""
    return "(sign-off void: it has grown) " if about.get("void") else f"(signed off by {by.get('user')}) "


def format_rows(rows: Sequence[DecisionRow], width: int) -> Iterator[Text]:
    """Yield a line for each decision: its address, what the gate said, and of what; cut to `width` unless that is 0."""
    names = [make_visible(f"{row.session}/{row.address}") for row in rows]
    room = max(map(count_columns, names), default=0)
    for row, name in zip(rows, names, strict=True):
        line = Text(f"{name}{' ' * (room - count_columns(name))}  ")
        if width and width - room - 9 < _LEAST:
            yield Text(_cut_line(name, width))
            line = Text("    ")
        line.stylize("dim")
        if width >= _WIDE:
            line.append(f"{_format_time(row.time)}  ")
        line.append(f"{row.standing:<5}  ", style=_VERDICT.get(row.standing, ""))
        yield line.append(shorten_text(_describe_row(row), max(1, width - line.cell_len) if width else 0))


def format_passages(found: Iterable[tuple[Passage, str]], width: int) -> Iterator[str]:
    """Yield a line for each place where a text stands, with the words around it; cut to `width` unless that is 0."""
    for passage, excerpt in found:
        head = f"{make_visible(passage.session)}  {passage.seq:>5}  {passage.what:<8}  "
        if width and width - count_columns(head) < _LEAST:
            yield _cut_line(head, width)
            head = "    "
        yield f"{head}{shorten_text(excerpt, max(1, width - count_columns(head)) if width else 0)}"


def _describe_row(row: DecisionRow) -> str:
    shadow = " [shadow]" if row.mode == "shadow" else ""
    what = f"{row.tool} {row.target}".strip()
    return ": ".join(part for part in (f"{row.code}{shadow}", what, row.summary) if part)


def _format_time(time: str) -> str:
    return shorten_text(time[:16].replace("T", " "), 16)


def _cut_line(text: str, width: int) -> str:
    """Return the beginning of a text that is visible already, in `width` columns."""
    return chop_text(text.rstrip(), width)[0]
