"""Opening a session in one of three ways: fresh, resumed, or following one that has ended."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foregate.agent.loop.reconcile import reconcile_remote_calls, resume
from foregate.agent.loop.runner import run_child_task
from foregate.agent.loop.undo import encode_previews
from foregate.agent.planning.controller import PlanController
from foregate.agent.session.interaction import AbsentPerson
from foregate.agent.session.linked import Lineage, draft_switches, fold_lineage
from foregate.agent.session.session import Session
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.work_sandbox import sweep_sandboxes
from foregate.assembly.choices import choose_configuration, name_provider, protect_own_files, wrap_in_dialect
from foregate.assembly.home import SessionPlace, find_fresh_name
from foregate.assembly.identity import find_identity
from foregate.assembly.model_roles import ModelRoles, price_model
from foregate.assembly.own_secrets import find_own_secrets
from foregate.assembly.remote import connect_runtime, list_remarks
from foregate.assembly.session_tools import open_local_tools
from foregate.assembly.setting import SessionOptions
from foregate.evidence.state.lineage import begin_further
from foregate.evidence.state.session import SessionState
from foregate.policy.source.load import record_layers
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event import Draft
from foregate.schemas.event_body import PolicyChanged, SessionStarted
from foregate.schemas.protocols import Lease, Log, Model, ToolSource
from foregate.schemas.tool_spec import ResourceKind
from foregate.telemetry.decision_lines import open_decision_lines
from foregate.telemetry.log.masking import Secret, mask_text
from foregate.telemetry.otel.switch import open_telemetry

if TYPE_CHECKING:
    from foregate.agent.tools.remote_connection import RuntimeConnection
    from foregate.agent.workspace.workspace import Workspace


_OWN_HASH = 16
"""Characters of the hash of a session's first event that tell it from others of its name, for a runtime."""


async def open_fresh(opening: Opening) -> Session:
    """Begin a new session in the folder of the setting."""
    setting, log = opening.setting, opening.place.log
    name = await find_fresh_name(log)
    await opening.prepare(setting.workspace)
    session = opening.build_session(await opening.claim(name, create=True), None)
    await session.start(**opening.describe(), agent=setting.agent)
    await opening.finish(session, name)
    mode = opening.configuration.mode if setting.mode is None else setting.mode
    if mode != session.state.mode:
        await session.record(Draft(PolicyChanged(mode=mode), "person"))
    return session


async def open_resumed(opening: Opening, lineage: Lineage, began: SessionStarted) -> Session:
    """Continue a session in its own log."""
    log, before = opening.place.log, await find_root(opening.place.log, lineage.name, began)
    await opening.prepare(before, began)
    lease = await opening.claim(lineage.name, create=False)
    if opening.telemetry is not None:
        opening.telemetry.recall(await log.read(lineage.name))
    state = await opening.read_state(lineage, before)
    session = opening.build_session(lease, state)
    session.log.follow(lineage.before)
    if opening.has_moved(before):
        await session.record(*session.draft_policy(), opening.draft_move())
    await resume(session)
    await opening.finish(session, (*lineage.before, lineage.name)[0])
    return session


async def open_following(opening: Opening, lineage: Lineage, began: SessionStarted) -> Session:
    """Begin a session that knows what one that has ended did, and the ones that it followed."""
    assert lineage.follows is not None
    ended = f"session {lineage.follows.session} has ended; what is done now is recorded in session {lineage.name}"
    opening.notes.append(ended)
    before = await find_root(opening.place.log, lineage.newest, began)
    await opening.prepare(before, began)
    lease = await opening.claim(lineage.name, create=True)
    state = await opening.read_state(lineage, before)
    begin_further(state)
    session = opening.build_session(lease, state)
    known = {"agent": opening.setting.agent or began.agent, "remotes": began.remotes, "follows": lineage.follows}
    started = await session.draft_start(**opening.describe(), **known)
    session.log.follow(lineage.before, started, *draft_switches(state))
    if opening.has_moved(before):
        await session.record(opening.draft_move())
    await opening.finish(session, lineage.before[0])
    return session


