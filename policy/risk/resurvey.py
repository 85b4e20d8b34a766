"""What looking would have found under another policy: known again where it follows from what was recorded.

Some keys of the policy steer the looking itself. What they say of a path by its name alone is computed anew; where the
world would have to be looked at again, the key is named and the call is not decidable.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk import commands
from foregate.policy.risk.declared import find_tool_entry
from foregate.policy.risk.globs import find_protection
from foregate.policy.risk.reading import is_held_read, is_read, read_command_line
from foregate.policy.risk.running import RUNNING, can_run
from foregate.policy.risk.self_running import RUNS_BY_ITSELF, find_entry
from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError
from foregate.schemas.tool_call import Command, Survey, SurveyedResource, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind, ToolSpec

_PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.OTHER)
_TOOLS = "tools"
_DECIDE_READS = tuple(f"commands.{key}" for key in ("read_only", "reads", "about", "access", "confinement"))
"""Keys by which a command is known to only read."""
_DECIDE_VALUES = ("commands.access", "commands.installs")
"""Keys by which what a command takes from outside is known."""
_DECIDE_PROGRAMS = tuple(f"commands.{key}" for key in RUNNING)
"""Keys by which the programs that a command may run are known."""
_DECIDE_COMMITS = ("files.max_entries", "files.max_read", "files.max_hash")
"""Keys by which what a commit carries is searched for secrets."""
_DECIDE_SECRETS = tuple(f"sensitive.{key}" for key in ("patterns", "formats", "names", "common", "values"))
"""Keys by which secrets are known."""
_DECIDE_PROTECTION = ("files.protected", "files.secret", "sensitive.values.besides")
"""Keys by which paths are known to be protected."""
_COMMITTING = ("commit", "add", "stage")
"""What git does when what a command could commit is looked through."""
_INSIDE = (Effect.DELETE, Effect.MOVE)
"""Effects on a directory for which what lies in it was looked at."""


_LOOKING = (
    *(_DECIDE_READS + _DECIDE_VALUES + _DECIDE_PROGRAMS + _DECIDE_COMMITS + _DECIDE_SECRETS + _DECIDE_PROTECTION),
    *(_TOOLS, "mandate.flows", "files.max_survey", "files.runs_by_itself", "http.unsaid"),
)
"""Every key that steers the looking."""


class LookingChange(Struct, frozen=True):
    """Which of the keys that steer the looking differ between two policies.

    `keys` is None where what is read of the policy is followed: each key is compared when it is asked for, so that
    nothing counts as read that no look depends on.
    """

    before: Policy
    after: Policy
    keys: frozenset[str] | None

    def differs(self, key: str) -> bool:
        """Whether the two have other values for a key."""
        return _differs(self.before, self.after, key) if self.keys is None else key in self.keys

    def may_differ(self, keys: Sequence[str]) -> bool:
        """Whether one of the keys may have other values."""
        return self.keys is None or not self.keys.isdisjoint(keys)


def compare_looking(before: Policy, after: Policy) -> LookingChange:
    """Return which keys that steer the looking differ; policies that are read often are compared once."""
    if before.reading is not None:
        return LookingChange(before, after, None)
    key = before.hash, after.hash
    if key not in _COMPARED:
        while len(_COMPARED) >= _ROOM:
            del _COMPARED[next(iter(_COMPARED))]
        _COMPARED[key] = LookingChange(before, after, frozenset(k for k in _LOOKING if _differs(before, after, k)))
    return _COMPARED[key]


_ROOM = 1024
_COMPARED: dict[tuple[str, str], LookingChange] = {}


def _differs(before: Policy, after: Policy, key: str) -> bool:
    read = _read_key(key)
    return bool(read(before) != read(after))


_read_key = lru_cache(attrgetter)


def resurvey(call: ToolCall, survey: Survey, spec: ToolSpec | None, before: Policy, after: Policy) -> Survey | str:
    """Return what looking at the call would have found under `after`, or the key that makes it unknowable."""
    change = compare_looking(before, after)
    if spec is None or call.arguments is None or not change.may_differ(_LOOKING):
        return survey
    if change.may_differ((_TOOLS,)):
        old, new = (find_tool_entry(spec, policy) for policy in (before, after))
        if (old.targets if old else None) != (new.targets if new else None):
            return f"tools.{call.name}.targets"
    unknown = _compare_sizes(survey, change) or _compare_secrets(survey, spec, change)
    if spec.may_need_somebody and survey.values is not None and change.differs("mandate.flows"):
        return "mandate.flows"
    found = unknown or _resurvey_command(call, survey, spec, change)
    return found if isinstance(found, str) else _resurvey_protection(found, change)


def _resurvey_command(call: ToolCall, survey: Survey, spec: ToolSpec, change: LookingChange) -> Survey | str:
    """Return the survey with the files a command names, which are looked at only where it observes.

    One that observes no longer stands for itself, unless its call names more than the command.
    """
    command, before, after = survey.command, change.before, change.after
    if command is not None and survey.values is not None:
        for key in _DECIDE_VALUES:
            if change.differs(key):
                return key
    if command is None or not any(change.differs(key) for key in _DECIDE_READS):
        return survey
    observed, observes = (is_read(command, policy, survey.confinement) for policy in (before, after))
    reads = [_list_named(command, policy, survey) for policy in (before, after)]
    if not (observed or observes) or (observed and observes and reads[0] == reads[1]):
        return survey
    named = [t for t in spec.targets if t.kind is not ResourceKind.PROCESS and (call.arguments or {}).get(t.parameter)]
    if observes or named:
        listed = command.argv and change.differs("commands.read_only")
        return f"commands.read_only.{command.argv[0]}" if listed else "commands.reads"
    started = (r for r in survey.resources if r.kind is ResourceKind.PROCESS)
    return replace(survey, resources=tuple(replace(r, access=Effect.EXECUTE) for r in started))


def _list_named(command: Command, policy: Policy, survey: Survey) -> tuple[bool, Sequence[str]]:
    """Return whether a command's folders were searched for secrets, and what it names."""
    if is_held_read(command, policy, survey.confinement):
        reading = read_command_line(command, policy)
        return False, (*reading.operands, *reading.texts)
    return commands.can_read_beneath(command, policy), commands.find_operands(command, policy)


