"""What `foregate policy levers` prints: changes with what they would have turned, and keys that turned nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foregate.cli.terminal.layout import fold_text, format_labelled, format_table, pluralise, shorten_text
from foregate.policy.source.values import format_value
from foregate.tuning.levers import Lever, LeverSearch

_VALUE = 30
"""Columns of a value at most."""


def format_levers(found: Sequence[Lever], most: int, search: LeverSearch, width: int) -> Iterator[str]:
    """Yield in `width` columns the table of at `most` so many, the keys that turned none, and those that recorded turns
    cannot tell of."""
    told = [one for one in found if one.is_told]
    shown = told[:most]
    rows: list[tuple[str, ...]] = [("change", "calls", "held", "let go", "plans", "critics", "prompts")]
    for one in shown:
        after = "taken out" if one.after is None else format_value(one.after)
        counts = f"{one.turned} {one.held} {one.let_go} {one.plans:+} {one.critiques:+} {one.prompts:+}"
        rows.append((f"{one.key}: {shorten_text(after, _VALUE)}", *counts.split()))
    yield from format_table(rows, width)
    if len(told) > len(shown):
        yield f"... and {len(told) - len(shown)} more; --all lists them"
    still = [key for key in search.quiet if key not in search.unread]
    unseen = {one.key: f"{one.key} ({one.unseen})" for one in reversed(found)}
    for one in told:
        unseen.pop(one.key, None)
    for words, keys in (
        ("May turn calls that the log cannot tell of", [*unseen.values()]),
        ("Turned no recorded decision, whatever the value", still),
        ("Not tried, for no recorded turn has to do with them", search.unread),
    ):
        if keys:
            yield ""
            yield from fold_text(f"{words} ({pluralise(len(keys), 'key')}), by section:", width)
            yield from format_by_section(keys, width)
    if search.beside:
        sections = ", ".join(sorted({key.partition(".")[0] for key in search.beside}))
        number = f"{pluralise(len(search.beside), 'key')} of {sections}"
        yield ""
        yield from fold_text(f"Not judged by recorded turns, so not tried: {number} (--json names them).", width)


def format_by_section(keys: Sequence[str], width: int) -> Iterator[str]:
    """Yield keys by their sections, in `width` columns: each section once, and what of it follows."""
    sections: dict[str, list[str]] = {}
    for key in keys:
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(name or section)
    room = max(map(len, sections))
    for section in sorted(sections):
        for line in format_labelled(section, ", ".join(sections[section]), width, room=room + 1):
            yield line.plain.rstrip()
