"""What a program changed in its sandbox, as a survey: what is judged before any of it counts."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import get_args

from msgspec.structs import replace

from foregate.agent.survey.committed_secrets import find_committed_secrets, split_git_path
from foregate.agent.survey.git_losses import GitLosses
from foregate.agent.survey.git_objects import GitObjects
from foregate.agent.workspace.git_repository import find_repository, seek_repository
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import find_protection, is_beneath
from foregate.policy.risk.self_running import RUNS_BY_ITSELF, FileContents, is_self_running
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.sandbox import PathChange, SandboxedChanges
from foregate.schemas.tool_call import Loss, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, worse_of

_KINDS = {"directory": ResourceKind.DIRECTORY, "link": ResourceKind.FILE, "file": ResourceKind.FILE}
# "config", "hooks/pre-commit": git runs what these say; "hooks/pre-commit.sample" it never runs.
_RUNS = compile_late(
    r"(?:config(?:\.worktree)?|hooks/(?!.*\.sample$).*|info/attributes|modules/.+"
    r"|(?:objects/info/)?(?:http-)?alternates|commondir|gitdir|worktrees/.+/(?:commondir|gitdir))\Z",
    re.DOTALL,
)
"""What git runs or is told by, in its own folder."""
_COMPARED = 1 << 20
"""Bytes of a file that are compared line by line; of a larger one it is known only whether its content is another."""


class ChangeSurveyor:
    """Says of each path a sandbox changed what it is, what becomes of it, and what would be lost."""

    def __init__(self, workspace: Workspace, policy: Policy, state: SessionState, found: SandboxedChanges) -> None:
        self._workspace, self._policy, self._state, self._found = workspace, policy, state, found
        self._objects = GitObjects(workspace, found)
        self._after = {change.path: change.after for change in found.changes}
        self._made = {change.after.hash for change in found.changes if change.effect is not Effect.DELETE}
        self._gone = {change.before.hash for change in found.changes if change.effect is Effect.DELETE}

    def survey(self, call: ToolCall, changes: str, command: Survey) -> Survey:
        """Return the survey of a call by what it changed; `changes` names their blob, `command` is how it was judged.

        What asks or may be lost is named one by one; of all the rest there is one resource for each top folder.
        """
        named: list[SurveyedResource] = []
        rest: list[SurveyedResource] = []
        for change in self._found.changes:
            resource = self._survey_change(change)
            is_notable = resource.protected or resource.loses or resource.access is Effect.DELETE
            (named if is_notable and resource.kind is not ResourceKind.REPOSITORY else rest).append(resource)
        named += self._list_git_losses()
        named.sort(key=lambda one: (not one.protected, one.loses != "all", one.id))
        room = self._policy.files.max_survey // 2
        shown = list(_take_within(named, room))
        resources = (*shown, *_join_folders([*named[len(shown) :], *rest]))
        secrets = find_committed_secrets(self._found, command, self._workspace, self._policy)
        return Survey(
            call.id,
            None,
            resources,
            command.command,
            command.atoms,
            work=command.work,
            changes=changes,
            secrets=secrets,
        )

    def _survey_change(self, change: PathChange) -> SurveyedResource:
        path, before = change.path, change.before
        inside = split_git_path(path)
        if inside is not None:
            folder, name = inside
            leads_elsewhere = not name and "directory" not in (before.kind, change.after.kind)
            if _RUNS.match(name) or leads_elsewhere or (not name and change.effect is Effect.DELETE):
                kind = _KINDS.get((change.after.kind or before.kind), ResourceKind.OTHER)
                why = RUNS_BY_ITSELF if name or leads_elsewhere else "git_internal"
                return SurveyedResource(kind, path, change.effect, bool(before.kind), protected=why)
            if before.kind and before.hash != change.after.hash and self._objects.is_lost(path):
                return SurveyedResource(
                    ResourceKind.FILE,
                    path,
                    Effect.DELETE,
                    exists=True,
                    hash=before.hash,
                    size=before.size,
                    restorable=before.size <= self._policy.files.max_hash,
                    loses="all",
                )
            # Git makes none, and one may stand for its hooks.
            if change.after.kind == "link":
                kind, made = ResourceKind.FILE, change.effect
                return SurveyedResource(kind, path, made, bool(before.kind), protected=RUNS_BY_ITSELF)
            return SurveyedResource(ResourceKind.REPOSITORY, folder, Effect.EDIT, exists=True)
        kind = _KINDS.get(before.kind or change.after.kind, ResourceKind.OTHER)
        resource = Resource(kind, path)
        task = self._state.task
        return SurveyedResource(
            kind,
            path,
            change.effect,
            exists=bool(before.kind),
            hash=before.hash,
            size=before.size or change.after.size,
            protected="" if (change.after.kind or before.kind) == "directory" else self._find_protection(change),
            changed_before=task is not None and task.is_own(resource, change.effect),
            restorable=before.kind != "other" and before.size <= self._policy.files.max_hash,
            evidence=self._state.ledger.newest_records(resource),
            loses=self._find_loss(change, resource),
        )

    def _list_git_losses(self) -> list[SurveyedResource]:
        """Return what is gone of the repositories; where git cannot be asked about one, that counts as all of it."""
        inside = (split_git_path(change.path) for change in self._found.changes)
        lost: list[SurveyedResource] = []
        for folder in dict.fromkeys(found[0] for found in inside if found is not None and found[1]):
            task = self._state.task
            own = task is not None and task.is_own(Resource(ResourceKind.REPOSITORY, folder), Effect.DELETE)
            gone = SurveyedResource(ResourceKind.OTHER, "", Effect.DELETE, exists=True, changed_before=own, loses="all")
            lost += [replace(gone, id=strict_json.scrub(name)) for name in self._name_git_losses(folder)]
        return lost

    def _name_git_losses(self, folder: str) -> list[str]:
        git = ".git" if folder == "." else f"{folder}/.git"
        try:
            repository = seek_repository(self._workspace, self._policy, folder)
            # The command has made it.
            if repository is None or repository.git != git:
                return []
            lost = GitLosses(repository, self._found).list_lost()
            return [name if name.startswith(git) else repository.to_workspace_path(name) for name in lost]
        except (WorkspaceError, OSError):
            return [git]

    def _find_protection(self, change: PathChange) -> str:
        """Return why a path that is no folder is protected, "" where it is not."""
        if found := find_protection(change.path, self._policy):
            return found
        if change.effect is Effect.DELETE:
            return ""
        read, is_link = partial(self._read_versions, change), change.after.kind == "link"
        runs = is_self_running(change.path, self._policy, self._will_exist, read, is_link=is_link)
        return RUNS_BY_ITSELF if runs else ""

    def _will_exist(self, path: str) -> bool:
        """Whether something lies at a path once the changes are applied."""
        after = self._after.get(path)
        return bool(after.kind if after is not None else self._workspace.look(path).kind)

    def _read_versions(self, change: PathChange) -> FileContents | None:
        """Return a file now and as it would be, None where it is no file, too large or gone."""
        before, after = change.before, change.after
        if after.kind != "file" or max(before.size, after.size) > _COMPARED:
            return None
        try:
            old = self._workspace.read(change.path, limit=_COMPARED) if before.kind else None
            new = Path(self._found.upper, "upper", change.path).read_bytes() if self._found.upper else old
        except (WorkspaceError, OSError):
            return None
        return FileContents(old, new)

    def _find_loss(self, change: PathChange, resource: Resource) -> Loss:
        """Return what of a path would be gone that was there before, and that nothing of this session had made."""
        before = change.before
        if before.kind not in ("file", "link") or change.effect is Effect.CREATE or before.size == 0:
            return ""
        if before.hash == change.after.hash or self._is_own(resource, before.hash, change.effect):
            return ""
        caches = self._policy.files.executed_caches
        is_cache = any(part in caches for part in change.path.split("/"))
        if change.effect is Effect.DELETE and (is_cache or self._is_output(change.path)):
            return ""
        if self._is_in_git(change.path, self._read_before(change)):
            is_kept = self._changes_repository or self._is_moved(change) or self._keeps_a_line(change)
            return "" if is_kept else "git"
        if self._is_moved(change):
            return "moved"
        if change.after.kind and change.after.hash in self._gone:
            return "replaced"
        # What was not committed would be gone.
        takes_back = self._is_in_git(change.path, self._read_after(change))
        return "" if self._keeps_a_line(change) and not takes_back else "all"

    def _is_moved(self, change: PathChange) -> bool:
        """Whether what was there lies elsewhere now."""
        return change.effect is Effect.DELETE and change.before.hash in self._made

    def _is_own(self, resource: Resource, content: str, effect: Effect) -> bool:
        """Whether the session itself has put this content there, and of what would be deleted made the file, too."""
        task = self._state.task
        if effect is Effect.DELETE and (task is None or not task.is_own(resource, effect)):
            return False
        return any(seen.own_change and seen.hash == content for seen in self._state.ledger.newest_records(resource))

    def _is_output(self, path: str) -> bool:
        """Whether a path is a build's output: named like it, and ignored by git."""
        return is_beneath(path, self._policy.files.build_output) and path in self._ignored

    def _keeps_a_line(self, change: PathChange) -> bool:
        """Whether a file that was written anew holds a line of what it held; one in its place keeps none."""
        if change.after.kind != "file" or change.after.hash in self._gone:
            return False
        kept = {line.strip() for line in self._read_after(change).splitlines() if line.strip()}
        return any(line.strip() in kept for line in self._read_before(change).splitlines())

    def _read_before(self, change: PathChange) -> bytes:
        """Return what a file holds in the workspace, nothing of one that is too large to be compared."""
        if change.before.kind != "file" or change.before.size > _COMPARED:
            return b""
        try:
            return self._workspace.read(change.path, limit=_COMPARED)
        except WorkspaceError:
            return b""

    def _read_after(self, change: PathChange) -> bytes:
        if change.after.kind != "file" or change.after.size > _COMPARED:
            return b""
        try:
            return Path(self._found.upper, "upper", change.path).read_bytes()
        except OSError:
            return b""

    def _is_in_git(self, path: str, content: bytes) -> bool:
        """Whether the index has exactly this content under this path, so that git can bring it back."""
        known = self._tracked.get(path)
        if known is None or not content:
            return False
        kind = "sha1" if len(known) == 40 else "sha256"
        return hashlib.new(kind, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest() == known

    @cached_property
    def _changes_repository(self) -> bool:
        return any(split_git_path(change.path) is not None for change in self._found.changes)

    @cached_property
    def _tracked(self) -> Mapping[str, str]:
        """The objects of the index by their paths in the workspace, none where git cannot be asked."""
        entries = (entry.partition("\t") for entry in self._list_files("--stage"))
        return {name: about.split()[1] for about, _, name in entries}

    @cached_property
    def _ignored(self) -> frozenset[str]:
        """The files git ignores, none where it cannot be asked."""
        return frozenset(self._list_files("--others", "--ignored", "--exclude-standard"))

    def _list_files(self, *options: str) -> list[str]:
        """Return what `git ls-files` says, its paths as those of the workspace."""
        try:
            repository = find_repository(self._workspace, self._policy, ".")
            listed = repository.run("ls-files", "-z", *options).read_whole("what git knows")
        except WorkspaceError:
            return []
        entries = [os.fsdecode(entry).rpartition("\t") for entry in listed.split(b"\0") if entry]
        return [strict_json.scrub(f"{about}{tab}{repository.to_workspace_path(name)}") for about, tab, name in entries]


def _take_within(resources: Iterable[SurveyedResource], room: int) -> Iterator[SurveyedResource]:
    """Yield the first resources whose recorded form has at most `room` bytes."""
    for resource in resources:
        room -= len(strict_json.encode_record(strict_json.dump(resource)))
        if room < 0:
            return
        yield resource


def _join_folders(resources: Sequence[SurveyedResource]) -> list[SurveyedResource]:
    """Return one resource for each top folder, with the worst that becomes of it, and one for each repository."""
    found: dict[Resource, SurveyedResource] = {}
    for one in resources:
        is_single = one.kind is ResourceKind.REPOSITORY or "/" not in one.id
        kind, top = (one.kind, one.id) if is_single else (ResourceKind.DIRECTORY, one.id.partition("/")[0])
        known = found.get(Resource(kind, top))
        if known is None:
            joined = replace(one, kind=kind, id=top, evidence=(), hash=one.hash if one.id == top else "", entries=1)
        else:
            joined = replace(
                known,
                access=worse_of(known.access, one.access),
                exists=known.exists or one.exists,
                entries=known.entries + 1,
                protected=known.protected or one.protected,
                restorable=known.restorable and one.restorable,
                loses=max(known.loses, one.loses, key=get_args(Loss).index),
                hash="",
            )
        found[joined.resource] = joined
    return list(found.values())
