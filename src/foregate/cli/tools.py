"""`foregate tools`: what the agent can call, and which tools of MCP servers are pinned."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct, field

from foregate.cli import options
from foregate.cli.options import opens_session, take
from foregate.schemas.errors import UsageError
from foregate.views.terminal.exit_codes import COMPLETED, ERROR, run_async

if TYPE_CHECKING:
    from foregate.agent.tools.declarations import Declarations
    from foregate.agent.tools.mcp.definition import Pins
    from foregate.agent.tools.mcp.mcp_tools import ReviewedServer
    from foregate.assembly.setting import SessionOptions
    from foregate.policy.policy import Policy
    from foregate.schemas.strict_json import Json
    from foregate.schemas.tool_spec import ToolSpec


def serve(
    ws: Annotated[str, take("--ws", "Listen for agents that use --runtime.", "HOST:PORT")] = "",
    mcp: Annotated[bool, take("--mcp", "Speak the Model Context Protocol on stdin and stdout.")] = False,
    workspace: options.WorkspaceFolder = Path(),
    policy: options.PolicyFile = None,
    cert: Annotated[Path | None, take("--cert", "Certificate (PEM), for TLS.", "FILE")] = None,
    key: Annotated[Path | None, take("--key", "Its private key (PEM).", "FILE")] = None,
    insecure: Annotated[bool, take("--insecure", "Listen beyond this machine without TLS all the same.")] = False,
    owner: Annotated[str, take("--owner", "Who has the token; the log names them as who runs the calls.", "NAME")] = "",
) -> None:
    """Let other agents use the tools in one folder; each call is judged here first, by this policy."""
    from foregate.assembly.choices import REHEARSAL
    from foregate.assembly.setting import SessionOptions
    from foregate.schemas.identity import name_person

    if bool(ws) == mcp:
        raise UsageError("say how to serve: either --ws HOST:PORT or --mcp")
    if owner and mcp:
        raise UsageError("--owner names who has the token of --ws; --mcp has no token")
    setting = SessionOptions(workspace, REHEARSAL, policy=policy, mode="direct", dialect="native", serving=True)
    if mcp:
        from foregate.assembly.serve import serve_mcp

        # what a shell starts with `&` has its interrupts ignored, and a server must end when it is told to
        signal.signal(signal.SIGINT, signal.default_int_handler)
        run_async(serve_mcp(setting))
    else:
        setting.by = name_person(owner, via="network")
        run_async(_listen(setting, ws, cert, key, insecure))


async def _listen(setting: SessionOptions, ws: str, cert: Path | None, key: Path | None, insecure: bool) -> None:
    from foregate.agent.tools.remote_protocol import is_loopback
    from foregate.assembly.remote import TOKEN, create_token, read_token
    from foregate.assembly.serve import load_tls, parse_endpoint, serve_websocket

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


app = options.build_group()
_TALKING = ("model", "config", "dialect")
"""Options about a model, which a list of tools does not need."""
_OTHERS = (*_TALKING, "runtime", "insecure_runtime", "tools")
"""Those, and options about tools that come from no MCP server."""
FLAGS = ("external_side_effect", "needs_approval", "high_impact_write", "idempotent", "reversible", "personal_memory")

app.command("serve", short_help="Let other agents use the tools.")(serve)


class SessionTools(Struct, frozen=True):
    """What a session would be offered under `policy`: tools of this process or of a runtime, and MCP servers, started.
    `failed` says of servers why they were not; `pins` are there where servers are. `notes` are for a person."""

    policy: Policy
    specs: Sequence[ToolSpec]
    notes: Sequence[str]
    servers: Sequence[ReviewedServer] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    pins: Pins | None = None


@asynccontextmanager
async def open_session_tools(setting: SessionOptions, only: str = "") -> AsyncIterator[SessionTools]:
    """Yield what a session would be offered, with all MCP servers or only the one named.

    Raises UsageError where there is no such server or it does not start, and where a runtime cannot be used.
    """
    from foregate.agent.session.result import DELEGATE
    from foregate.agent.workspace.local import LocalWorkspace
    from foregate.assembly.choices import protect_own_files
    from foregate.assembly.home import Home
    from foregate.assembly.remote import connect_runtime, list_remarks, start_servers
    from foregate.assembly.session_tools import local_tools

    async with AsyncExitStack() as stack:
        stack.callback((space := LocalWorkspace(setting.workspace)).close)
        rules = protect_own_files(setting, space.root, (Home.path(setting.environ),), [])
        policy, configured = rules.policy, rules.servers
        notes: list[str] = []
        if (runtime := await connect_runtime(setting, policy, None)) is not None:
            from foregate.agent.tools.remote_tools import RemoteTools

            stack.push_async_callback(runtime.close)
            specs = list(RemoteTools(runtime).specs())
            configured, notes = [], list_remarks(policy, configured)
        else:
            specs = list(local_tools(setting, space, policy, Home(Home.path()).memory).specs())
        specs += [DELEGATE] if policy.limits.child_depth else []
        if only:
            known = ", ".join(server.name for server in configured) or "none is configured"
            configured = [server for server in configured if server.name == only]
            if not configured:
                raise UsageError(f"there is no MCP server `{only}`; there are: {known}")
        offer = SessionTools(policy, specs, notes)
        if configured:
            servers = await start_servers(configured, setting, policy, space)
            stack.push_async_callback(servers.close)
            if only in servers.failed:
                raise UsageError(f"the MCP server `{only}` is not available: {servers.failed[only]}")
            offer = SessionTools(policy, specs, notes, servers.servers, servers.failed, servers.pins)
        yield offer


def _list_definitions(server: ReviewedServer, pins: Pins | None) -> list[tuple[ToolSpec, Mapping[str, Json]]]:
    """Return what a server lists: each tool as a specification, and how it stands to its pin."""
    from foregate.agent.tools.mcp.definition import build_bare_spec, build_spec, describe_tool
    from foregate.schemas.strict_json import as_object

    assert pins is not None
    stands = [as_object(describe_tool(d, pins.of(server.name))) for d in server.definitions]
    configuration, policy = server.configuration, server.policy
    specs = [build_bare_spec(d) if d.problem else build_spec(d, configuration, policy) for d in server.definitions]
    return list(zip(specs, stands, strict=True))


@app.command("list")
@opens_session(without=_TALKING)
async def list_tools(setting: SessionOptions, as_json: options.AsJson = False) -> None:
    """List the tools a session is offered, with effect, capabilities and source; MCP servers are started for it."""
    from foregate.assembly.home import Home
    from foregate.schemas import strict_json

    declarations = Home(Home.path(setting.environ)).open_declarations()
    async with open_session_tools(setting) as offer:
        policy, own = offer.policy, declarations.apply(offer.specs)
        rows: list[Json] = [{**strict_json.dump(spec), "in_force": _apply_policy(spec, policy)} for spec in own]
        told = [_format_tool_row(spec, policy) for spec in own]
        for server in offer.servers:
            confine = server.configuration.confine
            held = "" if confine == "none" else f", confined: {confine}"
            for listed, tool in _list_definitions(server, offer.pins):
                (spec,) = declarations.apply([listed])
                state, problem = tool["state"], tool["problem"]
                about = {"in_force": _apply_policy(spec, policy), "state": state, "problem": problem}
                rows.append({**strict_json.dump(spec), **about, "confine": confine})
                told.append(_format_tool_row(spec, policy, f"{state}{': ' if problem else ''}{problem}{held}"))
        for name, why in offer.failed.items():
            rows.append({"provenance": f"mcp:{name}", "state": "failed", "problem": why})
            told.append(f"{name:<18} not available: {why}")
    if as_json:
        options.print_json_rows(rows)
        return
    for note in (*offer.notes, *declarations.notes):
        typer.echo(note, err=True)
    for line in told:
        options.print_text(line)


def _apply_policy(spec: ToolSpec, policy: Policy) -> dict[str, Json]:
    """Return what a policy makes of what a tool declares: its effect before a look at a call, and each capability."""
    from msgspec.structs import asdict

    from foregate.policy.risk.declared import find_tool_entry, is_believed
    from foregate.policy.risk.facts import effect_of_tool, merge_capabilities

    entry = find_tool_entry(spec, policy)
    able = merge_capabilities(spec, entry, is_believed(spec, policy))
    return {"effect": effect_of_tool(spec, entry, policy).value, "capabilities": asdict(able)}


def _format_tool_row(spec: ToolSpec, policy: Policy, state: str = "") -> str:
    """Return the row of a tool: name, effect and capabilities as the policy has them, whose it is, and who says so."""
    from foregate.policy.risk.declared import find_tool_entry, is_believed
    from foregate.schemas.strict_json import get_object

    entry, found, believed = find_tool_entry(spec, policy), _apply_policy(spec, policy), is_believed(spec, policy)
    able = get_object(found, "capabilities")
    undeclared = entry is None and (not believed or spec.capabilities is None)
    flags = ["undeclared"] if undeclared else [flag for flag in FLAGS if able[flag]]
    about = [spec.provenance if spec.provenance != "builtin" else "", state]
    about.append(f"says {spec.effect.value}" if spec.is_elsewhere and not believed else "")
    by_policy = "as the policy says" if spec.name in policy.tools else "as you said"
    about.append(by_policy if entry is not None else "")
    void = spec.declared is not None and spec.declared.nature == "void"
    about.append("changed since you said what it does" if void else "")
    said = ", ".join(filter(None, about))
    return f"{spec.name:<18} {found['effect']:<12} {', '.join(flags)}{'  ' if said else ''}{said}"


@app.command("declared")
def list_declared(as_json: options.AsJson = False) -> None:
    """List what you said of tools that nobody had declared. It holds while their definitions stay as they were."""
    from foregate.assembly.home import Home
    from foregate.schemas import strict_json
    from foregate.views.terminal.declare_dialog import describe_nature

    kept = _read_declarations(Home.path()).list()
    if as_json:
        options.print_json_rows({"tool": key, **strict_json.dump(declared)} for key, declared in kept.items())
        return
    for key, declared in kept.items():
        named = [target.parameter for target in declared.targets]
        own = (declared.own,) if isinstance(declared.own, str) else declared.own
        parts = (("targets", named), ("amounts", declared.amounts), ("texts", declared.texts), ("own", own))
        roles = [f"{role}: {', '.join(names)}" for role, names in parts if names]
        options.print_text("  ".join([f"{key:<26} {describe_nature(declared.nature)}", *roles]))


@app.command("forget")
def forget(
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="A tool, or `mcp:SERVER` for all of one.")],
) -> None:
    """Forget what you said of a tool: the next session asks again."""
    from foregate.assembly.home import Home

    count = _read_declarations(Home.open().root).forget(tool)
    if not count:
        raise UsageError(f"nothing was said of `{tool[:64]}`; `foregate tools declared` lists what was")
    options.print_text(f"{count} forgotten")


def _read_declarations(root: Path) -> Declarations:
    """Return what was said of tools; raise UsageError for a file that cannot be read."""
    from foregate.assembly.home import Home

    found = Home(root).open_declarations()
    for note in found.notes:
        raise UsageError(note)
    return found


@app.command("pin")
@opens_session(without=_OTHERS)
async def pin(
    setting: SessionOptions,
    server: Annotated[str, typer.Argument(metavar="SERVER", help="An MCP server by its name.", show_default=False)],
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="Only this tool of it.", show_default=False)] = "",
    yes: Annotated[bool, take("--yes", "Pin without asking, for scripts.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Show what an MCP server says of its tools now, and pin it: from then on they are offered, exactly so."""
    from foregate.agent.session.session_log import utc_now
    from foregate.agent.tools.mcp.definition import build_review, get_pin_state
    from foregate.assembly.home import Home
    from foregate.views.terminal.layout import build_console
    from foregate.views.terminal.person import PersonAtTerminal
    from foregate.views.terminal.screen import Screen
    from foregate.views.terminal.terminal import Terminal
    from foregate.views.terminal.tools_sheet import format_tools

    screen, terminal = Screen(build_console(stderr=as_json)), Terminal()
    async with open_session_tools(setting, server) as offer:
        Home.open(setting.environ)
        assert offer.pins is not None
        listed, pins = offer.servers[0], offer.pins.of(server)
        known = [d for d in listed.definitions if not tool or d.name == tool]
        if not known:
            which = f"no tool `{tool}`; `foregate tools list` names those there are" if tool else "no tools"
            raise UsageError(f"the server `{server}` has {which}")
        asked = [d for d in known if get_pin_state(d, pins) in ("new", "changed")]
        need = build_review(listed.configuration, known, pins)
        if asked and not yes:
            if not terminal.interactive:
                raise UsageError("nobody is here to look at the tools; run this at a terminal, or pin with --yes")
            reply = await PersonAtTerminal(screen, terminal).answer(need)
            asked = asked if reply is not None and reply.choice == "yes" else []
        elif not as_json:
            screen.rows(format_tools(need.request, keys=False, width=screen.console.width))
        if asked:
            offer.pins.pin(asked, utc_now())
        if as_json:
            options.print_json_rows({"tool": d.full_name, "hash": d.hash} for d in asked)
        else:
            screen.say(f"{len(asked)} pinned" if asked else "nothing was pinned")


