"""`foregate doctor`: what this machine and this folder let Foregate do, and what to do where something is missing."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from foregate.cli import options
from foregate.schemas.errors import ForegateError, UsageError, WorkspaceError
from foregate.schemas.version import __version__
from foregate.views.terminal.exit_codes import COMPLETED, STATUS, run_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from foregate.agent.sandbox.probe import Probe
    from foregate.agent.workspace.workspace import Workspace
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.policy import Policy


_LONG = 100_000
"""Tokens of a long conversation where the policy sets no bound."""


class MachineFinding(TypedDict):
    """One thing that was looked at: what it is, how it stands, why, and what to do about it ("" for nothing)."""

    name: str
    state: str
    why: str
    cure: str


def doctor(
    workspace: options.WorkspaceFolder = Path(),
    policy: options.PolicyFile = None,
    model: Annotated[
        bool, options.take("--model", "Try out the model's endpoint instead: at most four requests.")
    ] = False,
    long: Annotated[
        bool, options.take("--long", "With --model: also a conversation as long as the policy lets one be.")
    ] = False,
    fresh: Annotated[
        bool, options.take("--fresh", "With --model: first drop what was learnt of the endpoint.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Look at what this machine lets Foregate do in a workspace: sandboxes, git, the log, the model."""
    if (long or fresh) and not model:
        raise UsageError("`--long` and `--fresh` are about a model's endpoint; say `--model` too")
    if model:
        found, code = run_async(try_model(workspace, policy, long=long, fresh=fresh))
    else:
        found, code = examine(workspace, policy), COMPLETED
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        raise typer.Exit(code)
    from foregate.views.terminal.layout import fold_text

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for one in found:
        typer.echo(f"{one['name']}: {one['state']}")
        for word in filter(None, (one["why"], one["cure"] and f"to change it: {one['cure']}")):
            for piece in fold_text(word, max(8, width - 2)) if width else (word,):
                typer.echo(f"  {piece}")
    raise typer.Exit(code)


async def try_model(
    workspace: Path, policy: str | None, *, long: bool, fresh: bool
) -> tuple[list[MachineFinding], int]:
    """Return what an endpoint does and needs, and the exit code; raise a ForegateError without an endpoint."""
    from foregate.agent.models.openai.model import OpenAIModel
    from foregate.assembly.choices import choose_configuration, choose_model, choose_policy
    from foregate.assembly.model_check import ModelCheck
    from foregate.assembly.model_roles import price_model
    from foregate.assembly.setting import SessionOptions

    setting = SessionOptions(workspace=workspace, policy=policy, on_retry=lambda said: typer.echo(said, err=True))
    model, notes = choose_model(setting)
    if not isinstance(model, OpenAIModel):
        raise UsageError("no endpoint is named; set OPENAI_BASE_URL, and OPENAI_API_KEY where it wants a key")
    configuration = choose_configuration(setting)[0]
    price_model(model, configuration)
    try:
        name = await model.resolve()
        dropped = model.forget() if fresh else False
        check = ModelCheck(model)
        tokens = choose_policy(setting, workspace.resolve())[1].context.max_tokens or _LONG
        tried = await check.run(tokens if long else 0)
        learnt = [said for said in model.list_learnt().values() if said]
        room = model.room
    finally:
        await model.close()
    known = "; ".join(learnt)
    used, currency = check.usage, configuration.prices.currency
    spent = f"{used.input_tokens} tokens in, {used.output_tokens} out"
    spent += f"; {used.cost / 1_000_000:.4f} {currency}".rstrip() if used.cost else ""
    cure = "`foregate doctor --model --fresh` tries anew" if known or room else ""
    kept = f"conversations are kept within {room} tokens" if room else ""
    return [
        MachineFinding(name="model", state=f"{name} at {model.url}", why="; ".join(notes), cure=""),
        *(MachineFinding(name=one.name, state=one.state, why=one.why, cure=one.cure) for one in tried),
        MachineFinding(
            name="learnt",
            state="something" if known or kept else "dropped" if dropped else "nothing",
            why="; ".join(filter(None, (known, kept))),
            cure=cure,
        ),
        MachineFinding(name="used", state=spent, why=f"requests and their simpler forms: {check.requests}", cure=""),
    ], COMPLETED if tried[0].state == "works" else STATUS["failed"]


_READING = {
    "full": "commands that only read see the workspace read-only, no network, no home and no secrets",
    "limited": "commands that only read see no more than in `full` but names, change nothing and reach nobody",
    "none": "commands that only read run as you do, from a short list",
    "failed": "no command runs",
}
_CHANGING = {
    "full": "commands that change something work on a copy of the workspace, and what they change is judged",
    "limited": "commands that change something work in the workspace, and what they change is taken out and judged",
    "none": "commands that change something ask, and run as you do",
    "failed": "no command runs",
}
_SERVERS = {
    "full": "`confine: read` holds one as it does such a command, `confine: work` lets it write to the workspace",
    "limited": "one with `confine` is not started, since that takes the tier `full`",
    "none": "one with `confine` is not started",
    "failed": "one with `confine` is not started",
}
"""What each tier of confinement means for commands that read, for those that change something, and for servers."""


