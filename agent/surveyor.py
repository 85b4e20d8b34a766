"""The only place that looks at the world before a call is judged."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence

from foregate.agent.session_state import SessionState
from foregate.agent.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.protocols import ToolSource
from foregate.schemas.resource import Resource, ResourceKind
from foregate.schemas.strict_json import Json
from foregate.schemas.survey import Survey, SurveyedResource
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import Catalogue, TargetParameter, ToolSpec


class Surveyor:
    """Looks at what each call names: files and directories of the workspace, repositories, commands, hosts."""

    def __init__(self, workspace: Workspace, tools: ToolSource, policy: Policy, catalogue: Catalogue) -> None:
        self._workspace, self._tools, self._policy, self._catalogue = workspace, tools, policy, catalogue

    def survey(self, calls: Sequence[ToolCall], state: SessionState) -> tuple[Survey, ...]:
        """Return what looking finds for each call."""
        return tuple(self.look(call, state) for call in calls)

    def look(self, call: ToolCall, state: SessionState) -> Survey:
        """Return what looking finds for one call; what prevents looking is said in `problem`."""
        spec = self._catalogue.get(call.name)
        if spec is None or call.arguments is None:
            return Survey(call.id)
        try:
            resources = tuple(self.resources(spec, call.arguments, state))
        except WorkspaceError as error:
            return Survey(call.id, problem=str(error))
        return Survey(
            call.id,
            declared_effect=self._tools.classify(call),
            resources=resources,
            atoms=state.atoms.of_arguments(call.arguments),
        )

    def resources(
        self, spec: ToolSpec, arguments: Mapping[str, Json], state: SessionState
    ) -> Iterable[SurveyedResource]:
        """Yield the resources the arguments name, as they are now."""
        for target in self.targets(spec):
            given = arguments.get(target.parameter, target.default)
            for name in [given] if isinstance(given, str) else given if isinstance(given, list) else []:
                if isinstance(name, str) and name:
                    yield self.resource(target, name, state)

    def targets(self, spec: ToolSpec) -> Iterable[TargetParameter]:
        """Return the operator's targets for a tool, else the tool's own."""
        entry = self._policy.tools.get(spec.name)
        if entry is not None and entry.targets is not None:
            return tuple(TargetParameter(name, t.kind, t.access) for name, t in entry.targets.items())
        return spec.targets

    def resource(self, target: TargetParameter, name: str, state: SessionState) -> SurveyedResource:
        """Return one resource as it is now, with the evidence this session has of it."""
        if target.kind in (ResourceKind.FILE, ResourceKind.DIRECTORY):
            return self.path(target, name, state)
        resource = Resource(target.kind, name)
        return SurveyedResource(target.kind, name, target.access, exists=True, evidence=state.ledger.seen(resource))

    def path(self, target: TargetParameter, name: str, state: SessionState) -> SurveyedResource:
        """Return a path of the workspace as it is now; one outside is named, never looked at."""
        try:
            path = self._workspace.resolve(name)
        except WorkspaceError:
            return SurveyedResource(target.kind, name[:512], target.access, protected="outside_workspace")
        found = self._workspace.look(path, max_hash=self._policy.files.max_hash)
        kind = ResourceKind.DIRECTORY if found.kind == "directory" else target.kind
        resource = Resource(kind, path)
        return SurveyedResource(
            kind,
            path,
            target.access,
            exists=bool(found.kind),
            hash=found.hash,
            size=found.size,
            links=found.links,
            protected=self.protection(path),
            changed_before=state.task is not None and resource in state.task.changed,
            evidence=state.ledger.seen(resource),
        )

    def protection(self, path: str) -> str:
        """Return why a path may not be touched, compared without regard to case, "" when it may."""
        folded = path.casefold()
        if beneath(folded, self._policy.files.protected):
            return "git_internal" if ".git" in folded else "foregate"
        return "secret" if beneath(folded, self._policy.files.secret) else ""


def beneath(path: str, patterns: Iterable[str]) -> bool:
    """Whether a path or a directory above it matches one of the globs; `**/` also matches nothing."""
    parts = path.split("/")
    ways = ["/".join(parts[: end + 1]) for end in range(len(parts))]
    for pattern in patterns:
        forms = [pattern, pattern[3:]] if pattern.startswith("**/") else [pattern]
        if any(fnmatch.fnmatchcase(way, form.casefold()) for way in ways for form in forms):
            return True
    return False


def moved_on(judged: Survey, now: Survey, own: Mapping[Resource, str]) -> str:
    """Return the first resource that is not as judged, "" when all are; changes of the same response are expected."""
    if now.problem or len(judged.resources) != len(now.resources):
        return now.problem or "the resources of the call"
    for before, after in zip(judged.resources, now.resources, strict=True):
        same = (before.id, before.exists, before.hash, before.protected) == (
            after.id,
            after.exists,
            after.hash,
            after.protected,
        )
        if not same and not (before.id == after.id and own.get(after.resource) == after.hash):
            return after.id
    return ""
