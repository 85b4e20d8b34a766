"""What could be lost by a call, in words: pure, from its facts alone, for the person who is asked about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from foregate.policy.policy import Policy
from foregate.policy.risk.reading import can_hold_work, read_command_line
from foregate.policy.risk.self_running import RUNS_BY_ITSELF
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import CallFacts, SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind

_NAMED = 3
"""Things that are named one by one."""
_IN_WORKSPACE = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)
_NOT_HELD = "whatever your account can read, change, delete or send: no sandbox holds this program"


def describe_stakes(facts: CallFacts, policy: Policy) -> list[str]:
    """Return what could be lost by a call, each as an answer to `what is at stake?`; it may be nothing."""
    found = list(dict.fromkeys(_find_stakes(facts, policy)))
    return found or ["nothing: it can be undone" if facts.changes else "nothing: it only reads"]


def _find_stakes(facts: CallFacts, policy: Policy) -> Iterator[str]:
    for resource in facts.resources:
        if resource.protected == "secret":
            yield f"what `{resource.id[:80]}` holds: the model is shown all of it but what is masked"
        if resource.protected == RUNS_BY_ITSELF:
            yield f"whatever your account can do, once a program runs `{resource.id[:80]}`"
    if facts.survey.secrets:
        yield f"a secret would leave: {facts.survey.secrets[0][:120]}"
    if not facts.changes:
        return
    command = facts.survey.command
    held = facts.contained or can_hold_work(policy, facts.survey.work)
    if command is not None and held and not facts.survey.changes:
        yield from map(describe_access, read_command_line(command, policy).access)
    changed = [one for one in facts.changed_resources if one.kind in _IN_WORKSPACE]
    if lost := [one for one in changed if not one.restorable]:
        yield f"{_name_things(lost)}, of which no copy is kept"
    if taken := [one for one in changed if one.restorable and one.loses in ("replaced", "all")]:
        yield f"{_name_things(taken)}, which git cannot bring back and an undo here can"
    if command is not None:
        yield from [] if held else [_NOT_HELD]
    elif facts.effect is Effect.SEND:
        yield f"what is sent to `{facts.target[:80]}` cannot be taken back"
    elif facts.effect is Effect.UNKNOWN:
        yield "whatever the tool can do: nobody here can say what that is"
    elif facts.external:
        yield "what it does outside the workspace cannot be taken back"
    elif facts.irreversible and not lost:
        yield "what is there now: the tool keeps no copy of it"


def describe_access(access: Access) -> str:
    """Return what an access to the world outside puts at stake."""
    match access.kind:
        case "network" if access.name:
            return f"anything in the workspace could be sent to any account at {access.name}"
        case "network":
            return "anything in the workspace could be sent to anybody"
        case "port":
            return f"whatever the program that listens on port {access.name} does when it is told to"
        case "socket":
            return f"whatever the program that listens at `{access.name}` does when it is told to"
        case "device":
            return f"whatever `{access.name}` does when it is told to"
        case "folder":
            return f"anything in `{access.name}` could be read, changed or deleted"


def _name_things(resources: Sequence[SurveyedResource]) -> str:
    names = [f"`{one.id[:80]}`" for one in resources[:_NAMED]]
    more = len(resources) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
