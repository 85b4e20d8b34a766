"""`foregate trajectories`: sessions as data to learn from, and such data read back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from foregate.cli.commands import options

if TYPE_CHECKING:
    from foregate.schemas.strict_json import Json
    from foregate.telemetry.export.export import Export, Family, Wanted
    from foregate.telemetry.export.restore import Restored

app = typer.Typer(
    help="Export sessions as data to learn from, or read an export back.", no_args_is_help=True, rich_markup_mode=None
)


@app.callback()
def about() -> None:
    """Export sessions as data to learn from, or read an export back."""


@app.command("export", short_help="Export sessions as ATIF, SAO or OpenAI fine-tuning lines.")
def export(
    sessions: options.SessionNames = None,
    form: Annotated[str, typer.Option("--format", metavar="atif|sao|openai", help="What each line is.")] = "atif",
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="WHEN", help="Sessions with anything since a date, time or age (`7d`, `12h`)."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write a new file instead of standard output.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace FILE where it is there already.")] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="With `openai`: preference pairs.")] = False,
    reward: Annotated[
        str, typer.Option("--reward", metavar="MODULE:FUNCTION", help="A function that says what a session is worth.")
    ] = "",
    content: Annotated[
        str, typer.Option("--content", metavar="on|off", help="`off` leaves out all that anybody said.")
    ] = "on",
    check: Annotated[bool, typer.Option("--check", help="Check ATIF by its published models.")] = False,
    policy: options.PolicyFile = None,
    workspace: options.WorkspaceFolder = Path(),
    as_json: options.AsJson = False,
) -> None:
    """Export sessions, one JSON object a line; what the policy in force calls sensitive is masked."""
    from foregate.assembly.home import Home, find_session
    from foregate.cli.commands.new_file import new_file
    from foregate.cli.commands.since import moment
    from foregate.cli.terminal.exit_codes import ERROR, NOT_VERIFIED
    from foregate.cli.terminal.waiting import wait
    from foregate.telemetry.export.export import Export, Family

    moment_wanted = moment(since) if since is not None else None
    wanted = _wanted(form, pairs, content, reward, check, policy, workspace)
    home = Home.open()
    log = home.log()
    try:
        named = [wait(find_session(log, name)) for name in sessions or ()]
        family = Family(wait(log.sessions()), named)
        if moment_wanted is not None:
            family.since(log, moment_wanted)
        task = Export(log, home.store(), wanted)
        with nullcontext() if output is None else new_file(output, replacing=overwrite) as file:
            _write(task, family, file)
    finally:
        log.close()
    _say(task, output, as_json)
    if task.tally.skipped:
        raise typer.Exit(NOT_VERIFIED if task.tally.tampered else ERROR)


@app.command("import", short_help="Read an ATIF export back into turns.")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export --format atif` wrote.")],
    turns: Annotated[bool, typer.Option("--turns", help="Print each judged turn with its judgement.")] = False,
    events: Annotated[bool, typer.Option("--events", help="Print each event.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Read an export back: its events, and whether they are those of the log. Nothing is added to any log.

    Exit code 8 where something is not as it was recorded: masked at the export, changed since, or cut.
    """
    from foregate.cli.terminal.exit_codes import NOT_VERIFIED
    from foregate.cli.terminal.scripting import event_line, one_line
    from foregate.cli.terminal.visible import visible
    from foregate.schemas import codec
    from foregate.schemas.turn_record import export_turn

    proven = True
    for session in _restored(file):
        proven = proven and session.same
        if events:
            for event in session.events:
                typer.echo(event_line(event))
        elif turns:
            for turn in session.turns():
                told: dict[str, Json] = {"session": session.session, "seq": turn.seq, "time": turn.time}
                told |= {"turn": export_turn(turn.turn), "judgement": codec.dump(turn.judgement)}
                typer.echo(one_line(told))
        else:
            count = _turns(session)
            typer.echo(one_line(_told(session, count)) if as_json else visible(_sentence(session, count)))
    if not proven:
        raise typer.Exit(NOT_VERIFIED)


