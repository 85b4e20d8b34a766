"""`foregate tools`: what the agent can call, and which tools of MCP servers are pinned."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from foregate.cli.commands import options
from foregate.cli.commands.options import opens_session
from foregate.cli.terminal.exit_codes import run_async

if TYPE_CHECKING:
    from foregate.agent.tools.mcp.mcp_tools import McpTools, ReviewedServer
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.policy import Policy
    from foregate.schemas.strict_json import Json
    from foregate.schemas.tool_spec import ToolSpec


def serve(
    ws: Annotated[
        str, typer.Option("--ws", metavar="HOST:PORT", help="Listen for agents that use --runtime.", show_default=False)
    ] = "",
    mcp: Annotated[bool, typer.Option("--mcp", help="Speak the Model Context Protocol on stdin and stdout.")] = False,
    workspace: options.WorkspaceFolder = Path(),
    policy: options.PolicyFile = None,
    cert: Annotated[
        Path | None, typer.Option("--cert", metavar="FILE", help="Certificate (PEM), for TLS.", show_default=False)
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", metavar="FILE", help="Its private key (PEM).", show_default=False)
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen beyond this machine without TLS all the same.")
    ] = False,
) -> None:
    """Let other agents use the tools in one folder; each call is judged here first, by this policy."""
    from foregate.assembly.open import REHEARSAL
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.errors import UsageError

    if bool(ws) == mcp:
        raise UsageError("say how to serve: either --ws HOST:PORT or --mcp")
    setting = SessionOptions(
        workspace=workspace, policy=policy, model=REHEARSAL, mode="direct", dialect="native", serving=True
    )
    if mcp:
        from foregate.assembly.serve import serve_mcp

        # what a shell starts with `&` has its interrupts ignored, and a server must end when it is told to
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run_async(serve_mcp(setting))
        return
    run_async(_serve_websocket(setting, ws, cert, key, insecure))


async def _serve_websocket(setting: object, ws: str, cert: Path | None, key: Path | None, insecure: bool) -> None:
    from foregate.agent.tools.remote.protocol import is_loopback
    from foregate.assembly.remote import TOKEN, create_token, read_token
    from foregate.assembly.serve import load_tls, parse_endpoint, serve_websocket
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.errors import UsageError

    assert isinstance(setting, SessionOptions)
    host, port = parse_endpoint(ws)
    tls = load_tls(cert, key)
    if tls is None and not insecure and not is_loopback(host):
        raise UsageError(f"`{host[:80]}` is not this machine alone; serve with --cert and --key, or say --insecure")
    given = read_token(os.environ)
    token = given or create_token()

    def print_ready(address: str) -> None:
        typer.echo(f"serving {address}")
        if not given:
            typer.echo(f"{TOKEN}={token}")
        sys.stdout.flush()

    await serve_websocket(setting, host, port, token, tls, print_ready)


app = typer.Typer(help="The tools the agent is offered.", no_args_is_help=True, rich_markup_mode=None)

_TALKING = ("model", "config", "dialect")
"""Options about a model, of which a list of tools needs none."""
_OTHERS = (*_TALKING, "runtime", "insecure_runtime", "tools")
"""Those, and options about tools that come from no MCP server."""
FLAGS = ("external_side_effect", "needs_approval", "high_impact_write", "idempotent", "reversible", "personal_memory")
ServerName = Annotated[str, typer.Argument(metavar="SERVER", help="An MCP server by its name.", show_default=False)]

app.command("serve", short_help="Let other agents use the tools.")(serve)


@app.callback()
def about() -> None:
    """The tools the agent is offered."""


@app.command("list")
@opens_session(without=_TALKING)
def list_tools(setting: SessionOptions, as_json: options.AsJson = False) -> None:
    """List the tools a session is offered, with effect, capabilities and source; MCP servers are started for it."""
    run_async(_print_tools(setting, as_json))


@app.command("pin")
@opens_session(without=_OTHERS)
def pin(
    setting: SessionOptions,
    server: ServerName,
    tool: Annotated[str, typer.Argument(metavar="[TOOL]", help="Only this tool of it.", show_default=False)] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Pin without asking, for scripts.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what an MCP server says of its tools now, and pin it: from then on they are offered, exactly so."""
    run_async(_pin_tools(setting, server, tool, yes, as_json))


@app.command("diff")
@opens_session(without=_OTHERS)
def diff(
    setting: SessionOptions,
    server: Annotated[
        str, typer.Argument(metavar="[SERVER]", help="An MCP server by its name; all without.", show_default=False)
    ] = "",
    as_json: options.AsJson = False,
) -> None:
    """Show how tools of MCP servers differ from what was pinned. The exit code is 1 where any does."""
    raise typer.Exit(run_async(_print_differences(setting, server, as_json)))