class Opening:
    """The parts that a session is opened with: each step uses what the steps before it made.

    `notes` are what a person should know. `resources` close, in the opposite order, what was opened.
    """

    workspace: LocalWorkspace
    source: ToolSource

    def __init__(
        self,
        setting: SessionOptions,
        place: SessionPlace,
        model: Model,
        notes: tuple[str, ...],
        resources: AsyncExitStack,
    ) -> None:
        self.setting, self.place, self.model, self.resources = setting, place, model, resources
        self.configuration, self._looked_for = choose_configuration(setting)
        self.notes, self.dialect = list(notes), setting.dialect or ""
        self.runtime: RuntimeConnection | None = None
        if model is not setting.model:
            price_model(model, self.configuration)

    async def prepare(self, root: Path | str, began: SessionStarted | None = None) -> None:
        """Open the workspace, read the policy and open the tools; nothing of it is written down."""
        setting, resources = self.setting, self.resources
        moved = setting.moved_to if began is not None else None
        self.workspace = LocalWorkspace(root if moved is None else moved, self.place.sandboxes)
        resources.callback(self.workspace.close)
        self.rules = rules = protect_own_files(setting, self.workspace.root, self.place.own, self._looked_for)
        self._speak = partial(wrap_in_dialect, self.configuration, rules.policy)
        if began is None:
            self.dialect = self.dialect or self.configuration.dialect.name
        # An unknown one is refused before anything is written.
        self._speak(self.dialect or "native", self.model)
        await self._open_tools(None if began is None else began.runtime)

    async def _open_tools(self, recorded: str | None) -> None:
        """Open the tools of this process, or those of a runtime; `recorded` is the runtime of a resumed session."""
        setting, rules, resources = self.setting, self.rules, self.resources
        self.source = Toolbox([])
        self.runtime = await connect_runtime(setting, rules.policy, recorded)
        if self.runtime is not None:
            from foregate.agent.tools.remote_tools import RemoteTools

            resources.push_async_callback(self.runtime.close)
            rules.remarks.extend(list_remarks(rules.policy, rules.servers))
            self.source = RemoteTools(self.runtime)
        elif recorded:
            self.notes.append(f"the tools of this session ran in the runtime {recorded}; it has none without --runtime")
        else:
            at = self.workspace, self.place.memory
            make_tools, remarks = await open_local_tools(setting, at, rules.policy, rules.servers, resources)
            rules.remarks.extend(remarks)
            rules.followed.make_tools, self.source = make_tools, make_tools(rules.policy)

    async def claim(self, name: str, *, create: bool) -> Lease:
        """Claim the session's log, tidy up beside it, and start telemetry."""
        rules, resources = self.rules, self.resources
        lease = await self.place.log.claim(name, create=create)
        if lease.succeeded:
            self.notes.append(f"{lease.succeeded} left this session open and is gone; the session goes on here")
        resources.push_async_callback(self.place.log.release, lease)
        sweeps = (self.workspace.sweep,), (sweep_sandboxes, self.workspace, rules.policy)
        resources.push_async_callback(asyncio.wait, [asyncio.ensure_future(asyncio.to_thread(*one)) for one in sweeps])
        rules.followed.find_secrets = lambda policy: find_own_secrets(
            self.setting.environ, policy.sensitive, [self.model], rules.servers, self.setting.secrets
        )
        self.secrets: tuple[Secret, ...] = rules.followed.find_secrets(rules.policy)
        self.telemetry, self._said = open_telemetry(self.setting.environ, name_provider(self.model), self.secrets)
        if self.telemetry is not None:
            resources.push_async_callback(self.telemetry.close)
        return lease

    async def read_state(self, lineage: Lineage, before: str) -> SessionState:
        """Return the state that the log leads to; a workspace that has moved is compared with what the state knows."""
        state = await fold_lineage(self.place.log, lineage, self.notes.append)
        if self.has_moved(before):
            most = self.rules.policy.files.max_hash
            self.notes.append(check_moved(self.workspace, state, before, max_hash=most))
        return state

    def has_moved(self, before: str) -> bool:
        """Whether the workspace is another folder than the session's log says."""
        return str(self.workspace.root) != before

    def draft_move(self) -> Draft:
        """Return the event that says where the workspace is now."""
        return Draft(PolicyChanged(workspace=str(self.workspace.root)), "person")

    def describe(self) -> dict[str, Any]:
        """Return what the first event of a session says of its dialect and its runtime."""
        runtime = self.runtime.url if self.runtime is not None else ""
        return {"dialect": self.dialect if self.dialect != "native" else "", "runtime": runtime}

    def build_session(self, lease: Lease, state: SessionState | None) -> Session:
        """Return the session; nothing of it is recorded yet."""
        setting, place, rules, configuration = self.setting, self.place, self.rules, self.configuration
        self.dialect = self.dialect or (state.dialect if state is not None else "native")
        person = setting.person
        if person is None and state is not None and state.waits_for_person:
            # What waits for a person goes on waiting: nobody here says no in their place.
            person = AbsentPerson()
        model = self._speak(self.dialect, self.model)
        speak = partial(self._speak, self.dialect)
        self.roles = roles = ModelRoles(configuration, model, setting.environ, speak, setting.on_retry)
        self.resources.push_async_callback(roles.close)
        exported = [self.telemetry.take_event] if self.telemetry is not None else []
        return Session(
            log=place.log,
            lease=lease,
            blobs=place.blobs,
            model=model,
            tools=self.source,
            policy=rules.policy,
            workspace=self.workspace,
            state=state,
            person=person,
            listeners=(*setting.listeners, *exported, *(lines.take_event for lines in open_decision_lines())),
            layers=record_layers(rules.followed.loaded, rules.guard),
            delegate=run_child_task,
            plan_driver=lambda session: PlanController(session, configuration, roles.get_model),
            prefetch=configuration.streaming.execute == "observations",
            on_text=setting.on_text,
            secrets=self.secrets,
            declarations=place.declarations,
            permissions=place.permissions(self.workspace.root) if place.permissions is not None else None,
            preview=encode_previews,
            by=setting.by or find_identity("program"),
            follow_policy=rules.followed,
        )

    async def finish(self, session: Session, oldest: str) -> None:
        """Name the session to its runtime, find out how calls there ended, and record the switches that are wanted."""
        setting, state = self.setting, session.state
        if self.runtime is not None:
            (first,) = await self.place.log.read(oldest, limit=1)
            # A name no other session has, and that stays.
            self.runtime.agent = f"{oldest}-{first.hash[:_OWN_HASH]}"
            await reconcile_remote_calls(session)
        if self.dialect != state.dialect:
            await session.record(Draft(PolicyChanged(dialect=self.dialect), "person"))
        if setting.dry_run and not state.dry_run:
            await session.record(Draft(PolicyChanged(dry_run=True), "person"))

    def list_notes(self, session: Session) -> tuple[str, ...]:
        """Return what a person should know, without secrets."""
        session.permissions.list_given()
        kept = filter(None, (*session.declarations.notes, session.permissions.problem))
        told = *self.notes, *self._said, *self.rules.remarks, *kept
        return tuple(mask_text(note, session.hidden) for note in told)


