"""`foregate permissions`: what a person permits from now on in a workspace, at a sheet with `p` or by hand."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.agent.session.permissions import Permissions
    from foregate.assembly.home import Home
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.policy import Policy
    from foregate.schemas.permission import Permission
    from foregate.schemas.tool_spec import ToolSpec
    from foregate.tuning.suggestions import AskedCall, PermissionSuggestion

app = options.build_group()
_IDS = "Permissions by their ids, as `list` prints them."
_NAME = "A permission's id."
_ELSEWHERE = ("model", "config", "dialect", "runtime", "insecure_runtime")
"""Options that have nothing to do with which tools there are."""
_CALLS = 6
"""Recorded calls that a suggestion shows unless all are asked for."""

Name = Annotated[str, typer.Argument(metavar="PERMISSION", help=_NAME)]
Words = Annotated[str, options.take("--command", "The command's words.", "WORDS")]
Further = Annotated[bool, options.take("--further", "Leave further plain words open: names, no options or addresses.")]
Access = Annotated[list[str] | None, options.take("--access", "What it may reach, such as network:HOST.", "ACCESS")]
Beneath = Annotated[list[str] | None, options.take("--beneath", "Any file of this folder or beneath.", "FOLDER")]
Target = Annotated[list[str] | None, options.take("--target", "A thing, such as file:docs/a.md.", "KIND:NAME")]
Value = Annotated[list[str] | None, options.take("--value", "An argument with its value.", "ARGUMENT=TEXT")]
AtMost = Annotated[list[str] | None, options.take("--at-most", "An amount and no more than that.", "ARGUMENT=NUMBER")]
AnyValue = Annotated[list[str] | None, options.take("--any", "An argument, any value but outsiders'.", "ARGUMENT")]
Tier = Annotated[str, options.take("--tier", "What must hold the command: limited or full.", "TIER")]
Until = Annotated[str, options.take("--until", "When it ends, in UTC.", "DATE")]
Yes = Annotated[bool, options.take("--yes", "Keep it without asking.")]


@app.command("list")
def list_permissions(workspace: options.WorkspaceFolder = Path(), as_json: options.AsJson = False) -> None:
    """List what you permit in a workspace. It holds while its tool, its command and its rule stay as they were."""
    from foregate.schemas import strict_json
    from foregate.views.terminal.permission_rows import format_permission_line

    given = _read_permissions(workspace).list_given()
    if as_json:
        options.print_json_rows(map(strict_json.dump, given))
        return
    for one in given:
        options.print_text(format_permission_line(one))
    if not given:
        typer.echo("nothing is permitted here; answer a sheet with `p` to permit something", err=True)


@app.command("show")
def show(name: Name, workspace: options.WorkspaceFolder = Path(), as_json: options.AsJson = False) -> None:
    """Show a permission whole: what it covers, who gave it, when, and at which event."""
    from foregate.schemas import strict_json
    from foregate.views.terminal.permission_rows import format_permission

    found = _read_permissions(workspace).find(name)
    if as_json:
        options.print_json(strict_json.dump(found))
        return
    for label, said in format_permission(found).items():
        options.print_text(f"{label:<11} {said}")


@app.command("revoke")
def revoke(
    names: Annotated[list[str], typer.Argument(metavar="PERMISSION", help=_IDS)],
    workspace: options.WorkspaceFolder = Path(),
) -> None:
    """Take permissions away. Sessions that run ask again from their next response on."""
    for one in _read_permissions(workspace).revoke(names):
        options.print_text(f"revoked {one.id}: {one.words}")


@app.command("narrow")
def narrow(
    name: Name,
    command: Words = "",
    further: Further = False,
    access: Access = None,
    beneath: Beneath = None,
    target: Target = None,
    value: Value = None,
    at_most: AtMost = None,
    tier: Tier = "",
    until: Until = "",
    workspace: options.WorkspaceFolder = Path(),
    yes: Yes = False,
) -> None:
    """Make a permission cover less: say what binds it from now on; the rest stays."""
    from foregate.gates.support.written_permission import WrittenPermission, narrow_permission

    kept = _read_permissions(workspace)
    old = kept.find(name)
    written = WrittenPermission(
        command=command,
        further=further,
        access=access or (),
        beneath=beneath or (),
        targets=target or (),
        values=value or (),
        at_most=at_most or (),
        tier=tier,
        until=until,
    )
    new = narrow_permission(old, written)
    options.print_text(f"until now {old.words}")
    _keep(kept, new, yes, instead=old.id)


@app.command("add")
@options.opens_session(without=_ELSEWHERE)
async def add(
    setting: SessionOptions,
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool, as `foregate tools list` names it.")],
    command: Words = "",
    further: Further = False,
    folder: Annotated[str, options.take("--in", "The folder the command runs in.", "FOLDER")] = "",
    access: Access = None,
    beneath: Beneath = None,
    target: Target = None,
    value: Value = None,
    at_most: AtMost = None,
    any_value: AnyValue = None,
    rule: Annotated[list[str] | None, options.take("--rule", "A rule that asks, spared as well.", "RULE")] = None,
    tier: Tier = "",
    until: Until = "",
    yes: Yes = False,
) -> None:
    """Permit something by hand. It is checked, shown in words, and kept once you say so."""
    from foregate.gates.support.written_permission import WrittenPermission, write_permission

    written = WrittenPermission(
        command,
        further,
        folder,
        access or (),
        beneath or (),
        target or (),
        value or (),
        at_most or (),
        any_value or (),
        rule or (),
        tier,
        until,
    )
    root = Path(setting.workspace)
    spec, policy = await _find_tool(setting, tool)
    new = write_permission(spec, written, policy, lambda path: (root / path).is_file())
    _keep(_read_permissions(root), new, yes)


@app.command("suggest")
def suggest(
    workspace: options.WorkspaceFolder = Path(),
    least: Annotated[int, options.take("--least", "How often you must have said yes.", "N", min=1)] = 2,
    take: Annotated[int | None, options.take("--add", "Permit the suggestion of this number.", "N", min=1)] = None,
    every: Annotated[bool, options.take("--all", "Show all recorded calls.")] = False,
    as_json: options.AsJson = False,
    yes: Yes = False,
) -> None:
    """Suggest permissions from the log of this workspace, each with the recorded calls it would have let through."""
    from foregate.assembly.home import Home
    from foregate.tuning.suggestions import suggest_permissions

    kept = _read_permissions(workspace)
    good, bad = suggest_permissions(_read_asked(Home.open(), workspace), kept.list_given(), least)
    if take is not None:
        if take > len(good):
            raise UsageError(f"there is no suggestion {take}; there are {len(good)}")
        _keep(kept, good[take - 1].permission, yes)
    elif as_json:
        options.print_json_rows(one.to_json() for one in (*good, *bad))
    elif good or bad:
        _print_suggestions(good, bad, every)
    else:
        typer.echo(f"nobody was asked for the same {least} times or more here and always said yes", err=True)


def _print_suggestions(good: list[PermissionSuggestion], bad: list[PermissionSuggestion], every: bool) -> None:
    for number, one in enumerate(good, start=1):
        agreed = len(one.calls)
        options.print_text(f"{number}  {one.permission.words}")
        options.print_text(f"   asked {agreed} times, {agreed} times yes; it would have let through")
        _print_calls(one.calls, every)
    for one in bad:
        options.print_text(f"NOT suggested: {one.permission.words}")
        refused = len(one.refused)
        options.print_text(f"   it would have let through {refused} of {len(one.calls)} calls to which you said NO:")
        _print_calls(one.refused, every)
    if good:
        typer.echo("`foregate permissions suggest --add N` permits one of them", err=True)


def _print_calls(calls: list[AskedCall] | tuple[AskedCall, ...], every: bool) -> None:
    shown = calls if every else calls[:_CALLS]
    for call in shown:
        options.print_text(f"     {call.time[:16]}  {'yes' if call.agreed else 'NO '}  {call.words}  ({call.session})")
    if len(shown) < len(calls):
        options.print_text(f"     {len(calls) - len(shown)} more; --all shows them")


def _read_asked(home: Home, workspace: Path) -> list[AskedCall]:
    """Return the calls of a workspace that a person was asked about, from the log of a home."""
    from foregate.tuning.suggestions import read_asked_calls

    with closing(home.open_log()) as log:
        names = run_async(log.sessions())
        return list(read_asked_calls(log, home.open_blobs(), reversed(names), str(workspace.resolve())))


def _keep(kept: Permissions, new: Permission, yes: bool, instead: str = "") -> None:
    """Show a permission and keep it once somebody says so; raise UsageError where nobody can."""
    from foregate.agent.session.session_log import utc_now
    from foregate.views.terminal.permission_rows import format_permission

    options.print_text(f"permits   {new.words}")
    for label, said in format_permission(new).items():
        if label in ("until", "held", "tool", "spares"):
            options.print_text(f"{label:<9} {said}")
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("nobody can be asked here; look at it, and keep it with --yes")
        if not typer.confirm("permit this from now on?"):
            typer.echo("nothing was changed", err=True)
            return
    kept.add(new, at=utc_now(), instead=instead)
    options.print_text(f"kept as {new.id}")


async def _find_tool(setting: SessionOptions, name: str) -> tuple[ToolSpec, Policy]:
    """Return the tool of a name as a session would be offered it, with the policy in force there."""
    from foregate.cli.tools import open_session_tools

    async with open_session_tools(setting) as offer:
        known = {spec.name: spec for spec in offer.specs}
        if name not in known:
            raise UsageError(f"there is no tool `{name[:60]}`; `foregate tools list` names them")
        return known[name], offer.policy


def _read_permissions(workspace: Path) -> Permissions:
    """Return what is permitted in a workspace; raise UsageError for a file that permits nothing."""
    from foregate.assembly.home import Home

    found = Home.open().open_permissions(workspace)
    found.list_given()
    if found.problem:
        raise UsageError(found.problem)
    return found