@dataclass(frozen=True, slots=True)
class SessionTools:
    """What a session would be offered under `policy`: tools of this process or of a runtime, and MCP servers, started.

    `notes` are sentences a person should read.
    """

    policy: Policy
    specs: Sequence[ToolSpec]
    servers: McpTools | None
    notes: Sequence[str] = ()


@asynccontextmanager
async def open_session_tools(setting: SessionOptions, only: str = "") -> AsyncIterator[SessionTools]:
    """Yield what a session would be offered, with all MCP servers or only the one named.

    Raises UsageError where there is no such server, and where a runtime cannot be used.
    """
    from foregate.agent.session.result import DELEGATE
    from foregate.agent.workspace.local import LocalWorkspace
    from foregate.assembly.home import Home
    from foregate.assembly.open import choose_policy, local_tools
    from foregate.assembly.remote import (
        connect_runtime,
        list_remarks,
        open_remote_tools,
        read_mcp_servers,
        start_servers,
    )
    from foregate.schemas.errors import UsageError

    space = LocalWorkspace(setting.workspace)
    servers = runtime = None
    notes: Sequence[str] = ()
    try:
        _, policy = choose_policy(setting, space.root)
        configured, _ = read_mcp_servers(setting)
        runtime = await connect_runtime(setting, policy, None)
        if runtime is not None:
            specs = list(open_remote_tools(runtime).specs())
            configured, notes = [], list_remarks(policy, configured)
        else:
            specs = list(local_tools(setting, space, policy, Home(Home.path()).memory).specs())
        specs += [DELEGATE] if policy.limits.child_depth else []
        if only:
            names = [server.name for server in configured]
            configured = [server for server in configured if server.name == only]
            if not configured:
                known = ", ".join(names) or "none is configured"
                raise UsageError(f"there is no MCP server `{only}`; there are: {known}")
        if configured:
            servers = await start_servers(configured, setting, policy, space)
        yield SessionTools(policy, specs, servers, notes)
    finally:
        if servers is not None:
            await servers.close()
        if runtime is not None:
            await runtime.close()
        space.close()


async def _print_tools(setting: SessionOptions, as_json: bool) -> None:
    from foregate.cli.terminal.layout import make_visible
    from foregate.cli.terminal.scripting import to_json_line
    from foregate.schemas import strict_json

    async with open_session_tools(setting) as offer:
        policy, servers = offer.policy, offer.servers
        rows: list[Json] = [{**strict_json.dump(spec), "in_force": apply_policy(spec, policy)} for spec in offer.specs]
        told = [format_tool_row(spec, policy) for spec in offer.specs]
        for server in servers.servers if servers is not None else ():
            for spec, tool in list_definitions(servers, server):
                state, problem = tool["state"], tool["problem"]
                about = {"in_force": apply_policy(spec, policy), "state": state, "problem": problem}
                rows.append({**strict_json.dump(spec), **about})
                told.append(format_tool_row(spec, policy, f"{state}{': ' if problem else ''}{problem}"))
        failed = servers.failed if servers is not None else {}
        if as_json:
            rows += [{"provenance": f"mcp:{name}", "state": "failed", "problem": why} for name, why in failed.items()]
            typer.echo(to_json_line(rows))
            return
        for note in offer.notes:
            typer.echo(note, err=True)
        told += [f"{make_visible(name):<18} not available: {make_visible(why)}" for name, why in failed.items()]
    for line in told:
        typer.echo(line)


def list_definitions(servers: McpTools | None, server: ReviewedServer) -> list[tuple[ToolSpec, Mapping[str, Json]]]:
    """Return what a server lists: each tool as a specification, and how it stands to its pin."""
    from foregate.agent.tools.mcp.definition import build_bare_spec, build_spec
    from foregate.agent.tools.mcp.pins import describe_tool
    from foregate.schemas.strict_json import as_object

    assert servers is not None
    pins = servers.pins.of(server.name)
    return [
        (
            build_bare_spec(d) if d.problem else build_spec(d, server.configuration, server.policy),
            as_object(describe_tool(d, pins)),
        )
        for d in server.definitions
    ]


def apply_policy(spec: ToolSpec, policy: Policy) -> dict[str, Json]:
    """Return what a policy makes of what a tool declares: its effect before a look at a call, and each capability."""
    from msgspec.structs import asdict

    from foregate.policy.risk.facts import effect_of_tool, is_believed, merge_capabilities

    entry = policy.tools.get(spec.name)
    able = merge_capabilities(spec, entry, is_believed(spec, policy))
    return {"effect": effect_of_tool(spec, entry, policy).value, "capabilities": asdict(able)}


