"""Putting a session together: home, log, policy, model, tools and workspace, from arguments and environment."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from foregate.assembly.home import find_fresh_name, find_session
from foregate.assembly.model_roles import ModelRoles, name_endpoint, open_learnt, price_model
from foregate.assembly.moved import check_moved, find_root
from foregate.assembly.place import Place, open_place
from foregate.assembly.setting import SessionOptions
from foregate.schemas.errors import LogError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged, SessionStarted
from foregate.schemas.protocols import Log, Model, ToolSource

if TYPE_CHECKING:
    from foregate.agent.planning.format.configuration import Configuration, PlanMode
    from foregate.agent.session.session import Session
    from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
    from foregate.agent.workspace.workspace import Workspace
    from foregate.assembly.followed_policy import FollowedPolicy
    from foregate.policy.policy import Policy
    from foregate.policy.source.load import LoadedPolicy

_OWN_HASH = 16
"""Characters of the hash of a session's first event that tell it from others of its name, for a runtime."""
REHEARSAL = "rehearsal"
"""The name that asks for the rehearsal model by itself."""
NO_ENDPOINT = (
    "no model endpoint is configured, so the rehearsal model answers: it is no language model and understands only a "
    "few plain requests. Set OPENAI_BASE_URL and FOREGATE_MODEL for a real one."
)


class OpenSession(Struct):
    """An open session, the policy file it follows, plan mode's configuration and models, and `notes` for a person.

    `_resources` are what was opened for the session, closed after it in the opposite order.
    """

    session: Session
    followed: FollowedPolicy
    workspace: Workspace
    name: str
    resumed: bool
    configuration: Configuration
    roles: ModelRoles
    dialect: str
    notes: tuple[str, ...]
    _resources: AsyncExitStack

    @property
    def follows_ended(self) -> bool:
        """Whether the session was opened to go on with one that had ended, and ends again when it is left."""
        return self.session.log.is_further

    async def close(self, *, end: bool = True) -> None:
        """Close the session; with `end` False, or while a task is open, its log stays open for a later resume."""
        async with self._resources:
            await self.session.close(end=end and self.session.state.task is None)


async def open_session(setting: SessionOptions) -> OpenSession:
    """Open a new session, or an existing one where `resume` names it; nothing is written when this raises.

    Raises UsageError, WorkspaceError, PolicyError, LogError or SessionHeld, each one sentence.
    """
    from foregate.agent.models.openai.model import OpenAIModel

    async with AsyncExitStack() as resources:
        place = open_place(setting, resources)
        if setting.resume:
            await find_session(place.log, setting.resume)  # a wrong name is said before any model is waited for
        model, notes = choose_model(setting)
        if isinstance(model, OpenAIModel):
            if model is not setting.model:
                resources.push_async_callback(model.close)
            await model.resolve()
        opened = await _open_session(setting, place, model, notes, resources)
        opened._resources = resources.pop_all()
    return opened


