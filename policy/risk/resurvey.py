"""What looking would have found under another policy: known again where it follows from what was recorded.

Some keys of the policy steer the looking itself. What they say of a path by its name alone is computed anew; where the
world would have to be looked at again, the key is named and the call is not decidable.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
_DECIDE_READS = ("read_only", "reads", "about", "access", "confinement")
"""Keys of `commands` by which one is known to only read."""
_DECIDE_VALUES = ("access", "installs")
"""Keys of `commands` by which what it takes from outside is known."""
_COMMITTING = ("commit", "add", "stage")
"""What git does when what a command could commit is looked through."""
_INSIDE = (Effect.DELETE, Effect.MOVE)
"""Effects on a directory for which what lies in it was looked at."""


def resurvey(call: ToolCall, survey: Survey, spec: ToolSpec | None, before: Policy, after: Policy) -> Survey | str:
    """Return what looking at the call would have found under `after`, or the key that makes it unknowable."""
    if spec is None or call.arguments is None:
        return survey
    old, new = (find_tool_entry(spec, policy) for policy in (before, after))
    if (old.targets if old else None) != (new.targets if new else None):
        return f"tools.{call.name}.targets"
    unknown = _compare_sizes(survey, before, after) or _compare_secrets(survey, spec, before, after)
    if spec.may_need_somebody and survey.values is not None and before.mandate.flows != after.mandate.flows:
        return "mandate.flows"
    found = unknown or _resurvey_command(call, survey, spec, before, after)
    return found if isinstance(found, str) else _resurvey_protection(found, before, after)


def _resurvey_command(call: ToolCall, survey: Survey, spec: ToolSpec, before: Policy, after: Policy) -> Survey | str:
    """Return the survey with the files a command names, which are looked at only where it observes.

    One that observes no longer stands for itself, unless its call names more than the command.
    """
    command = survey.command
    if command is not None and survey.values is not None:
        for key in _DECIDE_VALUES:
            if getattr(before.commands, key) != getattr(after.commands, key):
                return f"commands.{key}"
    if command is None or all(getattr(before.commands, key) == getattr(after.commands, key) for key in _DECIDE_READS):
        return survey
    observed, observes = (is_read(command, policy, survey.confinement) for policy in (before, after))
    reads = [_list_named(command, policy, survey) for policy in (before, after)]
    if not (observed or observes) or (observed and observes and reads[0] == reads[1]):
        return survey
    named = [t for t in spec.targets if t.kind is not ResourceKind.PROCESS and (call.arguments or {}).get(t.parameter)]
    if observes or named:
        listed = command.argv and before.commands.read_only != after.commands.read_only
        return f"commands.read_only.{command.argv[0]}" if listed else "commands.reads"
    started = (r for r in survey.resources if r.kind is ResourceKind.PROCESS)
    return replace(survey, resources=tuple(replace(r, access=Effect.EXECUTE) for r in started))


def _list_named(command: Command, policy: Policy, survey: Survey) -> tuple[bool, Sequence[str]]:
    """Return whether a command's folders were searched for secrets, and what it names."""
    if is_held_read(command, policy, survey.confinement):
        reading = read_command_line(command, policy)
        return False, (*reading.operands, *reading.texts)
    return commands.can_read_beneath(command, policy), commands.find_operands(command, policy)


def _compare_sizes(survey: Survey, before: Policy, after: Policy) -> str:
    old, new = before.files, after.files
    paths = [resource for resource in survey.resources if resource.kind in _PATHS and resource.exists]
    folders = [resource for resource in paths if has_listing(resource, survey, before)]
    stores = any(r.kind is ResourceKind.REPOSITORY and r.access.changes for r in survey.resources)
    if (folders or stores) and old.max_hash != new.max_hash:
        return "files.max_hash"
    if any(resource.size > min(old.max_hash, new.max_hash) for resource in paths) and old.max_hash != new.max_hash:
        return "files.max_hash"
    if folders and old.max_entries != new.max_entries:
        return "files.max_entries"
    if old.max_survey != new.max_survey:
        size = len(strict_json.canonical(strict_json.dump(survey)))
        if survey.problem or size > min(old.max_survey, new.max_survey):
            return "files.max_survey"
    return ""


def _compare_secrets(survey: Survey, spec: ToolSpec, before: Policy, after: Policy) -> str:
    """Return the key by which what would be committed or sent is searched for secrets otherwise, "" where it is not."""
    commits = any(r.kind is ResourceKind.REPOSITORY and r.access is Effect.COMMIT for r in survey.resources)
    if survey.command is not None:
        git = _list_git_commands(survey.command, before)
        if after is not before and git != _list_git_commands(survey.command, after):
            differ = (key for key in RUNNING if getattr(before.commands, key) != getattr(after.commands, key))
            return f"commands.{next(differ, RUNNING[0])}"
        if "commit" in git:
            commits = True
            for name in ("max_entries", "max_read", "max_hash"):
                if getattr(before.files, name) != getattr(after.files, name):
                    return f"files.{name}"
    requests = any(resource.kind is ResourceKind.URL for resource in survey.resources)
    if requests and before.http.unsaid != after.http.unsaid:
        return "http.unsaid"
    sends = spec.declared is not None or Effect.SEND in (spec.effect, survey.declared_effect)
    carries = commits or sends or requests
    for key in ("patterns", "formats", "names", "common", "values") if carries else ():
        if getattr(before.sensitive, key) != getattr(after.sensitive, key):
            return f"sensitive.{key}"
    return "files.secret" if commits and before.files.secret != after.files.secret else ""


def _list_git_commands(command: Command, policy: Policy) -> list[str]:
    """Return which of the committing commands of git a command may run; all where its words cannot be told apart."""
    try:
        return [what for what in _COMMITTING if can_run(("git", what), command, policy)]
    except PolicyError:
        return list(_COMMITTING)


def _list_protecting(before: Policy, after: Policy) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Yield each key that says which paths are protected, with what it was and what it is."""
    for key in ("protected", "secret"):
        yield f"files.{key}", getattr(before.files, key), getattr(after.files, key)
    yield "sensitive.values", before.sensitive.values.besides, after.sensitive.values.besides


def _resurvey_protection(survey: Survey, before: Policy, after: Policy) -> Survey | str:
    """Protection follows from a path's name, except where it lies in what a directory or a manifest holds."""
    changed = [r.id for r in survey.resources if r.access.changes and r.kind in _PATHS]
    moves = any(r.access is Effect.MOVE for r in survey.resources)
    if before.files.runs_by_itself != after.files.runs_by_itself and (
        moves or any(find_entry(path, before) != find_entry(path, after) for path in changed)
    ):
        return "files.runs_by_itself"
    keys = [key for key, old, new in _list_protecting(before, after) if old != new]
    if not keys:
        return survey
    key = keys[0]
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
