"""`foregate policy diff` and `lint`: what differs between two policies, and what in one does not do what it says."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli import options
from foregate.cli.options import take
from foregate.cli.policy import File, app, require_usable
from foregate.views.terminal.exit_codes import ERROR

if TYPE_CHECKING:
    from foregate.policy.policy import Policy
    from foregate.policy.source.layers import Layer
    from foregate.tuning.lint import Known

_SIDE = "A policy file, `default`, a shipped policy, or `session:NAME`."


@app.command("diff")
def diff(
    before: Annotated[str, typer.Argument(metavar="BEFORE", help=_SIDE)],
    after: Annotated[str, typer.Argument(metavar="AFTER", help="The other one.")],
    as_json: options.AsJson = False,
) -> None:
    """Say in words how two policies differ: what is stricter, what is looser, and what the keys do."""
    from foregate.policy.source.wording import describe_differences

    found = list(describe_differences(find_policy(before), find_policy(after)))
    if as_json:
        options.print_json([one.to_json() for one in found])
        return
    for one in found:
        does = f" ({one.does.rstrip('.')})" if one.does else ""
        options.print_text(f"{one.way or 'other':<9} {one.words}{does}")
    if not found:
        typer.echo("the two policies are the same")


def find_policy(named: str) -> Policy:
    """Return the policy a person means: a file, `default`, a shipped one, or that of a recorded session's end.

    Raises PolicyError, UsageError or LogError for what is no policy.
    """
    from foregate.policy.source.load import default_policy, load_policy

    if named == "default":
        return default_policy()
    if named.startswith("session:"):
        return read_session_policy(named.removeprefix("session:"))
    return load_policy(named)


def read_session_policy(name: str) -> Policy:
    """Return the policy that a recorded session was under at its end."""
    from foregate.assembly.home import find_session, open_home_log
    from foregate.policy.source.load import restore_policy
    from foregate.schemas.errors import LogError
    from foregate.schemas.event_body import PolicyChanged, SessionStarted
    from foregate.views.terminal.exit_codes import run_async

    with open_home_log() as log:
        session = run_async(find_session(log, name))
        events = log.events(session, kinds=("session_started", "policy_changed"))
        bodies = [event.body for event in events if isinstance(event.body, (SessionStarted, PolicyChanged))]
    held = [body.policy for body in bodies if body.policy is not None]
    if not held:
        raise LogError(f"session `{session}` does not say which policy it was under; name another")
    return restore_policy(dict(held[-1]))


@app.command("lint")
def lint(
    file: File,
    strict: Annotated[bool, take("--strict", "Exit with 1 where anything is found.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Find rules without effect, thresholds that tell nothing apart, gates that others rely on and that are off or in
    shadow, and reads that open a hole."""
    from foregate.tuning.lint import list_layer_remarks

    layer = require_usable(file)
    found = list_layer_remarks(layer, gather_known(layer))
    if as_json:
        options.print_json([{"key": key, "line": line, "remark": said} for key, line, said in found])
    else:
        for _, line, said in found:
            options.print_text(f"{layer.label}:{line}: {said}" if line else f"{layer.label}: {said}")
        if not found:
            options.print_text(f"{file}: nothing to remark")
    if strict and found:
        raise typer.Exit(ERROR)


def gather_known(layer: Layer) -> Known:
    """Return what is known beside a user's layer: the tools there are, and what the log tells of its rules."""
    from foregate.agent.tools.builtin import builtin_tools
    from foregate.agent.workspace.workspace import MemoryWorkspace
    from foregate.assembly.audit_index import open_home_index
    from foregate.assembly.home import Home, find_sessions
    from foregate.policy.source.load import layer_policy
    from foregate.telemetry.queries.filters import DecisionFilter
    from foregate.telemetry.queries.statistics import count_selection
    from foregate.tuning.lint import Known, list_own_rules
    from foregate.tuning.rule_trial import try_rules
    from foregate.views.terminal.exit_codes import run_async

    policy = layer_policy(layer).policy
    tools = [tool.spec for tool in builtin_tools(MemoryWorkspace({}), policy, memory=Path("memory"))]
    if not Home(Home.path()).events.exists():
        return Known(tools)
    with open_home_index() as (log, index):
        counted = count_selection(index, DecisionFilter(passed=True))
        own = [rule for rule in policy.rules.list if rule.id in list_own_rules(layer)]
        new = [rule for rule in own if rule.id not in counted.rules]
        trial = try_rules(log, run_async(find_sessions(log, ())), new, policy)
    others = trial.tools.keys() - {tool.name for tool in tools}
    tried = trial.describe()
    return Known(tools, others, dict(counted.rules), counted.sessions, tried)