_LOOKED_AT, _NAMED = 500, 3
"""Files that are looked at, and that a sentence names, at most."""


async def find_root(log: Log, name: str, began: SessionStarted) -> str:
    """Return the folder a session works in: where it began, or where a person said last that it was moved to."""
    from foregate.agent.session.session_log import read_kept_state

    kept = await read_kept_state(log, name)
    seq, root = (kept.seq, kept.root) if kept is not None else (0, began.workspace)
    changes = await log.read(name, after=seq, kinds=("policy_changed",))
    moves = (event.body.workspace for event in reversed(changes) if isinstance(event.body, PolicyChanged))
    return next((moved for moved in moves if moved is not None), root)


def check_moved(workspace: Workspace, state: SessionState, before: str, *, max_hash: int) -> str:
    """Return what a person should know of a folder they named as the workspace of a session.

    Raises WorkspaceError where it is evidently another one: none of the files that the session knew is there as it
    was. Where a few of many are that proves little; but nothing that was observed before counts there. Files of up to
    `max_hash` bytes are looked at.
    """
    known = {}
    for resource, records in state.ledger.resources().items():
        seen = max((one for one in records if one.hash), key=lambda one: one.seq, default=None)
        if resource.kind is ResourceKind.FILE and seen is not None:
            known[resource.id] = seen.hash
    newest = list(known)[-_LOOKED_AT:]
    same = [path for path in newest if _hash_file(workspace, path, max_hash) == known[path]]
    root, still = workspace.root, "; the old folder is still there" if Path(before).is_dir() else ""
    if not newest:
        return f"the workspace is now `{root}`, on your word alone: the session knew no file of it{still}"
    if not same:
        named = ", ".join(f"`{path}`" for path in newest[-_NAMED:])
        why = f"none of the {len(newest)} files that the session knew is there as it was ({named})"
        raise WorkspaceError(f"`{root}` is not what `{before}` was: {why}; name the folder that was moved")
    alike = f"{len(same)} of {len(newest)} files that the session knew are as they were"
    return f"the workspace is now `{root}`: {alike}; what was observed before has to be looked at again{still}"


def _hash_file(workspace: Workspace, path: str, max_hash: int) -> str:
    try:
        found = workspace.look(path, max_hash=max_hash)
    except WorkspaceError:
        return ""
    return found.hash if found.kind == "file" else ""
