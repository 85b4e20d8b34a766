"""The only place that looks at the world before a call is judged."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

from msgspec.structs import replace

from foregate.agent.survey.argument_values import find_values
from foregate.agent.survey.command_arguments import find_holder, read_access, read_command
from foregate.agent.survey.own_values import find_own_values
from foregate.agent.survey.remote_survey import OPERANDS, carries_something, survey_remote_call
from foregate.agent.survey.secret_scan import SecretScan
from foregate.agent.survey.self_running import mark_self_running
from foregate.agent.tools.commands import list_operands
from foregate.agent.tools.http import parse_address
from foregate.agent.workspace import directory, git_repository
from foregate.agent.workspace.confinement import find_tier
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk import commands
from foregate.policy.risk.declared import find_tool_entry
from foregate.policy.risk.globs import find_protection, may_run_by_itself
from foregate.policy.risk.reading import CommandReading, is_held_read, is_read, list_scripts, read_command_line
from foregate.schemas import strict_json
from foregate.schemas.errors import NoPath, NotText, WorkspaceError
from foregate.schemas.protocols import ToolSource
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Command, Survey, SurveyedResource, Tier, ToolCall
from foregate.schemas.tool_spec import Catalogue, Effect, Resource, ResourceKind, TargetParameter, ToolSpec, worse_of

_ON_LINKS = (Effect.DELETE, Effect.MOVE)
"""Effects that act on a link itself and not on what it points to."""
_MOVE, _SEND = Effect.MOVE, Effect.SEND
_PROCESS, _REPOSITORY, _OTHER, _URL = (
    ResourceKind.PROCESS,
    ResourceKind.REPOSITORY,
    ResourceKind.OTHER,
    ResourceKind.URL,
)
_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY)
_STARTING = {ResourceKind.PROCESS, ResourceKind.REPOSITORY}
_KINDS = {"directory": ResourceKind.DIRECTORY, "file": ResourceKind.FILE, "link": ResourceKind.FILE}
_MAX_NAME = 512


class _Traits(NamedTuple):
    """What says how a tool's calls are surveyed: its targets, their kinds, whether it starts programs, and whether a
    call may need the user's authority."""

    targets: Sequence[TargetParameter]
    kinds: Sequence[ResourceKind]
    starts: bool
    may_need_somebody: bool


