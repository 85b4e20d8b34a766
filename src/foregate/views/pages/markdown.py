"""A session as Markdown, to be quoted in a report: the same rows, every text of somebody else's behind backticks."""

from __future__ import annotations

import re
from collections.abc import Iterator

from foregate.schemas.visible import make_visible
from foregate.views.pages.texts import Quote, cut_text
from foregate.views.pages.views import (
    AnswerView,
    CallView,
    JudgedView,
    Noting,
    Responding,
    RowView,
    Saying,
    SessionPage,
)
from foregate.views.terminal.made import FileDiff

_INLINE = 200


def format_markdown(page: SessionPage, rows: list[RowView]) -> str:
    """Return a session as Markdown."""
    return "\n".join(_format_page(page, rows)) + "\n"


def quote_inline(text: str) -> str:
    """Return a text as code within a line: no text can end it."""
    shown = make_visible(cut_text(text, _INLINE))
    ticks = "`" * (1 + max(map(len, re.findall("`+", shown)), default=0))
    return f"{ticks} {shown} {ticks}" if "`" in shown else f"`{shown}`" if shown.strip() else "``  ``"


def quote_block(text: str, language: str = "") -> Iterator[str]:
    """Yield a text as a block of code: no text can end it."""
    shown = make_visible(text, lines=True)
    ticks = "`" * max(3, 1 + max(map(len, re.findall("`+", shown)), default=0))
    yield f"{ticks}{language}"
    yield from shown.removesuffix("\n").split("\n")
    yield ticks
    yield ""


def _format_page(page: SessionPage, rows: list[RowView]) -> Iterator[str]:
    yield f"# Session {quote_inline(page.session)}"
    yield ""
    for name, value in [*page.facts, ("state", page.state), ("proof", page.proof.says)]:
        yield f"- {name}: {quote_inline(value)}"
    yield f"- head: `{page.proof.events}:{page.proof.head}`"
    yield ""
    for row in rows:
        match row:
            case Saying():
                yield f"## {row.who}, event {row.seq}"
                yield ""
                yield from _format_quote(row.text)
            case Responding():
                yield from _format_response(row)
            case Noting():
                yield f"- {row.word}, event {row.seq}: {quote_inline(row.says)}"
                yield ""
                yield from _format_quote(row.text)


def _format_quote(quote: Quote, language: str = "") -> Iterator[str]:
    if not quote.size:
        return
    yield from quote_block(quote.begin + quote.rest, language)
    if quote.left_out:
        yield f"({quote.left_out:,} characters more stand only in the log)"
        yield ""


def _format_response(row: Responding) -> Iterator[str]:
    yield f"## {row.who}, event {row.seq}"
    yield ""
    yield from _format_quote(row.text)
    for judged in row.rulings:
        yield from _format_judged(judged)
    for call in row.calls:
        yield from _format_call(call)
    if row.left_out:
        yield f"and {row.left_out:,} calls more"
        yield ""


def _format_call(call: CallView) -> Iterator[str]:
    yield f"### {quote_inline(call.mark)} {quote_inline(call.tool)}: {call.word}"
    yield ""
    for name, value in call.arguments:
        yield f"{quote_inline(name)}:"
        yield ""
        yield from _format_quote(value)
    for judged in call.judged:
        yield from _format_judged(judged)
    for answer in call.answers:
        yield _format_answer(answer)
    for end in call.outcomes:
        yield f"- {end.word}, event {end.seq}{f': {quote_inline(end.says)}' if end.says else ''}"
        yield ""
        yield from _format_quote(end.text)
        for file in end.files:
            yield from _format_diff(file)


def _format_judged(judged: JudgedView) -> Iterator[str]:
    where = f" ({judged.stage})" if judged.stage else ""
    yield f"- judged{where}, event {judged.seq}: {judged.word or 'the answer'}, {quote_inline(judged.code)}"
    for ruling in judged.rulings:
        if not ruling.passed:
            said = quote_inline(ruling.words.begin) if ruling.words.size else ruling.meaning
            yield f"  - {quote_inline(ruling.gate)} {ruling.word} ({quote_inline(ruling.code)}): {said}"
            for number in ruling.numbers:
                bound = f"{number.value}, bound {number.bound}"
                yield f"    - {quote_inline(number.name)} {bound} ({quote_inline(number.key)})"
    yield ""


def _format_answer(answer: AnswerView) -> str:
    said = quote_inline(answer.choice or answer.error) if answer.answered else "no answer yet"
    by = f" by {quote_inline(answer.by)}" if answer.by else ""
    took = f" after {answer.seconds} s" if answer.seconds >= 0 else ""
    return f"- {quote_inline(answer.gate)} asked the {answer.who}, event {answer.seq}: {said}{by}{took}\n"


def _format_diff(file: FileDiff) -> Iterator[str]:
    yield f"{quote_inline(file.path)}: {file.describe()}"
    yield ""
    if file.lines:
        yield from quote_block("\n".join(f"{line.sign}{line.text}" for line in file.lines), "diff")