def examine(workspace: Path, policy: str | None) -> list[MachineFinding]:
    """Return what was found; raise a ForegateError for a workspace or a policy that cannot be used."""
    from foregate.agent.workspace.confinement import find_tier
    from foregate.agent.workspace.local import LocalWorkspace
    from foregate.agent.workspace.work_sandbox import find_work_tier
    from foregate.assembly.choices import choose_policy
    from foregate.assembly.home import Home
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.source.shipped import FOLDER, find_default

    setting = SessionOptions(workspace=workspace, policy=policy)
    space = LocalWorkspace(workspace, Home.path() / "sandboxes")
    try:
        _, chosen = choose_policy(setting, space.root)
        (tier, reason, cure), work = _try_sandbox(find_tier, space, chosen), _try_sandbox(find_work_tier, space, chosen)
    finally:
        space.close()
    home, compiled = Home.path(), find_default(FOLDER) is not None
    git = shutil.which("git")
    return [
        MachineFinding(name="foregate", state=__version__, why=f"Python {platform.python_version()}", cure=""),
        MachineFinding(
            name="sandbox",
            state=tier,
            why=", so ".join(filter(None, (reason, _READING[tier]))),
            cure=cure,
        ),
        MachineFinding(
            name="work",
            state=work[0],
            why=", so ".join(filter(None, (work[1], _CHANGING[work[0]]))),
            cure=work[2] if work[2] != cure else "",
        ),
        MachineFinding(
            name="mcp servers",
            state="can be confined" if tier == "full" else "cannot be confined",
            why=_SERVERS[tier],
            cure="",
        ),
        MachineFinding(
            name="default policy",
            state="compiled" if compiled else "not compiled",
            why=""
            if compiled
            else "its compiled form was made from another default.yaml, so each start parses the file",
            cure="" if compiled else "run `make docs` where you changed default.yaml, else install Foregate again",
        ),
        MachineFinding(name="git", state=git or "missing", why="", cure="" if git else "install git for the git tools"),
        MachineFinding(
            name="log", state=str(home), why="" if is_writable(home) else "it cannot be written to", cure=""
        ),
        check_snapshots(home / "events.db"),
        examine_model(setting),
    ]


def examine_model(setting: SessionOptions) -> MachineFinding:
    """Return which model sessions would have, and where; the endpoint itself is not asked."""
    from foregate.agent.models.openai.model import OpenAIModel
    from foregate.assembly.choices import choose_model

    state, why, cure = "rehearsal", "", ""
    try:
        model, notes = choose_model(setting)
    except ForegateError as error:
        why, _, cure = str(error).partition("; ")
        return MachineFinding(name="model", state="none", why=why, cure=cure)
    if isinstance(model, OpenAIModel):
        state = model.url
    elif notes:
        why = "no endpoint is named, so that only what the rehearsal model understands works"
        cure = "set OPENAI_BASE_URL to the address of an endpoint, and OPENAI_API_KEY to its key where it wants one"
    return MachineFinding(name="model", state=state, why=why, cure=cure)


def _try_sandbox(
    find: Callable[[Workspace, Policy], Probe], workspace: Workspace, policy: Policy
) -> tuple[str, str, str]:
    """Return the tier that was found out, why, and what to do about it; `failed` where no command is let run."""
    from foregate.agent.sandbox.probe import explain
    from foregate.agent.sandbox.starter import SandboxFailed

    try:
        found = find(workspace, policy)
    except SandboxFailed as failed:
        explained = explain(failed.failure)
        return "failed", explained["reason"], explained["cure"]
    except WorkspaceError as error:
        return "failed", str(error), ""
    return found["tier"], found["reason"], found["cure"]


def check_snapshots(log: Path) -> MachineFinding:
    """Return whether a snapshot of each long session could be kept, so that resuming it need not read all of it."""
    from contextlib import closing

    from foregate.cli.keeping_reports import format_unkept
    from foregate.schemas.errors import LogError
    from foregate.telemetry.log import sqlite_file
    from foregate.telemetry.log.snapshots import read_unkept

    if not log.exists():
        return MachineFinding(name="snapshots", state="none yet", why="", cure="")
    try:
        with sqlite_file.explain_errors("read", log), closing(sqlite_file.open_reader(log)) as reader:
            unkept = read_unkept(reader)
    except LogError as error:
        return MachineFinding(name="snapshots", state="unknown", why=str(error), cure="")
    if not unkept:
        return MachineFinding(name="snapshots", state="kept", why="", cure="")
    why = "; ".join((*format_unkept(unkept), "resuming reads all events since the last snapshot"))
    return MachineFinding(name="snapshots", state="not kept", why=why, cure="resume the session, which tries again")


def is_writable(folder: Path) -> bool:
    """Whether a folder can be written to, or be made."""
    there = next(one for one in (folder, *folder.parents) if one.exists())
    return os.access(there, os.W_OK | os.X_OK)