async def _open_session(
    setting: SessionOptions, place: Place, model: Model, notes: tuple[str, ...], resources: AsyncExitStack
) -> OpenSession:
    import asyncio

    from foregate.agent.effects.kept_previews import encode_previews
    from foregate.agent.effects.reconcile import reconcile_remote_calls, resume
    from foregate.agent.loop.runner import run_child_task
    from foregate.agent.planning.run.run_plan import PlanController
    from foregate.agent.session.absent_person import AbsentPerson
    from foregate.agent.session.linked import Lineage, draft_switches, find_lineage, fold_lineage
    from foregate.agent.session.session import Session
    from foregate.agent.tools.tool import Toolbox
    from foregate.agent.workspace.local import LocalWorkspace
    from foregate.agent.workspace.work_sandbox import sweep_sandboxes
    from foregate.assembly.identity import find_identity
    from foregate.assembly.own_secrets import find_own_secrets
    from foregate.assembly.remote import connect_runtime, list_remarks
    from foregate.assembly.session_tools import open_local_tools
    from foregate.evidence.state.lineage import begin_further
    from foregate.policy.source.load import record_layers
    from foregate.telemetry.decision_lines import open_decision_lines
    from foregate.telemetry.log.masking import mask_text
    from foregate.telemetry.otel.switch import open_telemetry

    log = place.log
    configuration, looked_for = choose_configuration(setting)
    if model is not setting.model:
        price_model(model, configuration)
    if setting.resume:
        lineage = await find_lineage(log, await find_session(log, setting.resume))
        began: SessionStarted | None = await read_beginning(log, lineage.newest)
    else:
        lineage, began = Lineage(await find_fresh_name(log)), None
    name, follows = lineage.name, lineage.follows
    if follows is not None:
        notes = (*notes, f"session {follows.session} has ended; what is done now is recorded in session {name}")
    recorded = began.runtime if began is not None else None
    before = await find_root(log, lineage.newest, began) if began is not None else str(setting.workspace)
    root = before if setting.moved_to is None or began is None else setting.moved_to
    workspace = LocalWorkspace(root, place.sandboxes)
    resources.callback(workspace.close)
    rules = protect_own_files(setting, workspace.root, place.own, looked_for)
    policy = rules.policy
    speak = partial(wrap_in_dialect, configuration, policy)
    dialect = setting.dialect or ("" if setting.resume else configuration.dialect.name)
    speak(dialect or "native", model)  # one nobody knows is refused before anything is written
    source: ToolSource = Toolbox([])
    runtime = await connect_runtime(setting, policy, recorded)
    if runtime is not None:
        from foregate.agent.tools.remote.remote_tools import RemoteTools

        resources.push_async_callback(runtime.close)
        rules.remarks.extend(list_remarks(policy, rules.servers))
        source = RemoteTools(runtime)
    elif not recorded:
        at = workspace, place.memory
        make_tools, remarks = await open_local_tools(setting, at, policy, rules.servers, resources)
        rules.remarks.extend(remarks)
        rules.followed.make_tools, source = make_tools, make_tools(policy)
    lease = await log.claim(name, create=not setting.resume or follows is not None)
    if lease.succeeded:
        notes = (*notes, f"{lease.succeeded} left this session open and is gone; the session goes on here")
    resources.push_async_callback(log.release, lease)
    sweeps = (asyncio.to_thread(workspace.sweep), asyncio.to_thread(sweep_sandboxes, workspace, policy))
    resources.push_async_callback(asyncio.wait, [asyncio.ensure_future(one) for one in sweeps])
    rules.followed.find_secrets = lambda policy: find_own_secrets(
        setting.environ, policy.sensitive, [model], rules.servers, setting.secrets
    )
    secrets = rules.followed.find_secrets(policy)
    telemetry, said = open_telemetry(setting.environ, name_provider(model), secrets)
    if telemetry is not None:
        resources.push_async_callback(telemetry.close)
        if setting.resume and follows is None:
            telemetry.recall(await log.read(name))
    unread: list[str] = []
    state = await fold_lineage(log, lineage, unread.append) if setting.resume else None
    notes = (*notes, *unread)
    spoken = dialect or (state.dialect if state is not None else "native")
    if state is not None and str(workspace.root) != before:
        notes = (*notes, check_moved(workspace, state, before, max_hash=policy.files.max_hash))
    if state is not None and follows is not None:
        begin_further(state)
    person = setting.person
    if person is None and state is not None and state.waits_for_person:
        person = AbsentPerson()  # what waits for a person goes on waiting: nobody here says no in their place
    speaking = speak(spoken, model)
    roles = ModelRoles(configuration, speaking, setting.environ, partial(speak, spoken), setting.on_retry)
    resources.push_async_callback(roles.close)
    session = Session(
        log=log,
        lease=lease,
        blobs=place.blobs,
        model=speaking,
        tools=source,
        policy=policy,
        workspace=workspace,
        state=state,
        person=person,
        listeners=(
            *setting.listeners,
            *([telemetry.take_event] if telemetry is not None else ()),
            *(lines.take_event for lines in open_decision_lines()),
        ),
        layers=record_layers(rules.followed.loaded, rules.guard),
        delegate=run_child_task,
        plan_driver=lambda session: PlanController(session, configuration, roles.get_model),
        prefetch=configuration.streaming.execute == "observations",
        on_text=setting.on_text,
        secrets=secrets,
        declarations=place.declarations,
        permissions=place.permissions(workspace.root) if place.permissions is not None else None,
        preview=encode_previews,
        by=setting.by or find_identity("program"),
        follow_policy=rules.followed,
    )
    known: dict[str, Any] = {
        "dialect": spoken if spoken != "native" else "",
        "runtime": runtime.url if runtime is not None else "",
    }
    if follows is not None and began is not None and state is not None:
        known |= {"agent": setting.agent or began.agent, "remotes": began.remotes, "follows": follows}
        session.log.follow(lineage.before, await session.draft_start(**known), *draft_switches(state))
    elif setting.resume:
        session.log.follow(lineage.before)
    else:
        await session.start(**known, agent=setting.agent)
    if setting.resume and str(workspace.root) != before:
        differs = session.draft_policy() if follows is None else []
        await session.record(*differs, Draft(PolicyChanged(workspace=str(workspace.root)), "person"))
    if setting.resume and follows is None:
        await resume(session)
    if runtime is not None:
        oldest = lineage.before[0] if lineage.before else name
        (first,) = await log.read(oldest, limit=1)
        runtime.agent = f"{oldest}-{first.hash[:_OWN_HASH]}"  # a name no other session has, and that stays
        await reconcile_remote_calls(session)
    await record_switches(session, setting, spoken, configuration.mode)
    if recorded and runtime is None:
        notes = (*notes, f"the tools of this session ran in the runtime {recorded}; it has none without --runtime")
    session.permissions.list_given()
    kept = filter(None, (*session.declarations.notes, session.permissions.problem))
    told = tuple(mask_text(n, session.hidden) for n in (*notes, *said, *rules.remarks, *kept))
    about = name, bool(setting.resume), configuration, roles, spoken, told
    return OpenSession(session, rules.followed, workspace, *about, resources)


