"""What `foregate policy levers` prints: changes with what they would have turned, and keys that turned nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from foregate.audit.levers import Lever, LeverSearch
from foregate.cli.terminal.layout import shorten_text
from foregate.policy.source.values import format_value

_WIDTH = 79
_NUMBERS = 43
"""Characters before the change of a row."""


def format_levers(found: Sequence[Lever], most: int, search: LeverSearch) -> Iterator[str]:
    """Yield the table of at `most` so many, the keys that turned none, and those that recorded turns cannot tell of."""
    told = [one for one in found if one.is_told]
    shown = told[:most]
    yield f"{'calls':>6} {'held':>5} {'let go':>6} {'plans':>5} {'critics':>7} {'prompts':>7}  change"
    for one in shown:
        asked = f"{one.plans:>+5} {one.critiques:>+7} {one.prompts:>+7}"
        after = "taken out" if one.after is None else format_value(one.after)
        change = f"{one.key}: {shorten_text(after, _WIDTH - _NUMBERS - 8)}"
        change = change if len(change) <= _WIDTH - _NUMBERS else f"…{change[_NUMBERS - _WIDTH + 1 :]}"
        yield f"{one.turned:>6} {one.held:>5} {one.let_go:>6} {asked}  {change}"
    if len(told) > len(shown):
        yield f"... and {len(told) - len(shown)} more; --all lists them"
    still = [key for key in search.quiet if key not in search.unread]
    unseen = {one.key: f"{one.key} ({one.unseen})" for one in reversed(found)}
    for one in told:
        unseen.pop(one.key, None)
    for words, keys in (
        ("May turn calls, of which the log cannot tell", [*unseen.values()]),
        ("Turned no recorded decision, whatever the value", still),
        ("Not tried, for no recorded turn has to do with them", search.unread),
    ):
        if keys:
            yield ""
            yield f"{words} ({len(keys)} key{'s' * (len(keys) != 1)}), by section:"
            yield from format_quiet(keys)
    if search.beside:
        sections = ", ".join(sorted({key.partition(".")[0] for key in search.beside}))
        number = f"{len(search.beside)} key{'s' * (len(search.beside) != 1)} of {sections}"
        yield ""
        yield from wrap(f"Not judged by recorded turns, so not tried: {number} (--json names them).", _WIDTH)


def format_quiet(keys: Sequence[str]) -> Iterator[str]:
    """Yield keys by their sections, wrapped: each section once, and what of it follows."""
    sections: dict[str, list[str]] = {}
    for key in keys:
        section, _, name = key.partition(".")
        sections.setdefault(section, []).append(name or section)
    width = max(map(len, sections))
    for section in sorted(sections):
        lines = wrap(", ".join(sections[section]), _WIDTH - width - 4, break_long_words=False, break_on_hyphens=False)
        for number, line in enumerate(lines):
            yield f"  {'' if number else section:<{width}}  {line}"