class Surveyor:
    """Looks at what each call names: files and directories of the workspace, repositories, commands, hosts.

    Looking runs nothing of a repository, opens nothing but regular files and follows no link out.
    """

    def __init__(self, workspace: Workspace, tools: ToolSource, policy: Policy, catalogue: Catalogue) -> None:
        self._workspace, self._tools, self._policy, self._catalogue = workspace, tools, policy, catalogue
        self._leaks = SecretScan(workspace, policy)
        self._traits: dict[str, _Traits] = {}

    def survey(self, calls: Sequence[ToolCall], state: SessionState) -> tuple[Survey, ...]:
        """Return what looking finds for each call."""
        return tuple([self.survey_call(call, state) for call in calls])

    def survey_call(self, call: ToolCall, state: SessionState, *, again: bool = False) -> Survey:
        """Return what looking finds for a call, in `problem` what prevents it; with `again` only what may change."""
        spec = self._catalogue.get(call.name)
        if spec is None or call.arguments is None:
            return Survey(call.id)
        if spec.is_elsewhere:
            remote = survey_remote_call(self._tools, spec, call, state, self._policy)
            return remote if remote.problem else find_values(call, spec, remote, state, self._policy, self._catalogue)
        traits = self._traits.get(call.name) or self._learn_traits(spec)
        declared = None if again else self._tools.classify(call)
        try:
            declared = self._tools.classify(call) if again else declared
            meant = {**call.arguments, **self._tools.fill_arguments(call)}
            tier: Literal["", Tier] = find_tier(self._workspace, self._policy)["tier"] if traits.starts else ""
            if (
                declared is not None
                and declared is Effect.OBSERVATION
                and ResourceKind.URL in traits.kinds
                and carries_something(meant, state.atoms, self._policy)
            ):
                declared = Effect.SEND
            resources = tuple(self._survey_resources(spec, traits.targets, meant, declared, state, tier))
            if _may_run_later(resources, self._policy):
                resources = mark_self_running(resources, call, self._workspace, self._tools, self._policy)
            command = self._find_command(traits, meant, state, tier) if _PROCESS in traits.kinds else None
            if again:
                return Survey(call.id, resources=resources, command=command)
            named = [resource.id for resource in resources]
            named += command.argv[:OPERANDS] if command is not None else ()
            atoms = state.atoms.find_argument_atoms(call.arguments, named)
            found = Survey(call.id, declared, resources, command, atoms, confinement=tier)
            if command is not None:
                work, unheld = find_holder(self._workspace, self._policy, spec, command)
                found = replace(found, work=work, unheld=unheld)
            if secrets := self._find_secrets(spec, call, found):
                found = replace(found, secrets=secrets)
            if traits.may_need_somebody:
                found = find_values(call, spec, found, state, self._policy, self._catalogue)
            elif command is not None or spec.effect is _SEND:
                found = find_own_values(self._workspace, call, spec, found, state, self._policy)
        except WorkspaceError as error:
            return Survey(call.id, declared_effect=None if again else declared, problem=str(error))
        bound = self._policy.files.max_survey
        size = _estimate_size(found)
        if size > bound // 2:
            size = len(strict_json.canonical(strict_json.dump(found)))
        if size > bound:
            why = f"the call names too much to be looked at ({size} of {bound} bytes); split it into smaller calls"
            return Survey(call.id, declared_effect=declared, problem=why)
        return found

    def _learn_traits(self, spec: ToolSpec) -> _Traits:
        """Return what surveying the calls of a tool hangs on, which is worked out at the first of them."""
        targets = find_targets(spec, self._policy)
        starts = spec.provenance == "builtin" and any(target.kind in _STARTING for target in spec.targets)
        found = _Traits(targets, [target.kind for target in targets], starts, spec.may_need_somebody)
        self._traits[spec.name] = found
        return found

    def _survey_resources(
        self,
        spec: ToolSpec,
        targets: Sequence[TargetParameter],
        arguments: Mapping[str, Json],
        declared: Effect | None,
        state: SessionState,
        tier: Literal["", Tier],
    ) -> list[SurveyedResource]:
        found: list[SurveyedResource] = []
        for target in targets:
            given = arguments.get(target.parameter, target.default)
            if target.kind is _PROCESS:
                found += self._survey_process(target, given, arguments, state, tier)
                continue
            for name in [given] if isinstance(given, str) else given if isinstance(given, list) else []:
                if isinstance(name, str) and name:
                    found += self._survey_name(spec, target, name, declared, state)
        return found

    def _survey_name(
        self, spec: ToolSpec, target: TargetParameter, name: str, declared: Effect | None, state: SessionState
    ) -> Iterable[SurveyedResource]:
        if target.kind in _PATHS:
            follow = target.access not in _ON_LINKS and spec.effect not in _ON_LINKS
            return [self._survey_path(target.kind, target.access, name, state, follow=follow)]
        if target.kind is ResourceKind.REPOSITORY:
            return [self._survey_repository(target.access, name, state)]
        access = worse_of(target.access, declared) if declared is not None else target.access
        names = [Resource(target.kind, name)]
        if target.kind is ResourceKind.URL:
            # Raises WorkspaceError for an unclear one.
            address = parse_address(name)
            names = [Resource(ResourceKind.URL, address.url), Resource(ResourceKind.HOST, address.host)]
        return [_name_resource(resource, access, state) for resource in names]

    def _resolve(self, name: str, *, follow: bool = True) -> str | None:
        """Return a path of the workspace, None for one outside, which is named and never looked at."""
        try:
            return self._workspace.resolve(name, follow=follow)
        except (NoPath, NotText):
            raise
        except WorkspaceError:
            return None

    def _survey_path(
        self, kind: ResourceKind, access: Effect, name: str, state: SessionState, *, follow: bool = True
    ) -> SurveyedResource:
        path = self._resolve(name, follow=follow)
        if path is None:
            return SurveyedResource(kind, name[:_MAX_NAME], access, protected="outside_workspace")
        found = self._workspace.look(path, max_hash=self._policy.files.max_hash)
        kind = _KINDS.get(found.kind, _OTHER) if found.kind else kind
        resource = Resource(kind, path)
        surveyed = SurveyedResource(
            kind,
            path,
            access,
            exists=bool(found.kind),
            hash=found.hash,
            size=found.size,
            links=found.links,
            protected=find_protection(path, self._policy),
            changed_before=state.task is not None and state.task.is_own(resource, access),
            restorable=found.size <= self._policy.files.max_hash if found.kind == "file" else found.kind != "other",
            evidence=state.ledger.newest_records(resource),
        )
        if found.kind != "directory" or access not in _ON_LINKS:
            return surveyed
        # it would be deleted or moved with what is in it; one protected thing protects it
        listed = directory.list_tree(self._workspace, path, self._policy.files.max_entries)
        names = (strict_json.scrub(entry.path) for entry in listed.entries)
        inside = next((why for name in names if (why := find_protection(name, self._policy))), "")
        kept = listed.complete
        if access is not Effect.MOVE:
            kept = directory.is_restorable(listed, self._policy.files.max_hash)
        protected, count = surveyed.protected or inside, len(listed.entries)
        return replace(surveyed, hash=listed.hash, entries=count, protected=protected, restorable=kept)

    def _survey_repository(self, access: Effect, name: str, state: SessionState) -> SurveyedResource:
        """Return the repository a path lies in, for a change with the hash of its state."""
        kind = ResourceKind.REPOSITORY
        if self._resolve(name) is None:
            return SurveyedResource(kind, name[:_MAX_NAME], access, protected="outside_workspace")
        try:
            found = git_repository.find_repository(self._workspace, self._policy, name)
        except WorkspaceError:
            if access.changes:
                raise
            return SurveyedResource(kind, name[:_MAX_NAME], access)
        if access.changes:
            found.check_safe()
        resource = Resource(kind, found.id)
        return SurveyedResource(
            kind,
            found.id,
            access,
            exists=True,
            hash=found.compute_state() if access.changes else "",
            changed_before=state.task is not None and state.task.is_own(resource, access),
            evidence=state.ledger.newest_records(resource),
        )

    def _survey_process(
        self,
        target: TargetParameter,
        given: Json,
        arguments: Mapping[str, Json],
        state: SessionState,
        tier: Literal["", Tier],
    ) -> Iterable[SurveyedResource]:
        """Yield a command as its words; of one that only observes also the files it names."""
        command = read_command(given)
        if command is None:
            return
        text, cwd = command.shell or shlex.join(command.argv), arguments.get("cwd")
        reads = is_read(command, self._policy, tier)
        access = Effect.OBSERVATION if reads else target.access
        yield _name_resource(Resource(ResourceKind.PROCESS, text), access, state)
        if is_held_read(command, self._policy, tier):
            yield from self._survey_operands(read_command_line(command, self._policy), cwd, state)
        elif reads:
            yield from self._survey_listed(command, cwd, state)

    def _survey_operands(self, reading: CommandReading, cwd: Json, state: SessionState) -> Iterable[SurveyedResource]:
        """Yield what a command in a read sandbox names; what it does not name and is secret is not there."""
        found: dict[str, SurveyedResource] = {}
        for name in (*reading.operands, *reading.texts):
            named = self._survey_path(ResourceKind.FILE, Effect.OBSERVATION, _place_word(name, cwd), state)
            if named.exists or (named.protected and name in reading.operands):
                found.setdefault(named.id, named)
        yield from found.values()

    def _survey_listed(self, command: Command, cwd: Json, state: SessionState) -> Iterable[SurveyedResource]:
        """Yield what a command of the short list names, and the folders in which it could read secrets."""
        beneath_too = commands.can_read_beneath(command, self._policy)
        for word in dict.fromkeys(list_operands(command.argv)):
            named = self._survey_path(ResourceKind.FILE, Effect.OBSERVATION, _place_word(word, cwd), state)
            if named.exists or named.protected:
                yield self._protect_searched_folder(named) if beneath_too else named
        if beneath_too and len(commands.find_operands(command, self._policy)) < 2:
            here = cwd if isinstance(cwd, str) else "."
            folder = self._survey_path(ResourceKind.DIRECTORY, Effect.OBSERVATION, here, state)
            yield self._protect_searched_folder(folder)

    def _protect_searched_folder(self, surveyed: SurveyedResource) -> SurveyedResource:
        """Return a directory whose files a command reads; one that usually holds secrets, or too much, protects it."""
        if surveyed.kind is not ResourceKind.DIRECTORY or not surveyed.exists or surveyed.protected:
            return surveyed
        listed = directory.list_tree(self._workspace, surveyed.id, self._policy.files.max_entries)
        names = (strict_json.scrub(entry.path) for entry in listed.entries)
        holds = not listed.complete or any(find_protection(name, self._policy) == "secret" for name in names)
        return replace(surveyed, protected="secret" if holds else "")

    def _find_command(
        self, traits: _Traits, arguments: Mapping[str, Json], state: SessionState, tier: Literal["", Tier]
    ) -> Command | None:
        """Return the command a call would run and where, None for a call that runs none."""
        for target in traits.targets:
            if target.kind is ResourceKind.PROCESS:
                command = read_command(arguments.get(target.parameter)) or Command(problem="no command was given")
                cwd, here = arguments.get("cwd"), ""
                if isinstance(cwd, str):
                    here = self._survey_path(ResourceKind.DIRECTORY, Effect.OBSERVATION, cwd, state).id
                reads = is_read(command, self._policy, tier)
                there = () if reads else self._find_named_paths(command, cwd)
                scripts = "" if reads else self._hash_scripts(command, cwd)
                command = replace(command, access=read_access(arguments.get("access")), scripts=scripts)
                return replace(command, folder="" if here == "." else here, there=there)
        return None

    def _hash_scripts(self, command: Command, cwd: Json) -> str:
        """Return one hash over what stands in the files of the workspace that a command runs by name."""
        found: dict[str, Json] = {}
        for words in list_scripts(read_command_line(command, self._policy), self._policy):
            files = (self._look_at_file(_place_word(word, cwd)) for word in words[:OPERANDS])
            found |= next(filter(None, files), {})
        return strict_json.sha256(strict_json.canonical(found)) if found else ""

    def _look_at_file(self, name: str) -> dict[str, Json]:
        """Return the hash of a file of the workspace by its path, nothing for what is none."""
        with suppress(WorkspaceError):
            path = self._workspace.resolve(name)
            seen = self._workspace.look(path, max_hash=self._policy.files.max_hash)
            return {path: seen.hash} if seen.kind == "file" else {}
        return {}

    def _find_named_paths(self, command: Command, cwd: Json) -> tuple[str, ...]:
        """Return the existing paths that a changing command names. In a folder named last, also those with the name of
        another one: `mv a.txt old/` replaces `old/a.txt`."""
        if not command.argv:
            return ()
        words = list(dict.fromkeys(list_operands(command.argv)))[:OPERANDS]
        inside = [f"{words[-1].rstrip('/')}/{word.rstrip('/').rpartition('/')[2]}" for word in words[:-1]]
        found: dict[str, None] = {}
        for word in (*words, *inside):
            try:
                path = self._workspace.resolve(_place_word(word, cwd), follow=False)
                if path != "." and self._workspace.look(path).kind:
                    found[path] = None
            except WorkspaceError:
                continue
        return tuple(found)

    def _find_secrets(self, spec: ToolSpec, call: ToolCall, survey: Survey) -> tuple[str, ...]:
        """Return which kinds of secrets a commit or a send would carry, never the secrets themselves."""
        found: list[str] = []
        leaves = spec.declared is not None or spec.effect is _SEND or survey.declared_effect is _SEND
        for resource in survey.resources:
            if resource.kind is not _REPOSITORY:
                leaves = leaves or resource.kind is _URL
                continue
            if resource.access is Effect.COMMIT and not resource.protected:
                repository = git_repository.find_repository(self._workspace, self._policy, resource.id)
                found += [*self._leaks.scan_staged(repository), *self._leaks.scan_call(call)]
            if spec.effect is Effect.SEND:
                found += self._leaks.scan_push(resource.id, (call.arguments or {}).get("branch"))
        if survey.command is not None:
            cwd = (call.arguments or {}).get("cwd")
            found += self._leaks.scan_command(survey.command, cwd if isinstance(cwd, str) else ".")
        if leaves:
            found += self._leaks.scan_call(call)
        return tuple(dict.fromkeys(found))


