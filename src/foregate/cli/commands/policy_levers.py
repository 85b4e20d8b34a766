"""`foregate policy levers`: which keys would have turned recorded decisions, and which none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated

from foregate.assembly.home import open_home_log
from foregate.cli.commands import options
from foregate.cli.commands.policy import app
from foregate.cli.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.audit.levers import Lever

_SHOWN = 30
_WIDTH = 79
_NUMBERS = 43
"""Characters before the change of a row."""


@app.command("levers", short_help="Rank keys by the recorded decisions a change would have turned.")
def levers(
    sessions: options.SessionNames = None,
    every: Annotated[bool, options.take("--all", "List every change, not only the first 30.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank keys by how many recorded calls a change of them would have turned, and name those that turned none.

    A number is moved to the nearest value up and down at which something turns, a word to each other one, and a rule is
    taken out. Counted is up to each session's first divergence.
    """
    from foregate.assembly.home import find_sessions
    from foregate.audit.levers import LeverSearch
    from foregate.audit.reach_index import open_reach_index
    from foregate.schemas import strict_json
    from foregate.schemas.errors import UsageError

    with open_home_log() as log:
        names = run_async(find_sessions(log, sessions or ()))
        with open_reach_index(log, names) as index:
            if index is None:
                raise UsageError("the tuning index cannot be opened; make the folder of the log yours to write")
            search = LeverSearch(log, names, index)
            found = search.find_levers()
    if as_json:
        for lever in found:
            options.print_json({"kind": "lever", **strict_json.dump(lever)})
        options.print_json({"kind": "summary", "sessions": len(names), "quiet": search.quiet})
        return
    for line in format_levers(found if every else found[:_SHOWN], len(found), search.quiet):
        options.print_text(line)


def format_levers(shown: Sequence[Lever], count: int, quiet: Sequence[str]) -> Iterator[str]:
    """Yield the table, and the keys that turned none."""
    from foregate.cli.terminal.layout import shorten_text
    from foregate.policy.source.values import format_value

    if not shown and not quiet:
        yield "no recorded turn can be judged again; record a session first, or name another"
        return
    yield f"{'calls':>6} {'held':>5} {'let go':>6} {'plans':>5} {'critics':>7} {'prompts':>7}  change"
    for one in shown:
        asked = f"{one.plans:>+5} {one.critiques:>+7} {one.prompts:>+7}"
        after = "taken out" if one.after is None else format_value(one.after)
        change = f"{one.key}: {shorten_text(after, _WIDTH - _NUMBERS - 8)}"
        change = change if len(change) <= _WIDTH - _NUMBERS else f"…{change[_NUMBERS - _WIDTH + 1 :]}"
        yield f"{one.turned:>6} {one.held:>5} {one.let_go:>6} {asked}  {change}"
    if count > len(shown):
        yield f"... and {count - len(shown)} more; --all lists them"
    if quiet:
        yield ""
        yield f"Turned no recorded decision ({len(quiet)} keys), by section:"
        yield from format_quiet(quiet)


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
