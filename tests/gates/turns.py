"""Hand-made turns: a small catalogue with one tool of each kind, and calls surveyed as a test says."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from foregate.gates.prelude import build_prelude, judge
from foregate.policy.policy import Policy
from foregate.policy.risk.facts import compute_turn_facts
from foregate.schemas.judgement import Answer, Decision, Judgement, Need
from foregate.schemas.tool_call import (
    CallFacts,
    Command,
    EvidenceKind,
    EvidenceSeen,
    Survey,
    SurveyedResource,
    ToolCall,
)
from foregate.schemas.tool_spec import (
    OBSERVER,
    Capabilities,
    Effect,
    ResourceKind,
    TargetParameter,
    ToolSpec,
    build_catalogue,
)
from foregate.schemas.turn import EDITION, Said, Turn
from tests.policies import policy_with

NOW = "2026-01-01T00:00:00.000000Z"
PATH = {"type": "object", "properties": {"path": {"type": "string"}, "text": {"type": "string"}}, "required": ["path"]}
TAME = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
FILE = ResourceKind.FILE


def spec(name: str, effect: Effect, capabilities: Capabilities | None, kind: ResourceKind = FILE) -> ToolSpec:
    """Return a tool whose `path` names its one resource."""
    return ToolSpec(name, name, PATH, effect, capabilities, (TargetParameter("path", kind, effect),), "builtin")


CATALOGUE = build_catalogue(
    [
        spec("read_file", Effect.OBSERVATION, OBSERVER),
        spec("edit_file", Effect.EDIT, TAME),
        spec("write_file", Effect.CREATE, TAME),
        spec("delete_path", Effect.DELETE, TAME),
        spec("remember", Effect.EDIT, replace(TAME, personal_memory=True), ResourceKind.OTHER),
        spec("send", Effect.SEND, Capabilities(external_side_effect=True, needs_approval=False), ResourceKind.MESSAGE),
        spec("run_command", Effect.EXECUTE, replace(TAME, reversible=False), ResourceKind.PROCESS),
        spec(
            "run_shell", Effect.EXECUTE, replace(TAME, reversible=False, high_impact_write=True), ResourceKind.PROCESS
        ),
        spec("odd", Effect.UNKNOWN, None),
        spec("fetch", Effect.OBSERVATION, OBSERVER, ResourceKind.URL),
    ]
)


def call(name: str, path: str = "a.txt", number: int = 1, **arguments: Any) -> ToolCall:
    """Return a call under the id `c<number>`."""
    return ToolCall.of(name, {"path": path, **arguments}, id=f"c{number}")


def seen(hash: str = "h", seq: int = 3, kind: EvidenceKind = EvidenceKind.FILE_READ) -> EvidenceSeen:  # noqa: A002
    """Return evidence of a content."""
    return EvidenceSeen(kind, seq, hash)


def survey(of: ToolCall, *evidence: EvidenceSeen, exists: bool = True, hash: str = "h", **more: Any) -> Survey:  # noqa: A002
    """Return what looking finds for a call on its one resource."""
    tool = CATALOGUE.get(of.name)
    if tool is None or of.arguments is None:
        return Survey(of.id)
    target = tool.targets[0]
    resource = SurveyedResource(
        target.kind, of.arguments.get("path", ""), target.access, exists, hash, evidence=evidence, **more
    )
    command = None
    if of.name == "run_command":
        command = Command(tuple(resource.id.split()))
    elif of.name == "run_shell":
        command = Command(shell=resource.id)
    return Survey(of.id, resources=(resource,), command=command)


def placed(of: ToolCall, folder: str) -> Survey:
    """Return what looking finds for a command that says where it runs."""
    found = survey(of)
    assert found.command is not None
    where = SurveyedResource(ResourceKind.DIRECTORY, folder, Effect.OBSERVATION, exists=True)
    command = replace(found.command, folder="" if folder == "." else folder)
    return replace(found, resources=(*found.resources, where), command=command)


def turn(*calls: ToolCall, surveys: tuple[Survey, ...] | None = None, says: str = "fix a.txt", **more: Any) -> Turn:
    """Return a turn over calls; unless surveyed otherwise everything was read and is unchanged."""
    fields: dict[str, Any] = {
        "edition": EDITION,
        "narrated": 100,
        "attended": True,
        "text": "I will do what you asked for.",
    } | more
    return Turn(
        response=4,
        task=1,
        turn=1,
        now=NOW,
        policy_hash="p",
        catalogue_hash="c",
        prompts_hash="q",
        calls=calls,
        surveys=surveys if surveys is not None else tuple(survey(c, seen()) for c in calls),
        user_messages=(Said(3, says),),
        **fields,
    )


def judged(of: Turn, policy: Policy | None = None) -> Judgement:
    """Return the judgement on a turn; fails when a Need is raised."""
    result = judge(of, build_prelude(policy or policy_with(), CATALOGUE))
    assert isinstance(result, Judgement), f"{result.gate} raised a Need"
    return result


def need_of(of: Turn, policy: Policy | None = None) -> Need:
    """Return the Need a turn raises; fails when it is judged."""
    result = judge(of, build_prelude(policy or policy_with(), CATALOGUE))
    assert isinstance(result, Need), result.decisions[-2:]
    return result


def answered(of: Turn, need: Need, value: Any, error: str = "", **more: Any) -> Turn:
    """Return the turn with one more answer."""
    number = len(of.answers) + 10
    answer = Answer(
        need.gate,
        need.who,
        need.key,
        need.digests,
        of.survey_hash,
        of.policy_hash,
        value,
        error,
        NOW,
        need.expires_at,
        number,
    )
    return replace(of, answers=(*of.answers, replace(answer, **more)))


def row(judgement: Judgement, gate: str) -> Decision:
    """Return the decision of a gate; fails when the gate was not asked."""
    return next(decision for decision in judgement.decisions if decision.gate == gate)


def codes(judgement: Judgement) -> dict[str, str]:
    """Return the code of each gate asked."""
    return {decision.gate: decision.code for decision in judgement.decisions}


def plan_for(of: ToolCall, target: str = "", **changes: Any) -> dict[str, Any]:
    """Return the JSON of a plan that fits a call, with changes."""
    assert of.arguments is not None
    return {
        "goal": "do what was asked",
        "success_criteria": [{"text": "it is done", "check": None, "target": None, "expected": None}],
        "first_action": {"tool": of.name, "target": target or of.arguments["path"], "description": "do it"},
        "requires_verification": True,
        "risky_actions": ["it might be the wrong one"],
        "version": 1,
        "planned_steps": None,
    } | changes


def step(tool: str, target: str, **more: Any) -> dict[str, Any]:
    """Return a planned step."""
    return {"tool": tool, "target": target, "description": "and then this", "effect": None, "uses": None} | more


ACCEPT = {"verdict": "accept", "issues": [], "summary": "looks right"}


def facts_of(of: ToolCall, surveyed: Survey | None = None, **more: Any) -> CallFacts:
    """Return the facts of one call under the default policy, with changes."""
    about = turn(of) if surveyed is None else turn(of, surveys=(surveyed,))
    return replace(compute_turn_facts(about, policy_with(), CATALOGUE)[of.id], **more)