class Rules(NamedTuple):
    """The policy in force, the file it is followed in, Foregate's own files it guards, the MCP servers, and remarks."""

    policy: Policy
    followed: FollowedPolicy
    guard: list[str]
    servers: list[ServerConfiguration]
    remarks: list[str]


def protect_own_files(setting: SessionOptions, root: Path, own: tuple[Path, ...], looked_for: list[Path]) -> Rules:
    """Return the policy of a setting, with the files Foregate itself reads protected from the agent."""
    from foregate.agent.tools.custom_source import find_file
    from foregate.assembly.followed_policy import FollowedPolicy
    from foregate.assembly.own_secrets import find_protected_globs
    from foregate.assembly.remote import find_own_files, read_mcp_servers
    from foregate.policy.policy import Policy
    from foregate.policy.source.load import add_protected_globs

    named = None if isinstance(setting.policy, Policy) else find_policy_file(setting.policy, setting.environ)
    followed = FollowedPolicy(None if setting.serving else named)
    loaded, policy = choose_policy(setting, root)
    configured, remarks = read_mcp_servers(setting)
    modules = [file for file in map(find_file, setting.tool_modules) if file is not None]
    files = [*looked_for, *modules, *find_own_files(setting, configured), *([] if named is None else [named])]
    guard = find_protected_globs(root, own, files)
    policy = add_protected_globs(policy, guard)
    if setting.serving:
        from foregate.agent.serving.tool_server import narrow_policy

        policy = narrow_policy(policy)
    followed.hold(policy, loaded, guard)
    return Rules(policy, followed, guard, configured, remarks)


async def record_switches(session: Session, setting: SessionOptions, dialect: str, mode: PlanMode) -> None:
    """Record what the setting wants otherwise than the log has it: dialect, dry run and mode."""
    state = session.state
    if dialect != state.dialect:
        await session.record(Draft(PolicyChanged(dialect=dialect), "person"))
    if setting.dry_run and not state.dry_run:
        await session.record(Draft(PolicyChanged(dry_run=True), "person"))
    mode = mode if setting.mode is None else setting.mode
    if not setting.resume and mode != state.mode:
        await session.record(Draft(PolicyChanged(mode=mode), "person"))


