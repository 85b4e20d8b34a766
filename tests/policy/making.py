"""Calls, surveys, turns and facts for tests, made from few words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_facts
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import (
    Atom,
    CallFacts,
    Command,
    EvidenceKind,
    EvidenceSeen,
    Origin,
    Survey,
    SurveyedResource,
    ToolCall,
)
from foregate.schemas.tool_spec import OBSERVER, Capabilities, Effect, ResourceKind, ToolSpec
from foregate.schemas.turn import Said, Turn

READ_BEFORE = (EvidenceSeen(EvidenceKind.FILE_READ, 3, "aa"),)
WRITER = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
RUNNER = Capabilities(external_side_effect=False)
SENDER = Capabilities()


def tool(name: str, effect: Effect, capabilities: Capabilities | None = None, provenance: str = "builtin") -> ToolSpec:
    """A tool that declares an effect; writers are reversible and observers harmless unless said otherwise."""
    if capabilities is None:
        capabilities = OBSERVER if effect is Effect.OBSERVATION else WRITER
    return ToolSpec(name, name, {"type": "object"}, effect, capabilities, provenance=provenance)


TOOLS = {
    spec.name: spec
    for spec in (
        tool("read_file", Effect.OBSERVATION),
        tool("write_file", Effect.CREATE),
        tool("edit_file", Effect.EDIT),
        tool("move_path", Effect.MOVE),
        tool("delete_path", Effect.DELETE),
        tool("git_commit", Effect.COMMIT),
        tool("run_command", Effect.EXECUTE, RUNNER),
        tool("run_shell", Effect.EXECUTE, RUNNER),
        tool("http_request", Effect.SEND, SENDER),
        tool("mystery", Effect.UNKNOWN, None, "mcp:x"),
    )
}


def file(path: str, access: Effect = Effect.EDIT, **more: Any) -> SurveyedResource:
    """A file that exists unless said otherwise."""
    return SurveyedResource(ResourceKind.FILE, path, access, **{"exists": True, **more})


def folder(path: str, access: Effect = Effect.DELETE, **more: Any) -> SurveyedResource:
    """A directory that exists unless said otherwise."""
    return SurveyedResource(ResourceKind.DIRECTORY, path, access, **{"exists": True, **more})


def url(address: str, access: Effect = Effect.SEND) -> SurveyedResource:
    """An address a request goes to."""
    return SurveyedResource(ResourceKind.URL, address, access, exists=True)


def atoms(**origins: str) -> tuple[Atom, ...]:
    """Atoms by origin: `atoms(workspace="a.txt b.txt", external="c.txt")`."""
    return tuple(
        Atom(word, Origin(origin), 0 if origin == "nobody" else 2)
        for origin, words in origins.items()
        for word in words.split()
    )


def facts(
    name: str,
    *resources: SurveyedResource,
    said: str | Sequence[str] = "",
    arguments: Mapping[str, Any] | None = None,
    argv: Sequence[str] = (),
    shell: str = "",
    policy: Policy | None = None,
    heard: tuple[Atom, ...] = (),
    **more: Any,
) -> CallFacts:
    """The facts of one call in a task in which the user said something; `more` goes to the survey or the turn."""
    call = ToolCall.of(name, dict(arguments or {}), id="1")
    command = Command(tuple(argv), shell) if argv or shell else None
    looked = {key: more.pop(key) for key in ("secrets", "problem", "declared_effect", "values") if key in more}
    survey = Survey("1", resources=resources, command=command, atoms=heard, **looked)
    return compute_facts(call, survey, turn(call, survey, said, **more), policy or default_policy(), TOOLS)


def turn(call: ToolCall, survey: Survey, said: str | Sequence[str] = "", **more: Any) -> Turn:
    """A turn over one call; `actor_of_words` says who the messages are from."""
    actor = more.pop("actor_of_words", "user")
    texts = [said] if isinstance(said, str) else said
    bare = Turn(
        response=1,
        task=1,
        turn=1,
        now="2026-01-01T00:00:00.000000Z",
        policy_hash="",
        catalogue_hash="",
        prompts_hash="",
        calls=(call,),
        surveys=(survey,),
    )
    return replace(bare, user_messages=tuple(Said(n, text, actor) for n, text in enumerate(texts) if text), **more)


def with_rules(*rules: Mapping[str, Any], **section: Any) -> Policy:
    """The default policy with these rules and no others."""
    data = default_policy().model_dump(mode="json")
    data["rules"] = {**data["rules"], "list": [dict(rule) for rule in rules], **section}
    return Policy.model_validate(data, strict=False)
