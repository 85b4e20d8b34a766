"""`foregate log`: what the log takes, and keeping it small, safe and no longer than it should be."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.options import take
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import NOT_VERIFIED, run_async

if TYPE_CHECKING:
    from foregate.assembly.home import Home
    from foregate.telemetry.log.temporary_file import FileBlobs
    from foregate.telemetry.queries.backup import Backup
    from foregate.telemetry.queries.erase import Erased
    from foregate.telemetry.queries.log_place import LogPlace
    from foregate.telemetry.queries.used_blobs import Compaction

app = options.build_group(options.HomeGroup)
Yes = Annotated[bool, take("--yes", "Do not ask.")]
Target = Annotated[Path, typer.Argument(metavar="FOLDER", help="A new folder.")]


@app.command("stats")
def stats(as_json: options.AsJson = False) -> None:
    """Count what the log holds: sessions, events by kind, stored bytes, and what `compact` would free."""
    from foregate.assembly.home import Home
    from foregate.cli.keeping_reports import format_statistics
    from foregate.schemas import strict_json
    from foregate.telemetry.queries.log_statistics import count_log

    found = count_log(*_find_place(Home.open_to_read()))
    if as_json:
        options.print_json(strict_json.dump(found) | {"freed": found.freed})
        return
    for line in format_statistics(found):
        typer.echo(line)


@app.command("compact")
def compact(as_json: options.AsJson = False) -> None:
    """Remove stored bytes that nothing names, and give free room in the file back to the disk."""
    from foregate.schemas import strict_json
    from foregate.telemetry.queries.used_blobs import compact_log

    done = compact_log(*_open_place())
    if as_json:
        options.print_json(strict_json.dump(done) | {"freed": done.freed})
        return
    _print_compaction(done)


@app.command("backup")
def backup(target: Target, as_json: options.AsJson = False) -> None:
    """Copy the whole log with all that belongs to it, while sessions run, and verify the copy."""
    from foregate.assembly.home import Home
    from foregate.telemetry.queries.backup import back_up

    _print_backup(back_up(*_find_place(Home.open_to_read()), target.absolute()), as_json)


@app.command("copy")
def copy(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION", help="Names, beginnings, or `last`.")],
    target: Annotated[Path, take("--to", "A new folder.", "FOLDER")],
    as_json: options.AsJson = False,
) -> None:
    """Copy sessions, with the tasks they delegated and the sessions they continue, to a new folder."""
    from foregate.assembly.home import Home
    from foregate.telemetry.queries.backup import copy_sessions

    home = Home.open_to_read()
    _print_backup(copy_sessions(*_find_place(home), _find_families(home, sessions), target.absolute()), as_json)


@app.command("erase")
def erase(
    sessions: Annotated[list[str], typer.Argument(metavar="SESSION", help="Names, beginnings, or `last`.")],
    kinds: Annotated[list[str] | None, take("--kind", "Only events of this kind; may be repeated.", "KIND")] = None,
    why: Annotated[str, take("--why", "The reason, for whoever reads the log later.", "TEXT")] = "",
    yes: Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Erase what sessions say, for good: their hashes stay as proof, what they stored goes with them."""
    from foregate.assembly.home import Home
    from foregate.telemetry.queries.erase import check_erasable

    home = Home.open()
    place, store = _find_place(home)
    names = _find_families(home, sessions)
    events = check_erasable(place, names, kinds or ())
    if not yes:
        options.print_text(f"erases {events} events of {', '.join(names)} for good; their hashes stay")
        if not _confirm("erase them?"):
            typer.echo("nothing was erased", err=True)
            return
    _print_erased(_erase(place, store, names, kinds or [], why), as_json)


