"""`foregate audit list`, `show`, `decisions`, `search`, `stats` and `diff`: questions over one session and over all."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.assembly.home import open_home_index
from foregate.cli import options, selecting
from foregate.cli.audit import app
from foregate.cli.options import take
from foregate.cli.selecting import Selection
from foregate.schemas.errors import LogError
from foregate.views.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.log.sqlite_log import SqliteLog
    from foregate.telemetry.queries.audit_index import AuditIndex, DecisionCount
    from foregate.telemetry.queries.decisions import DecisionPoint
    from foregate.telemetry.queries.filters import DecisionFilter

_SHOWN = 100
"""Rows of a table that a person is shown at most, unless --limit says otherwise."""
Limit = Annotated[int | None, take("--limit", "At most so many, the newest; 0 is all.", "NUMBER", min=0)]
All = Annotated[bool, take("--all", "Also what only passed.")]
OnlySessions = Annotated[list[str] | None, take("--session", "Only this session; may be repeated.", "SESSION")]


_MANY = 50
"""Sessions from which on a person at a terminal is told how far reading them is."""


def _tell_progress(count: int, whole: int) -> None:
    """Say on a terminal, on one line, how many sessions new to the index are read."""
    if whole < _MANY or not sys.stderr.isatty():
        return
    if count == whole - 1:
        typer.echo("\r\x1b[K", err=True, nl=False)
    elif count % 10 == 0:
        typer.echo(f"\rreading sessions new to the index: {count} of {whole}", err=True, nl=False)


@app.command("list")
@selecting.takes_selection(selecting.OF_SESSIONS)
def list_sessions(
    selection: Selection,
    session: OnlySessions = None,
    limit: Limit = None,
    csv: options.AsCsv = "",
    parquet: options.AsParquet = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """List the sessions of the log, newest first. What is said of a decision selects the sessions that hold one."""
    from foregate.cli.keeping_reports import format_missing
    from foregate.cli.listing import Forms, show_list
    from foregate.views.terminal.audit_lists import SESSIONS

    forms = Forms(csv, parquet, overwrite, as_json)
    with open_home_index(_tell_progress) as (log, index):
        wanted = selecting.select_sessions(selection, _find_names(log, session))
        options.print_problems(format_missing(log.find_missing()))
        found = index.list_sessions(wanted, limit=limit or 0)
        marks = {name: {"signed": about} for name, about in _read_sign_offs(log).items()}
        show_list(SESSIONS, ({**row.to_json(), **marks.get(row.session, {})} for row in found), forms)
        if not forms.are_for_people:
            return
        options.print_problems(f"session `{row.session}`: {row.problem}" for row in found if row.problem)
        if not found and not index.list_sessions(limit=1):
            typer.echo("there are no sessions yet; `foregate chat` begins one", err=True)
        elif not found:
            typer.echo("no session fits", err=True)


def _find_names(log: SqliteLog, sessions: list[str] | None) -> list[str]:
    """Return the names of the sessions an option names; none where it is left out."""
    from foregate.assembly.home import find_sessions

    return run_async(find_sessions(log, sessions)) if sessions else []


def _read_sign_offs(log: SqliteLog) -> dict[str, dict[str, Json]]:
    """Return which sessions are signed off; none, and why, where the review log cannot be believed."""
    from foregate.assembly.home import Home
    from foregate.tuning.sign_offs import read_sign_offs

    try:
        with Home.open_to_read().open_reviews() as kept:
            return run_async(read_sign_offs(log, kept))
    except LogError as error:
        options.print_problems([f"no session is shown as signed off: {error}"])
        return {}


@app.command("show")
@selecting.takes_selection(selecting.OF_ONE)
def show(
    session: options.SessionName,
    selection: Selection,
    everything: All = False,
    notes: Annotated[bool, take("--notes", "Show the replay notes instead of the decisions.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show the decision points of a session, one line each; without a filter also switches, the dialect and what the
    model was not sent, and only the number of those that passed.
    """
    from foregate.assembly.home import find_session

    filtered = any(value is not None for value in selection.values())
    with open_home_index(_tell_progress) as (log, index):
        name = run_async(find_session(log, session))
        if notes:
            _print_notes(log, name, as_json)
            return
        wanted = selecting.select_decisions(selection, [name], everything=everything or as_json or filtered)
        if as_json:
            options.print_json_rows(point.to_json() for point in _read_points(log, index, wanted, filtered=filtered))
            return
        _print_points(log, index, wanted, aside=not filtered)
        hidden = 0 if wanted.passed else index.count_decisions(wanted).passed
    if hidden:
        typer.echo(f"{hidden} more only passed; --all shows them")


