"""`foregate tools`: what the agent can call."""

from __future__ import annotations

from pathlib import Path

import typer

from foregate.cli import options

app = typer.Typer(help="The tools the agent is offered.", no_args_is_help=True, rich_markup_mode=None)

FLAGS = ("external_side_effect", "needs_approval", "high_impact_write", "idempotent", "reversible", "personal_memory")


@app.callback()
def about() -> None:
    """The tools the agent is offered."""


@app.command("list")
def list_tools(
    workspace: options.WorkspaceFolder = Path(), policy: options.PolicyFile = None, as_json: options.AsJson = False
) -> None:
    """List the tools a session is offered, with the strongest effect and the capabilities each declares."""
    from foregate.agent.child import DELEGATE, may_delegate
    from foregate.agent.workspace import Workspace
    from foregate.cli.scripting import one_line
    from foregate.cli.visible import visible
    from foregate.home import Home
    from foregate.opening import Setting, choose_policy, toolbox
    from foregate.schemas import codec

    space = Workspace(workspace)
    try:
        setting = Setting(workspace=workspace, policy=policy)
        _, in_force = choose_policy(setting, space.root)
        specs = [tool.spec for tool in toolbox(setting, space, in_force, Home(Home.path()).memory)]
    finally:
        space.close()
    if may_delegate(in_force):
        specs.append(DELEGATE)
    if as_json:
        typer.echo(one_line([codec.dump(spec) for spec in specs]))
        return
    for spec in specs:
        able = spec.capabilities
        flags = [flag for flag in FLAGS if able is not None and getattr(able, flag)] if able else ["undeclared"]
        typer.echo(f"{visible(spec.name):<18} {spec.effect.value:<12} {', '.join(flags)}")