def format_tool_row(spec: ToolSpec, policy: Policy, state: str = "") -> str:
    """Return the row of a tool: name, effect and capabilities as the policy has them, whose it is, and who says so."""
    from foregate.cli.terminal.layout import make_visible
    from foregate.policy.risk.facts import is_believed
    from foregate.schemas.strict_json import get_object

    entry, found = policy.tools.get(spec.name), apply_policy(spec, policy)
    undeclared = entry is None and (not is_believed(spec, policy) or spec.capabilities is None)
    able = get_object(found, "capabilities")
    flags = ["undeclared"] if undeclared else [flag for flag in FLAGS if able[flag]]
    about = [] if spec.provenance == "builtin" else [spec.provenance]
    about += [state] if state else []
    about += [f"says {spec.effect.value}"] if spec.is_elsewhere and not is_believed(spec, policy) else []
    about += ["as the policy says"] if entry is not None else []
    return make_visible(
        f"{spec.name:<18} {found['effect']:<12} {', '.join(flags)}{'  ' if about else ''}{', '.join(about)}"
    )


async def _pin_tools(setting: SessionOptions, name: str, tool: str, yes: bool, as_json: bool) -> None:
    from foregate.agent.session.session import utc_now
    from foregate.agent.tools.mcp.pins import build_review, get_pin_state
    from foregate.assembly.home import Home
    from foregate.cli.terminal.layout import build_console
    from foregate.cli.terminal.person import PersonAtTerminal
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.scripting import to_json_line
    from foregate.cli.terminal.sheet import format_tools
    from foregate.cli.terminal.terminal import Terminal
    from foregate.schemas.errors import UsageError

    screen, terminal = Screen(build_console(stderr=as_json)), Terminal()
    async with open_session_tools(setting, name) as offer:
        servers = offer.servers
        server = find_running_server(servers, name)
        Home.open(setting.environ)
        assert servers is not None
        pins = servers.pins.of(name)
        known = [d for d in server.definitions if not tool or d.name == tool]
        if not known:
            which = f"no tool `{tool}`; `foregate tools list` names those there are" if tool else "no tools"
            raise UsageError(f"the server `{name}` has {which}")
        asked = [d for d in known if get_pin_state(d, pins) in ("new", "changed")]
        need = build_review(server.configuration, known, pins)
        if asked and not yes:
            if not terminal.interactive:
                raise UsageError("nobody is here to look at the tools; run this at a terminal, or pin with --yes")
            reply = await PersonAtTerminal(screen, terminal).answer(need)
            asked = asked if reply is not None and reply.choice == "yes" else []
        elif not as_json:
            screen.rows(format_tools(need.request, keys=False, width=screen.console.width))
        if asked:
            servers.pins.pin(asked, utc_now())
        if as_json:
            typer.echo(to_json_line([{"tool": d.full_name, "hash": d.hash} for d in asked]))
        else:
            screen.say(f"{len(asked)} pinned" if asked else "nothing was pinned")


async def _print_differences(setting: SessionOptions, name: str, as_json: bool) -> int:
    from foregate.agent.tools.mcp.pins import describe_unlisted
    from foregate.cli.terminal.diff import format_unified
    from foregate.cli.terminal.layout import build_console
    from foregate.cli.terminal.screen import Screen
    from foregate.cli.terminal.scripting import to_json_line
    from foregate.cli.terminal.sheet import diff_tool, format_tool
    from foregate.schemas.strict_json import as_object

    screen = Screen(build_console())
    found: list[Mapping[str, Json]] = []
    async with open_session_tools(setting, name) as offer:
        servers = offer.servers
        for server in servers.servers if servers is not None else ():
            if name:
                find_running_server(servers, name)
            found += [tool for _, tool in list_definitions(servers, server) if tool["state"] != "pinned"]
            if servers is not None and server.name not in servers.failed:
                found += map(
                    as_object, describe_unlisted(server.name, server.definitions, servers.pins.of(server.name))
                )
        failed = servers.failed if servers is not None else {}
    if as_json:
        keys = ("tool", "state", "problem")
        told: list[Json] = [
            {**{key: tool[key] for key in keys}, "diff": format_unified(diff_tool(tool))} for tool in found
        ]
        told += [{"server": which, "state": "failed", "problem": why} for which, why in failed.items()]
        typer.echo(to_json_line(told))
    else:
        for tool in found:
            screen.rows(list(format_tool(tool, screen.console.width, details=True)))
        for which, why in failed.items():
            screen.row(f"MCP server `{which}` is not available: {why}")
        if not found and not failed:
            screen.say("every tool is as it was pinned")
    return 1 if found or failed else 0


def find_running_server(servers: McpTools | None, name: str) -> ReviewedServer:
    """Return the one server that was started; raise UsageError where it could not be."""
    from foregate.schemas.errors import UsageError

    assert servers is not None
    if name in servers.failed:
        raise UsageError(f"the MCP server `{name}` is not available: {servers.failed[name]}")
    return servers.servers[0]
