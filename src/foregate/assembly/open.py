"""Putting a session together: home, log, policy, model, tools and workspace, from arguments and environment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from foregate.assembly.home import Home, find_session, fresh_name
from foregate.assembly.model_roles import Roles
from foregate.assembly.setting import Setting
from foregate.schemas.errors import LogError, UsageError
from foregate.schemas.event import Draft
from foregate.schemas.protocols import Blobs, Log, Model, ToolSource
from foregate.schemas.session_events import PolicyChanged, SessionStarted

if TYPE_CHECKING:
    from foregate.agent.planning.format.configuration import Configuration
    from foregate.agent.session.session import Session
    from foregate.agent.tools.mcp.mcp_tools import McpTools
    from foregate.agent.tools.tool import Tool
    from foregate.agent.workspace.workspace import Workspace
    from foregate.assembly.model_roles import Roles
    from foregate.policy.policy import Policy
    from foregate.policy.source.load import LoadedPolicy
    from foregate.telemetry.otel.exporting import Telemetry

REHEARSAL = "rehearsal"
"""The name that asks for the rehearsal model by itself."""
NO_ENDPOINT = (
    "no model endpoint is configured, so the rehearsal model answers: it is no language model and understands only a "
    "few plain requests. Set OPENAI_BASE_URL or OPENAI_API_KEY, and FOREGATE_MODEL, for a real one."
)


@dataclass(slots=True)
class Opened:
    """An open session, the policy it runs under with its provenance, the configuration of plan mode with its models,
    and `notes`: sentences a person should read.
    """

    session: Session
    loaded: LoadedPolicy | None
    workspace: Workspace
    name: str
    resumed: bool
    configuration: Configuration
    roles: Roles
    dialect: str = "native"
    notes: tuple[str, ...] = ()
    _own_log: Callable[[], None] | None = None
    _own_model: Callable[[], Awaitable[None]] | None = None
    _servers: McpTools | None = None
    _telemetry: Telemetry | None = None
    _own_runtime: Callable[[], Awaitable[None]] | None = None

    async def close(self, *, end: bool = True) -> None:
        """Close the session; with `end` False, or while a task is open, its log stays open for a later resume."""
        try:
            if end and self.session.state.task is None:
                await self.session.close()
            else:
                await self.session.log.settle(self.session.lease)
                await self.session.log.release(self.session.lease)
        finally:
            if self._servers is not None:
                await self._servers.close()
            self.workspace.close()
            if self._own_runtime is not None:
                await self._own_runtime()
            await self.roles.close()
            if self._own_model is not None:
                await self._own_model()
            if self._own_log is not None:
                self._own_log()
            if self._telemetry is not None:
                await self._telemetry.close()


async def open_session(setting: Setting) -> Opened:
    """Open a new session, or an existing one where `resume` names it; nothing is written when this raises.

    Raises UsageError, WorkspaceError, PolicyError, LogError or SessionHeld, each one sentence.
    """
    from foregate.agent.models.openai.model import OpenAIModel

    model, notes = choose_model(setting.model, setting.environ)
    if isinstance(model, OpenAIModel):
        await model.resolve()
    if setting.log is not None:
        from foregate.telemetry.log.memory_blobs import MemoryBlobs

        opened = await _open(setting, setting.log, setting.blobs or MemoryBlobs(), None, model, notes)
    else:
        home = Home.open(setting.environ)
        log = home.log()
        try:
            opened = await _open(setting, log, setting.blobs or home.store(), home.memory, model, notes, (home.root,))
        except BaseException:
            log.close()
            raise
        opened._own_log = log.close
    opened._own_model = model.close if isinstance(model, OpenAIModel) and model is not setting.model else None
    return opened


async def _open(
    setting: Setting,
    log: Log,
    blobs: Blobs,
    memory: Path | None,
    model: Model,
    notes: tuple[str, ...],
    own: tuple[Path, ...] = (),
) -> Opened:
    from foregate.agent.effects.reconcile import hear_from_there
    from foregate.agent.loop.delegate import child
    from foregate.agent.planning.confirm.plan_desk import PlanDesk
    from foregate.agent.serving.served_policy import served
    from foregate.agent.session.resume import resume
    from foregate.agent.session.session import Session, utc_now
    from foregate.agent.tools.python.user_tools import file_of
    from foregate.agent.tools.tool import Toolbox
    from foregate.agent.workspace.workspace import Workspace
    from foregate.assembly.mcp import configured_servers, own_files, start_servers
    from foregate.assembly.model_roles import Roles
    from foregate.assembly.own_secrets import own_secrets
    from foregate.assembly.protected_paths import guarded
    from foregate.assembly.remote import introduce, reached, remarks_on, remote_tools
    from foregate.policy.policy import Policy
    from foregate.policy.source.record import record, with_protected
    from foregate.telemetry.log.masking import mask_text
    from foregate.telemetry.otel.switch import open_telemetry

    configuration, looked_for = choose_configuration(setting)
    name = await find_session(log, setting.resume) if setting.resume else await fresh_name(log)
    runtime = None
    source: ToolSource
    began = await beginning_of(log, name) if setting.resume else None
    recorded = began.runtime if began is not None else None
    workspace = Workspace(began.workspace if began is not None else setting.workspace)
    servers: McpTools | None = None
    try:
        loaded, policy = choose_policy(setting, workspace.root)
        speak = partial(spoken_in, configuration, policy)
        dialect = setting.dialect or ("" if setting.resume else configuration.dialect.name)
        speak(dialect or "native", model)  # one nobody knows is refused before anything is written
        named = None if isinstance(setting.policy, Policy) else policy_file(setting.policy, setting.environ)
        configured, remarks = configured_servers(setting)
        modules = [file for file in map(file_of, setting.tool_modules) if file is not None]
        files = [*looked_for, *modules, *own_files(setting, configured), *([] if named is None else [named])]
        guard = guarded(workspace.root, own, files)
        policy = with_protected(policy, guard)
        policy = served(policy) if setting.serving else policy
        runtime = await reached(setting, policy, recorded)
        if runtime is not None:
            source = remote_tools(runtime)
            remarks += remarks_on(policy, configured)
        elif recorded:
            source = Toolbox([])
        else:
            tools = toolbox(setting, workspace, policy, memory)
            if configured:
                servers = await start_servers(configured, setting, policy, workspace)
                await servers.offer(setting.person, utc_now)
                tools += servers.tools
                remarks += servers.notes
            source = Toolbox(tools)
        lease = await log.claim(name, create=not setting.resume)
    except BaseException:
        if servers is not None:
            await servers.close()
        workspace.close()
        if runtime is not None:
            await runtime.close()
        raise
    secrets = own_secrets(setting.environ, policy.sensitive, models=[model], servers=configured, more=setting.secrets)
    telemetry, said = open_telemetry(setting.environ, provider_of(model), secrets)
    try:
        if telemetry is not None and setting.resume:
            telemetry.recall(await log.read(name))
        session = Session(
            log=log,
            lease=lease,
            blobs=blobs,
            model=model,
            tools=source,
            policy=policy,
            workspace=workspace,
            person=setting.person,
            listeners=(*setting.listeners, *([telemetry.hear] if telemetry is not None else ())),
            layers=record(loaded, guard),
            delegate=child,
            secrets=secrets,
        )
        if setting.resume:
            await resume(session)
        else:
            await session.start(
                dialect=dialect if dialect != "native" else "",
                runtime=runtime.url if runtime is not None else "",
                agent=setting.agent,
            )
        if runtime is not None:
            await introduce(runtime, log, name)
            await hear_from_there(session)
        session.early = configuration.streaming.execute == "observations"
        if dialect and dialect != session.state.dialect:
            await session.record(Draft(PolicyChanged(dialect=dialect), "person"))
        session.model = speak(session.state.dialect, model)
        roles = Roles(configuration, session, setting.environ, partial(speak, session.state.dialect))
        session.desk = PlanDesk(session, configuration, roles.model)
        if setting.dry_run and not session.state.dry_run:
            await session.record(Draft(PolicyChanged(dry_run=True), "person"))
        mode = session.state.mode if setting.resume else setting.mode or configuration.mode
        if mode != session.state.mode:
            await session.record(Draft(PolicyChanged(mode=mode), "person"))
    except BaseException:
        await log.release(lease)
        if servers is not None:
            await servers.close()
        workspace.close()
        if runtime is not None:
            await runtime.close()
        if telemetry is not None:
            await telemetry.close()
        raise
    if recorded and runtime is None:
        notes = (*notes, f"the tools of this session ran in the runtime {recorded}; it has none without --runtime")
    return Opened(
        session,
        loaded,
        workspace,
        name,
        bool(setting.resume),
        configuration,
        roles,
        session.state.dialect,
        tuple(mask_text(note, session.hidden) for note in (*notes, *said, *remarks)),
        _telemetry=telemetry,
        _servers=servers,
        _own_runtime=runtime.close if runtime is not None else None,
    )


def spoken_in(configuration: Configuration, policy: Policy, dialect: str, model: Model) -> Model:
    """Return the model as one that makes its calls in a dialect; raise UsageError for one nobody knows."""
    if dialect == "native":
        return model
    from foregate.agent.dialects.choice import speaking
    from foregate.agent.dialects.tags.names import Names

    names = Names.from_json(configuration.dialect.model_dump(exclude={"name"}))
    return speaking(model, dialect, names, shell=policy.commands.execute_command == "run_shell")


async def beginning_of(log: Log, name: str) -> SessionStarted:
    """Return what a session of the log began with; raise LogError for a session without a beginning."""
    first = await log.read(name, limit=1)
    if not first or not isinstance(first[0].body, SessionStarted):
        raise LogError(f"session `{name}` does not begin as a session; `foregate audit verify` tells more")
    return first[0].body


def choose_model(wanted: Model | str | None, environ: Mapping[str, str]) -> tuple[Model, tuple[str, ...]]:
    """Return the model to ask and what a person should know of the choice.

    A name needs an endpoint: UsageError without one. Without name and endpoint the rehearsal model serves.
    """
    if wanted is not None and not isinstance(wanted, str):
        return wanted, ()
    from foregate.agent.models.openai.model import from_environment
    from foregate.agent.models.rehearsal.model import RehearsalModel

    if REHEARSAL in (wanted, environ.get("FOREGATE_MODEL") if not wanted else ""):
        return RehearsalModel(), ()
    model = from_environment(environ, model=wanted or "")
    return (model, ()) if model is not None else (RehearsalModel(), (NO_ENDPOINT,))


def provider_of(model: Model) -> str:
    """Return whose kind of endpoint a model is, as OpenTelemetry names it: the wire spoken, not who serves it."""
    from foregate.agent.models.openai.model import OpenAIModel

    model = getattr(model, "inner", model)
    return "openai" if isinstance(model, OpenAIModel) else "foregate" if model.name == REHEARSAL else "custom"


def choose_policy(setting: Setting, workspace: Path) -> tuple[LoadedPolicy | None, Policy]:
    """Return the policy in force; a Policy object is taken as it is, a file goes over the defaults."""
    from foregate.policy.policy import Policy

    if isinstance(setting.policy, Policy):
        return None, setting.policy
    from foregate.policy.source.load import load

    loaded = load(policy_file(setting.policy, setting.environ), workspace)
    return loaded, loaded.policy


def choose_configuration(setting: Setting) -> tuple[Configuration, list[Path]]:
    """Return the configuration in force, and the places one is read from by this session or by the next."""
    from foregate.agent.planning.format.configuration import Configuration, configuration_place, load_configuration

    usual = configuration_place(environ=setting.environ)
    if isinstance(setting.config, Configuration):
        return setting.config, [usual]
    configuration = load_configuration(setting.config, setting.environ)
    return configuration, list(dict.fromkeys([usual, configuration_place(setting.config, setting.environ)]))


def policy_file(wanted: Path | str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the user's policy file: the one asked for, else FOREGATE_POLICY, else None; a Path is always a path."""
    from foregate.policy.source.load import file_of

    if isinstance(wanted, Path):
        return wanted.expanduser()
    named = wanted or environ.get("FOREGATE_POLICY")
    return file_of(named) if named else None


def toolbox(setting: Setting, workspace: Workspace, policy: Policy, memory: Path | None) -> list[Tool]:
    """Return the built-in tools and the caller's own; raise UsageError where two share a name."""
    from foregate.agent.tools.python.user_tools import tools_in

    tools: list[Tool] = []
    if setting.builtin:
        from foregate.agent.tools.builtin.builtin import builtin_tools

        tools = list(builtin_tools(workspace, policy, memory=memory))
    names = {tool.spec.name for tool in tools}
    for tool in [*setting.tools, *(made for place in setting.tool_modules for made in tools_in(place))]:
        if tool.spec.name in names:
            raise UsageError(f"two tools are named `{tool.spec.name}`; rename yours, or open without the built-in ones")
        names.add(tool.spec.name)
        tools.append(tool)
    return tools