def _print_points(log: SqliteLog, index: AuditIndex, wanted: DecisionFilter, *, aside: bool) -> None:
    """Print the decisions of one session in their order, with what stands beside them where `aside` says so."""
    from rich.console import Console

    from foregate.views.terminal.timeline import format_aside, format_decision

    console = Console(highlight=False, emoji=False, markup=False)
    width = console.width if console.is_terminal else 0
    (name,) = wanted.sessions
    asides = iter(index.list_asides(name) if aside else ())
    due = next(asides, 0)

    def print_asides(until: int) -> None:
        nonlocal due
        while due and due < until:
            for event in log.events(name, after=due - 1, until=due):
                for row in format_aside(event, width):
                    console.print(row, soft_wrap=True)
            due = next(asides, 0)

    for point in _read_points(log, index, wanted, filtered=True):
        print_asides(point.seq)
        console.print(format_decision(point, width), soft_wrap=True)
    print_asides(sys.maxsize)


def _read_points(
    log: SqliteLog, index: AuditIndex, wanted: DecisionFilter, *, filtered: bool
) -> Iterator[DecisionPoint]:
    """Yield the decisions of one session in their order, from its log; which ones, the index says."""
    from foregate.telemetry.queries.decisions import read_decisions

    (name,) = wanted.sessions
    if wanted.passed and not filtered:
        yield from read_decisions(log.events(name, kinds=("turn_judged",)))
        return
    found: dict[int, set[str]] = {}
    for row in index.find_decisions(wanted, limit=0):
        found.setdefault(row.seq, set()).add(row.gate)
    for seq in sorted(found):
        for point in read_decisions(log.events(name, after=seq - 1, until=seq)):
            if point.gate in found[seq]:
                yield point


def _print_notes(log: SqliteLog, name: str, as_json: bool) -> None:
    from foregate.schemas import strict_json
    from foregate.telemetry.queries.decisions import build_session_notes

    found = build_session_notes(log.events(name))
    if as_json:
        options.print_json_rows(map(strict_json.dump, found))
        return
    for note in found:
        options.print_text(f"{note.category:<18} {'blocking' if note.blocking else '':<8} {note.summary}")