def find_targets(spec: ToolSpec, policy: Policy) -> Sequence[TargetParameter]:
    """Return the operator's targets for a tool, else the tool's own."""
    entry = find_tool_entry(spec, policy)
    if entry is not None and entry.targets is not None:
        return tuple(TargetParameter(name, t.kind, t.access) for name, t in entry.targets.items())
    return spec.targets


def _may_run_later(resources: Iterable[SurveyedResource], policy: Policy) -> bool:
    """Whether one is changed that a program may run; a folder or link that is moved may lead to such a thing."""
    for one in resources:  # noqa: SIM110 - every turn passes here, and a generator takes three times as long
        if one.access is _MOVE or (one.access.changes and may_run_by_itself(one.id, policy)):
            return True
    return False


def _name_resource(resource: Resource, access: Effect, state: SessionState) -> SurveyedResource:
    evidence = state.ledger.newest_records(resource)
    return SurveyedResource(resource.kind, resource.id, access, exists=True, evidence=evidence)


def _place_word(word: str, cwd: Json) -> str:
    return word if word.startswith("/") or not isinstance(cwd, str) else f"{cwd}/{word}"


def _estimate_size(survey: Survey) -> int:
    """Return more bytes than the recorded form of a small survey has, without writing it."""
    words, size = [*survey.secrets], 500
    for resource in survey.resources:
        size += 4 * len(resource.id) + 250 * (1 + len(resource.evidence))
    for atom in survey.atoms:
        size += 4 * len(atom.text) + 60
    if command := survey.command:
        words += (*command.argv, *command.there, command.shell)
    return size + 4 * (sum(map(len, words)) + len(words))