def wrap_in_dialect(configuration: Configuration, policy: Policy, dialect: str, model: Model) -> Model:
    """Return the model as one that makes its calls in a dialect; raise UsageError for one nobody knows."""
    from foregate.agent.dialects.dialect_model import build_dialect_model
    from foregate.agent.dialects.tags.names import Names

    names = Names.from_json(configuration.dialect.model_dump(exclude={"name"}))
    return build_dialect_model(model, dialect, names, shell=policy.commands.execute_command == "run_shell")


async def read_beginning(log: Log, name: str) -> SessionStarted:
    """Return what a session of the log began with; raise LogError for a session without a beginning."""
    first = await log.read(name, limit=1)
    if not first or not isinstance(first[0].body, SessionStarted):
        raise LogError(f"session `{name}` does not begin as a session; `foregate audit verify` tells more")
    return first[0].body


def choose_model(setting: SessionOptions) -> tuple[Model, tuple[str, ...]]:
    """Return the session's model and what a person should know of the choice.

    Its address is OPENAI_BASE_URL, else that of the configuration's execution or planning model. Without any the
    rehearsal model serves, unless a name or a key asks for an endpoint: UsageError then.
    """
    if setting.model is not None and not isinstance(setting.model, str):
        return setting.model, ()
    from foregate.agent.models.openai.model import from_environment
    from foregate.agent.models.rehearsal.model import RehearsalModel

    environ, wanted = setting.environ, setting.model or ""
    if REHEARSAL in (wanted, environ.get("FOREGATE_MODEL") if not wanted else ""):
        return RehearsalModel(), ()
    if not environ.get("OPENAI_BASE_URL", "").strip():
        models = choose_configuration(setting)[0].models
        if named := next((one for one in (models.execution, models.planning) if one.base_url), None):
            environ, wanted = name_endpoint(named, environ), wanted or named.model
            environ = {**environ, "FOREGATE_API": named.api} if named.api else environ
    kept = open_learnt(environ)
    model = from_environment(environ, model=wanted, on_retry=setting.on_retry, kept=kept)
    problem = (kept.problem,) if kept.problem else ()
    return (model, problem) if model is not None else (RehearsalModel(), (NO_ENDPOINT,))


def name_provider(model: Model) -> str:
    """Return whose kind of endpoint a model is, as OpenTelemetry names it: the wire spoken, not who serves it."""
    from foregate.agent.models.openai.model import OpenAIModel

    model = getattr(model, "inner", model)
    return "openai" if isinstance(model, OpenAIModel) else "foregate" if model.name == REHEARSAL else "custom"


def choose_policy(setting: SessionOptions, workspace: Path) -> tuple[LoadedPolicy | None, Policy]:
    """Return the policy in force; a Policy object is taken as it is, a file goes over the defaults."""
    from foregate.policy.policy import Policy

    if isinstance(setting.policy, Policy):
        return None, setting.policy
    from foregate.policy.source.load import load_policy_layers

    loaded = load_policy_layers(find_policy_file(setting.policy, setting.environ), workspace)
    return loaded, loaded.policy


def choose_configuration(setting: SessionOptions) -> tuple[Configuration, list[Path]]:
    """Return the configuration in force, and the places one is read from by this session or by the next."""
    from foregate.agent.planning.format.configuration import FILE, Configuration, load_configuration

    usual = FILE.get_place(environ=setting.environ)
    if isinstance(setting.config, Configuration):
        return setting.config, [usual]
    configuration = load_configuration(setting.config, setting.environ)
    return configuration, list(dict.fromkeys([usual, FILE.get_place(setting.config, setting.environ)]))


def find_policy_file(wanted: Path | str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the user's policy file: the one asked for, else FOREGATE_POLICY, else None; a Path is always a path."""
    from foregate.policy.source.load import resolve_policy_file

    if isinstance(wanted, Path):
        return wanted.expanduser()
    named = wanted or environ.get("FOREGATE_POLICY")
    return resolve_policy_file(named) if named else None