@app.command("decisions")
@selecting.takes_selection(selecting.OF_DECISIONS)
def decisions(
    selection: Selection,
    session: OnlySessions = None,
    everything: All = False,
    limit: Limit = None,
    csv: options.AsCsv = "",
    parquet: options.AsParquet = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Find decisions in all sessions, newest first. What only passed needs --all, a code, a verdict or a severity. A
    terminal shows the first hundred; JSON and files hold all, or --limit.
    """
    from foregate.cli.listing import Forms, show_list
    from foregate.views.terminal.audit_lists import DECISIONS

    forms = Forms(csv, parquet, overwrite, as_json)
    with open_home_index(_tell_progress) as (log, index):
        wanted = selecting.select_decisions(selection, _find_names(log, session), everything=everything)
        if forms.are_for_people:
            limit = _SHOWN if limit is None else limit
        rows = (row.to_json() for row in islice(index.stream_decisions(wanted), limit or None))
        show_list(DECISIONS, rows, forms)
        if forms.are_for_people:
            _tell_more(index.count_decisions(wanted), wanted, limit or sys.maxsize)


def _tell_more(counted: DecisionCount, wanted: DecisionFilter, shown: int) -> None:
    """Say how many decisions are not shown, and how to see them."""
    whole = counted.notable + (counted.passed if wanted.passed else 0)
    left = f"{whole - shown} more; --limit shows them" if whole > shown else ""
    hidden = f"{counted.passed} more only passed; --all shows them" if counted.passed and not wanted.passed else ""
    for line in filter(None, (left, hidden) if whole or hidden else ("no decision fits",)):
        typer.echo(line)


@app.command("search")
@selecting.takes_selection({name: kind for name, kind in selecting.OF_SESSIONS.items() if name != "text"})
def search(
    words: Annotated[
        list[str], typer.Argument(metavar="WORDS", help="Words, or phrases in quotes; `*` at an end goes on.")
    ],
    selection: Selection,
    session: OnlySessions = None,
    limit: Limit = None,
    csv: options.AsCsv = "",
    parquet: options.AsParquet = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Find texts that hold all these words: requests, answers, calls, results, replies and decisions. Decision filters
    select the sessions that hold one.
    """
    from foregate.cli.listing import Forms, show_list
    from foregate.telemetry.queries.texts import find_excerpt
    from foregate.views.terminal.audit_lists import PASSAGES

    forms = Forms(csv, parquet, overwrite, as_json)
    with open_home_index(_tell_progress) as (log, index):
        wanted = selecting.select_sessions(selection, _find_names(log, session))
        most = 20 if limit is None else limit
        found = index.search(words, wanted, limit=most + 1 if most else 0)
        width = options.measure_terminal()
        around = max(8, (width - 44) // 3) if width and not as_json else 60
        shown = [
            (passage, find_excerpt(event, passage.what, words, around))
            for passage in (found[:most] if most else found)
            for event in log.events(passage.session, after=passage.seq - 1, until=passage.seq)
        ]
        cut = index.count_cut_texts()
    show_list(PASSAGES, (passage.to_json(excerpt) for passage, excerpt in shown), forms)
    if not forms.are_for_people:
        return
    more = "there are more; --limit shows them" if most and len(found) > most else ""
    lost = f"of {cut} very long texts only the beginning was searched" if cut else ""
    for line in filter(None, ("" if shown else "found nowhere", more, lost)):
        typer.echo(line, err=True)


@app.command("stats")
@selecting.takes_selection(selecting.OF_DECISIONS)
def stats(selection: Selection, sessions: options.SessionNames = None, as_json: options.AsJson = False) -> None:
    """Count how often gates were asked, fired and were overridden, what advice cost, who said yes, and which gate, rule
    and key made the prompts. Filters select decisions and their turns; for prompts, sessions and times.
    """
    from foregate.cli.reports import format_prompts, format_statistics
    from foregate.schemas.strict_json import as_object
    from foregate.telemetry.queries.statistics import count_prompts, count_selection

    with open_home_index(_tell_progress) as (log, index):
        wanted = selecting.select_decisions(selection, _find_names(log, sessions))
        found, prompts = count_selection(index, wanted), count_prompts(index, wanted)
    if as_json:
        options.print_json({**as_object(found.to_json()), "prompts": [row.to_json() for row in prompts]})
        return
    for line in (*format_statistics(found), *format_prompts(prompts)):
        typer.echo(line)


@app.command("diff")
def diff(
    a: Annotated[str, typer.Argument(metavar="SESSION", help="A session's name, its beginning, or `last`.")],
    b: Annotated[str, typer.Argument(metavar="SESSION", help="The session to compare it with.")],
    as_json: options.AsJson = False,
) -> None:
    """Show two sessions side by side: tasks, shared calls, the first call judged differently, differing policy keys,
    and results.
    """
    from foregate.assembly.home import find_session, open_home_log
    from foregate.cli.diff_report import format_diff
    from foregate.tuning.session_diff import compare_sessions

    with open_home_log() as log:
        found = compare_sessions(log, *(run_async(find_session(log, name)) for name in (a, b)))
    if as_json:
        options.print_json(found.to_json())
        return
    for line in format_diff(found, options.measure_terminal() or 100):
        typer.echo(line)