@app.command("retain")
def retain(
    older_than: Annotated[str, take("--older-than", "Erase what ended longer ago, such as 90d or 52w.", "AGE")] = "",
    larger_than: Annotated[str, take("--larger-than", "Erase until the log takes no more, such as 2GB.", "SIZE")] = "",
    dry_run: Annotated[bool, take("--dry-run", "Only show what would go.")] = False,
    yes: Yes = False,
    as_json: options.AsJson = False,
) -> None:
    """Erase ended sessions, oldest first, that are too old or too much."""
    from foregate.assembly.home import Home
    from foregate.cli.keeping_reports import format_retention
    from foregate.schemas import strict_json
    from foregate.telemetry.queries.erase import skip_unerasable
    from foregate.telemetry.queries.retain import choose_expired, parse_age, parse_size

    if not (older_than or larger_than):
        raise UsageError("say what may go: --older-than 90d, --larger-than 2GB, or both")
    age, size = parse_age(older_than) if older_than else None, parse_size(larger_than) if larger_than else None
    home = Home.open_to_read() if dry_run else Home.open()
    place, store = _find_place(home)
    found = choose_expired(place, store, age=age, size=size)
    if dry_run and as_json:
        options.print_json(strict_json.dump(found))
        return
    if dry_run or not as_json:
        for line in format_retention(found):
            options.print_text(line)
    if dry_run:
        return
    names, problems = skip_unerasable(place, [one.session for one in found.expired])
    options.print_problems(problems)
    if not names and not as_json:
        return
    if names and not yes and not _confirm("erase them for good?"):
        typer.echo("nothing was erased", err=True)
        return
    reasons = [f"older than {older_than}" if older_than else "", f"larger than {larger_than}" if larger_than else ""]
    _print_erased(_erase(place, store, names, [], f"retention: {', '.join(filter(None, reasons))}"), as_json)


def _find_place(home: Home) -> tuple[LogPlace, FileBlobs]:
    """Return where the log of a home lies, and its stored bytes; an older log is brought up unless it may only be read.

    Raises LogError for a file that is no log of ours.
    """
    from foregate.telemetry.log.temporary_file import FileBlobs
    from foregate.telemetry.queries.log_place import LogPlace

    home.open_log().close()
    own = (home.memory, home.pins, home.declarations, home.permissions)
    return LogPlace(home.events, home.blobs, own, home.reviews), FileBlobs(home.blobs, read_only=home.read_only)


def _open_place() -> tuple[LogPlace, FileBlobs]:
    from foregate.assembly.home import Home

    return _find_place(Home.open())


def _find_families(home: Home, wanted: list[str]) -> list[str]:
    """Return the sessions named, each with the tasks it delegated and the sessions that continue it."""
    from contextlib import closing

    from foregate.assembly.home import find_sessions
    from foregate.telemetry.queries.log_place import find_families

    with closing(home.open_log()) as log:
        names = run_async(find_sessions(log, wanted))
        return find_families(names, run_async(log.sessions()))


def _erase(place: LogPlace, store: FileBlobs, names: list[str], kinds: list[str], why: str) -> Erased:
    from foregate.agent.session.session_log import utc_now
    from foregate.assembly.identity import find_identity
    from foregate.telemetry.queries.erase import erase_sessions

    me = find_identity()
    by = f"{me.user}@{me.host}"
    return run_async(erase_sessions(place, store, names, kinds=kinds, at=utc_now(), by=by, why=why))


def _confirm(question: str) -> bool:
    if not sys.stdin.isatty():
        raise UsageError("nobody can be asked here; look at it with --dry-run or `audit show`, then give --yes")
    return typer.confirm(question)


def _print_compaction(done: Compaction) -> None:
    from foregate.cli.keeping_reports import format_compaction

    for line in format_compaction(done):
        options.print_text(line)


def _print_erased(done: Erased, as_json: bool) -> None:
    from foregate.cli.keeping_reports import format_erased
    from foregate.schemas import strict_json

    if as_json:
        options.print_json(strict_json.dump(done))
        return
    for line in format_erased(done):
        options.print_text(line)


def _print_backup(done: Backup, as_json: bool) -> None:
    from foregate.cli.keeping_reports import format_backup
    from foregate.schemas import strict_json

    if as_json:
        options.print_json(strict_json.dump(done))
    else:
        for line in format_backup(done):
            options.print_text(line)
    options.print_problems(f"session `{session}`: {why}" for session, why in done.unverified)
    options.print_problems(f"the stored bytes `{name}` were changed, and are left out" for name in done.damaged)
    if not done.is_sound:
        raise typer.Exit(NOT_VERIFIED)
