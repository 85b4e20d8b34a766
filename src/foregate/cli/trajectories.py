"""`foregate trajectories`: sessions as data to learn from, and such data read back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.listing import open_new_file
from foregate.cli.options import take
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import ERROR, NOT_VERIFIED, run_async

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.export.export import ExportOptions, ExportTally
    from foregate.telemetry.export.restore import RestoredSession
    from foregate.telemetry.log.masking import Hidden

app = options.build_group()


@app.command("export", short_help="Export sessions as ATIF, SAO or OpenAI fine-tuning lines.")
def export(
    sessions: options.SessionNames = None,
    form: Annotated[str, take("--format", "What each line is.", "atif|sao|openai")] = "atif",
    since: Annotated[
        str | None, take("--since", "Sessions with anything since a date, time or age (`7d`, `12h`).", "WHEN")
    ] = None,
    output: Annotated[Path | None, take("--output", "Write a new file instead of standard output.", "FILE")] = None,
    overwrite: Annotated[bool, take("--overwrite", "Replace FILE where it is there already.")] = False,
    pairs: Annotated[bool, take("--pairs", "With `openai`: preference pairs.")] = False,
    reward: Annotated[str, take("--reward", "A function that says what a session is worth.", "MODULE:FUNCTION")] = "",
    content: Annotated[str, take("--content", "`off` leaves out all that anybody said.", "on|off")] = "on",
    check: Annotated[bool, take("--check", "Check ATIF by its published models.")] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Export sessions, one JSON object a line; what the policy in force calls sensitive is masked."""
    from foregate.assembly.home import Home, find_session
    from foregate.telemetry.export.export import Export, SessionFamily
    from foregate.views.terminal.scripting import to_json_line

    moment_wanted = parse_moment(since) if since is not None else None
    wanted = _build_options(form, pairs, content, reward, check, policy, workspace)
    home = Home.open()
    with closing(home.open_log()) as log:
        family = SessionFamily(
            run_async(log.sessions()), [run_async(find_session(log, name)) for name in sessions or ()]
        )
        if moment_wanted is not None:
            family.keep_since(log, moment_wanted)
        task = Export(log, home.open_blobs(), wanted)
        with nullcontext() if output is None else open_new_file(output, replacing=overwrite) as file:
            for line in map(to_json_line, task.export_family(family)):
                if file is None:
                    typer.echo(line)
                else:
                    file.write(f"{line}\n")
    _print_tally(task.tally, output, as_json)
    if task.tally.skipped:
        raise typer.Exit(NOT_VERIFIED if task.tally.tampered else ERROR)