def _wanted(
    form: str, pairs: bool, content: str, reward: str, check: bool, policy: str | None, workspace: Path
) -> Wanted:
    """Return how to export; raise UsageError for options that do not go together."""
    from foregate.agent.workspace.plugin_loader import function_of
    from foregate.assembly.open import choose_policy
    from foregate.assembly.own_secrets import own_secrets
    from foregate.assembly.setting import Setting
    from foregate.cli.commands.policy import existing
    from foregate.schemas.errors import UsageError
    from foregate.telemetry.export.export import FORMATS, Wanted

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
    _, in_force = choose_policy(Setting(workspace=workspace, policy=policy), existing(workspace))
    return Wanted(
        format=known,
        pairs=pairs,
        content=content == "on",
        patterns=(*own_secrets(os.environ, in_force.sensitive), *in_force.sensitive.patterns),
        reward=function_of(reward, "a trajectory") if reward else None,
        check=check,
    )


def _write(task: Export, family: Family, file: TextIO | None) -> None:
    from foregate.cli.terminal.scripting import one_line

    for line in task.lines(family):
        if file is None:
            typer.echo(one_line(line))
        else:
            file.write(f"{one_line(line)}\n")


def _say(task: Export, output: Path | None, as_json: bool) -> None:
    """Print what was exported: on standard error where standard output is the export itself."""
    from dataclasses import asdict

    from foregate.cli.commands.what_if import many
    from foregate.cli.terminal.scripting import one_line
    from foregate.cli.terminal.visible import visible

    tally, aside = task.tally, output is None
    for name, why in tally.skipped.items():
        typer.echo(f"foregate: {visible(name)} was not exported: {visible(why)}", err=True)
    if as_json:
        told = {name: value for name, value in asdict(tally).items() if name != "tampered"}
        typer.echo(one_line({**told, "output": None if output is None else str(output)}), err=aside)
        return
    parts = [
        many(tally.sessions, "session"),
        *([f"{tally.children} of delegated tasks"] if tally.children else []),
        many(tally.responses, "response"),
        f"{tally.held} held or denied",
        many(tally.pairs, "preference pair"),
        many(tally.lines, "line"),
        *([f"{many(tally.masked, 'event')} masked"] if tally.masked else []),
    ]
    typer.echo(f"{', '.join(parts)}{'' if output is None else f': {visible(str(output))}'}", err=aside)


@contextmanager
def _opened(file: Path) -> Iterator[TextIO]:
    from foregate.schemas.errors import UsageError

    try:
        with file.open(encoding="utf-8") as opened:
            yield opened
    except OSError as error:
        raise UsageError(f"`{file}` cannot be read ({error.strerror}); check the path") from None
    except UnicodeDecodeError:
        raise UsageError(f"`{file}` is no text; name what `foregate trajectories export` wrote") from None


def _restored(file: Path) -> Iterator[Restored]:
    from foregate.schemas.errors import UsageError
    from foregate.telemetry.export.restore import MAX_BYTES, read, restored

    with _opened(file) as lines:
        for number, line in enumerate(iter(lambda: lines.readline(MAX_BYTES), ""), start=1):
            if line.strip():
                try:
                    yield from restored(read(line))
                except UsageError as error:
                    raise UsageError(f"line {number} of `{file}`: {error}") from None


def _told(session: Restored, turns: int) -> dict[str, Json]:
    return {
        "session": session.session,
        "events": len(session.events),
        "turns": turns,
        "altered": list(session.altered),
        "whole": session.whole,
        "same": session.same,
    }


def _turns(session: Restored) -> int:
    """Return how many turns can be read; of a session that is not as it was recorded there may be none."""
    from foregate.schemas.errors import UsageError

    try:
        return sum(1 for _ in session.turns())
    except UsageError:
        if session.same:
            raise
        return 0


def _sentence(session: Restored, turns: int) -> str:
    altered = session.altered
    if session.same:
        end = "as recorded"
    elif altered:
        end = f"not as recorded: {', '.join(map(str, altered[:10]))}{' ...' if altered[10:] else ''}"
    else:
        end = "not whole: events are missing"
    return f"{session.session}: {len(session.events)} events, {turns} judged turns, {end}"