@app.command("diff")
@opens_session(without=_OTHERS)
async def diff(
    setting: SessionOptions,
    server: Annotated[
        str, typer.Argument(metavar="SERVER", help="An MCP server by its name; all without.", show_default=False)
    ] = "",
    as_json: options.AsJson = False,
) -> int:
    """Show how tools of MCP servers differ from what was pinned. The exit code is 1 where any does."""
    from foregate.agent.tools.mcp.definition import describe_unlisted
    from foregate.schemas.strict_json import as_object
    from foregate.views.terminal.diff import format_unified
    from foregate.views.terminal.layout import build_console
    from foregate.views.terminal.screen import Screen
    from foregate.views.terminal.tools_sheet import diff_tool, format_tool

    screen = Screen(build_console())
    found: list[Mapping[str, Json]] = []
    async with open_session_tools(setting, server) as offer:
        for one in offer.servers:
            assert offer.pins is not None
            found += [tool for _, tool in _list_definitions(one, offer.pins) if tool["state"] != "pinned"]
            if one.name not in offer.failed:
                unlisted = describe_unlisted(one.name, one.definitions, offer.pins.of(one.name))
                found += map(as_object, unlisted)
    if as_json:
        keys = ("tool", "state", "problem")
        told: list[Json] = [
            {**{key: tool[key] for key in keys}, "diff": format_unified(diff_tool(tool))} for tool in found
        ]
        told += [{"server": which, "state": "failed", "problem": why} for which, why in offer.failed.items()]
        options.print_json_rows(told)
    else:
        for tool in found:
            screen.rows(format_tool(tool, screen.console.width, details=True))
        for which, why in offer.failed.items():
            screen.row(f"MCP server `{which}` is not available: {why}")
        if not found and not offer.failed:
            screen.say("every tool is as it was pinned")
    return ERROR if found or offer.failed else COMPLETED