def _compare_sizes(survey: Survey, change: LookingChange) -> str:
    if not change.may_differ(("files.max_hash", "files.max_entries", "files.max_survey")):
        return ""
    old, new = change.before.files, change.after.files
    paths = [resource for resource in survey.resources if resource.kind in _PATHS and resource.exists]
    folders = [resource for resource in paths if has_listing(resource, survey, change.before)]
    stores = any(r.kind is ResourceKind.REPOSITORY and r.access.changes for r in survey.resources)
    if (folders or stores) and change.differs("files.max_hash"):
        return "files.max_hash"
    if any(resource.size > min(old.max_hash, new.max_hash) for resource in paths) and change.differs("files.max_hash"):
        return "files.max_hash"
    if folders and change.differs("files.max_entries"):
        return "files.max_entries"
    if change.differs("files.max_survey"):
        size = len(strict_json.canonical(strict_json.dump(survey)))
        if survey.problem or size > min(old.max_survey, new.max_survey):
            return "files.max_survey"
    return ""


def _compare_secrets(survey: Survey, spec: ToolSpec, change: LookingChange) -> str:
    """Return the key by which what would be committed or sent is searched for secrets otherwise, "" where it is not."""
    commits = any(r.kind is ResourceKind.REPOSITORY and r.access is Effect.COMMIT for r in survey.resources)
    decide = (*_DECIDE_PROGRAMS, *_DECIDE_COMMITS, *_DECIDE_SECRETS, "files.secret")
    if survey.command is not None and change.may_differ(decide):
        git = _list_git_commands(survey.command, change.before)
        programs = change.keys is not None and change.may_differ(_DECIDE_PROGRAMS)
        if programs and git != _list_git_commands(survey.command, change.after):
            return next(filter(change.differs, _DECIDE_PROGRAMS))
        if "commit" in git:
            commits = True
            for key in _DECIDE_COMMITS:
                if change.differs(key):
                    return key
    requests = any(resource.kind is ResourceKind.URL for resource in survey.resources)
    if requests and change.differs("http.unsaid"):
        return "http.unsaid"
    sends = spec.declared is not None or Effect.SEND in (spec.effect, survey.declared_effect)
    for key in _DECIDE_SECRETS if commits or sends or requests else ():
        if change.differs(key):
            return key
    return "files.secret" if commits and change.differs("files.secret") else ""


def _list_git_commands(command: Command, policy: Policy) -> list[str]:
    """Return which of the committing commands of git a command may run; all where its words cannot be told apart."""
    try:
        return [what for what in _COMMITTING if can_run(("git", what), command, policy)]
    except PolicyError:
        return list(_COMMITTING)


def _resurvey_protection(survey: Survey, change: LookingChange) -> Survey | str:
    """Protection follows from a path's name, except where it lies in what a directory or a manifest holds."""
    before, after = change.before, change.after
    changed = [r.id for r in survey.resources if r.access.changes and r.kind in _PATHS]
    moves = any(r.access is Effect.MOVE for r in survey.resources)
    if change.differs("files.runs_by_itself") and (
        moves or any(find_entry(path, before) != find_entry(path, after) for path in changed)
    ):
        return "files.runs_by_itself"
    keys = [key for key in _DECIDE_PROTECTION if change.differs(key)]
    if not keys:
        return survey
    key = "sensitive.values" if keys[0] == "sensitive.values.besides" else keys[0]
    known = {resource.id for resource in survey.resources}
    named = _list_words(survey.command, after) if survey.command is not None else ()
    words = [word for word in named if word not in known]
    if any(find_protection(word, before) != find_protection(word, after) for word in words):
        return key
    paths = [r for r in survey.resources if r.kind in _PATHS and r.protected != "outside_workspace"]
    if key != "sensitive.values" and any(has_listing(resource, survey, before) for resource in paths):
        return key
    now = {
        resource: replace(resource, protected=find_protection(resource.id, after) or _keep_running(resource))
        for resource in paths
    }
    return replace(survey, resources=tuple(now.get(resource, resource) for resource in survey.resources))


def _keep_running(resource: SurveyedResource) -> str:
    return RUNS_BY_ITSELF if resource.protected == RUNS_BY_ITSELF else ""


def _list_words(command: Command, policy: Policy) -> Sequence[str]:
    reading = read_command_line(command, policy)
    return (*command.argv[1:], *reading.operands, *reading.texts)


def has_listing(resource: SurveyedResource, survey: Survey, policy: Policy) -> bool:
    """Whether what lies in a directory was looked at: it would go as a whole, or a command reads its files."""
    searched = survey.command is not None and _list_named(survey.command, policy, survey)[0]
    return resource.kind is ResourceKind.DIRECTORY and resource.exists and (searched or resource.access in _INSIDE)
