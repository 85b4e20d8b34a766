"""`foregate policy levers`: which keys would have turned recorded decisions, and which none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Annotated

from foregate.assembly.home import open_home_log
from foregate.cli import options
from foregate.cli.policy import app
from foregate.views.terminal.exit_codes import run_async
from foregate.views.terminal.layout import fold_text, format_labelled, format_table, pluralise, shorten_text
from foregate.views.terminal.progress import show_pieces

if TYPE_CHECKING:
    from foregate.tuning.levers import Lever, LeverSearch

_SHOWN = 30


@app.command("levers")
def levers(
    sessions: options.SessionNames = None,
    every: Annotated[bool, options.take("--all", "List every change, not only the first 30.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank keys by how many recorded calls a change of them would turn, and name those that turn none. A number moves
    to the nearest value that turns something, a word to each other one; a rule is removed. Counts end at each session's
    first divergence. Keys that steer how a call is looked at are counted apart.
    """
    from foregate.assembly.home import find_judged_sessions
    from foregate.schemas import strict_json
    from foregate.schemas.errors import LogError, UsageError
    from foregate.tuning.levers import LeverSearch
    from foregate.tuning.reach_index import ReachIndex, open_reach_index
    from foregate.tuning.rejudging import find_other_versions

    with open_home_log() as log:
        names = run_async(find_judged_sessions(log, sessions or ()))
        options.print_problems(find_other_versions(log, names))
        with (
            show_pieces("indexing the log") as tell,
            open_reach_index(log, names, tell, options.print_problem) as kept,
            closing(kept or ReachIndex(log, None)) as index,
        ):
            if kept is None:
                index.catch_up(names, progress=tell)
            for name in index.unreadable:
                raise LogError(
                    f"session `{name}` cannot be read; `foregate audit verify {name}` tells what was changed"
                )
            with show_pieces("trying other values") as tell_tried:
                search = LeverSearch(log, names, index, progress=tell_tried)
                found = search.find_levers()
    if not found and not search.quiet:
        raise UsageError("no recorded turn can be judged again, so nothing is claimed; name other sessions")
    if as_json:
        beside = {"unread": search.unread, "beside": search.beside}
        for lever in found:
            options.print_json({"kind": "lever", **strict_json.dump(lever)})
        options.print_json({"kind": "summary", "sessions": len(names), "quiet": search.quiet, **beside})
        return
    width = options.measure_terminal() or 80
    for line in format_levers(found, len(found) if every else _SHOWN, search, width):
        options.print_text(line)


_VALUE = 30
"""Columns of a value at most."""


def format_levers(found: Sequence[Lever], most: int, search: LeverSearch, width: int) -> Iterator[str]:
    """Yield in `width` columns the table of at `most` so many, the keys that turned none, and those that recorded turns
    cannot tell of."""
    from foregate.policy.source.values import format_value

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