@app.command("import", short_help="Read an ATIF export back into turns.")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export --format atif` wrote.")],
    turns: Annotated[bool, take("--turns", "Print each judged turn with its judgement.")] = False,
    events: Annotated[bool, take("--events", "Print each event.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Read an export back and compare its events with the log's. No log changes. Exit code 8 where something was
    masked, changed or cut.
    """
    from foregate.schemas import strict_json
    from foregate.schemas.turn import export_turn
    from foregate.views.terminal.scripting import format_event_line

    proven = True
    told: dict[str, Json]
    for session in _read_sessions(file):
        proven = proven and session.is_same
        if events:
            for event in session.events:
                typer.echo(format_event_line(event))
        elif turns:
            for turn in session.read_turns():
                told = {"session": session.session, "seq": turn.seq, "time": turn.time}
                told |= {"turn": export_turn(turn.turn), "judgement": strict_json.dump(turn.judgement)}
                options.print_json(told)
        elif as_json:
            told = {"session": session.session, "events": len(session.events), "turns": _count_turns(session)}
            told |= {"altered": list(session.altered), "whole": session.whole, "same": session.is_same}
            options.print_json(told)
        else:
            options.print_text(_describe_session(session))
    if not proven:
        raise typer.Exit(NOT_VERIFIED)


def _build_options(
    form: str, pairs: bool, content: str, reward: str, check: bool, policy: str | None, workspace: Path
) -> ExportOptions:
    """Return how to export; raise UsageError for options that do not go together."""
    from foregate.agent.workspace.user_files import load_function
    from foregate.telemetry.export.export import FORMATS, ExportOptions

    known = next((name for name in FORMATS if name == form), None)
    if known is None:
        raise UsageError(f"there is no format `{form}`; write `atif`, `sao` or `openai`")
    if content not in ("on", "off"):
        raise UsageError(f"`--content {content}` is neither `on` nor `off`")
    if pairs and known != "openai":
        raise UsageError("`--pairs` goes with `--format openai`; an ATIF file names its pairs under `extra`")
    if known == "openai" and content == "off":
        raise UsageError("an OpenAI example is made of texts; use `atif` or `sao` with `--content off`")
    if known == "openai" and reward:
        raise UsageError("an OpenAI example has no place for a reward; use `atif` or `sao`")
    if check and known != "atif":
        raise UsageError("`--check` goes with `--format atif`; for the others there is no published model")
    worth = load_function(reward, "a trajectory") if reward else None
    return ExportOptions(known, pairs, content == "on", find_hidden(policy, workspace), worth, check)


def find_hidden(policy: str | None, workspace: Path) -> Hidden:
    """Return what is masked in an export made in a folder that has to be there; see `assembly.hidden`."""
    from foregate.assembly import choices
    from foregate.cli.policy import require_folder

    return choices.find_hidden(require_folder(workspace), policy)


def _print_tally(tally: ExportTally, output: Path | None, as_json: bool) -> None:
    """Print what was exported: on standard error where standard output is the export itself."""
    from msgspec.structs import asdict

    from foregate.views.terminal.layout import pluralise

    options.print_problems(f"{name} was not exported: {why}" for name, why in tally.skipped.items())
    if as_json:
        told = {name: value for name, value in asdict(tally).items() if name != "tampered"}
        options.print_json({**told, "output": None if output is None else str(output)}, err=output is None)
        return
    said = pluralise(tally.sessions, "session")
    said += f", {tally.children} of delegated tasks" if tally.children else ""
    said += f", {pluralise(tally.responses, 'response')}, {tally.held} held or denied"
    said += f", {pluralise(tally.pairs, 'preference pair')}, {pluralise(tally.lines, 'line')}"
    said += f", {pluralise(tally.masked, 'event')} masked" if tally.masked else ""
    options.print_text(said if output is None else f"{said}: {output}", err=output is None)


def _read_sessions(file: Path) -> Iterator[RestoredSession]:
    from foregate.telemetry.export.restore import MAX_BYTES, parse_document, restore_sessions

    number = 0
    try:
        with file.open(encoding="utf-8") as lines:
            for line in iter(lambda: lines.readline(MAX_BYTES), ""):
                number += 1
                if line.strip():
                    yield from restore_sessions(parse_document(line))
    except UsageError as error:
        raise UsageError(f"line {number} of `{file}`: {error}") from None
    except OSError as error:
        raise UsageError(f"`{file}` cannot be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{file}` is no text; name what `foregate trajectories export` wrote") from None


def _count_turns(session: RestoredSession) -> int:
    """Return how many turns can be read; of a session that is not as it was recorded there may be none."""
    try:
        return sum(1 for _ in session.read_turns())
    except UsageError:
        if session.is_same:
            raise
        return 0


def _describe_session(session: RestoredSession) -> str:
    if session.is_same:
        end = "as recorded"
    elif altered := session.altered:
        end = f"not as recorded: {', '.join(map(str, altered[:10]))}{' ...' if altered[10:] else ''}"
    else:
        end = "not whole: events are missing"
    return f"{session.session}: {len(session.events)} events, {_count_turns(session)} judged turns, {end}"


_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_moment(text: str, now: datetime | None = None) -> datetime:
    """Return the moment: `2026-01-31`, `2026-01-31T08:00` (UTC unless it says otherwise), or `90m`, `12h`, `7d`, `2w`
    ago; raise UsageError for anything else."""
    try:
        if ago := re.fullmatch(r"([0-9]{1,6})([mhdw])", text):
            return (now or datetime.now(UTC)) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        found = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise UsageError(
            f"`{text[:60]}` is no moment; write a date (2026-01-31), a time (2026-01-31T08:00) or an age (7d, 12h)"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
