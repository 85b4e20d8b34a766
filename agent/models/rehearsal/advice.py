"""How the rehearsal model answers as planner and as critic: strict JSON, worked out from the request alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

from foregate.agent.models.rehearsal.conversation import object_at, objects_at, parse_object, read_text
from foregate.agent.models.rehearsal.kinds import KINDS, Told, describe
from foregate.agent.models.rehearsal.sentences import understand
from foregate.agent.models.rehearsal.wish import Wish, short
from foregate.schemas import strict_json
from foregate.schemas.critique import Critique
from foregate.schemas.message import Message
from foregate.schemas.plan import Criterion, Plan, PlannedAction, PlannedStep
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import ToolCall

StepEffect = Literal["edit", "delete", "move", "execute", "commit"]
EFFECTS: Mapping[str, StepEffect | None] = {
    "edit_file": "edit",
    "write_file": "edit",
    "create_directory": "edit",
    "delete_path": "delete",
    "move_path": "move",
    "run_command": "execute",
    "git_add": "edit",
    "git_commit": "commit",
    "http_request": None,
}
"""The tools a plan names beforehand, with what they do."""
TOGETHER = (
    {"write_file", "edit_file", "create_directory"},
    {"delete_path", "run_shell"},
    {"git_add", "git_commit"},
    {"move_path"},
    {"http_request"},
    {"run_tests", "run_build"},
)
"""Tools that change something, those together that could serve the same end."""
WIDE_USES = 10
"""Calls a planned step with a pattern covers."""


def write_plan(messages: Sequence[Message], stumbles: bool) -> str:
    """Return a plan for the calls of the newest request, as JSON text.

    What nobody asked for gets a plan without a goal, which is no plan. One that stumbles forgets the risks at first.
    """
    request = parse_object(messages[-1].text) if messages else {}
    calls = objects_at(request, "calls")
    if not calls:
        return ""
    wishes = understand(read_text(request, "user_words")).wishes
    forgets = stumbles and request.get("plan") is None and not read_text(request, "defect")
    steps = [build_call_step(call) for call in calls]
    if not request.get("amendment"):
        known = {(step.tool, step.target) for step in steps}
        steps += [step for wish in wishes for step in build_steps(wish) if (step.tool, step.target) not in known]
    made = Plan(
        goal=describe_goal(wishes, calls[0]) if all(is_asked_for(call, wishes) for call in calls) else "",
        success_criteria=[
            build_done_criterion(steps[0]),
            *(criterion for wish in wishes for criterion in build_criteria(wish)),
        ],
        first_action=PlannedAction(tool=steps[0].tool, target=steps[0].target, description=steps[0].description),
        requires_verification=True,
        risky_actions=[] if forgets else [describe_risk(call) for call in calls],
        version=1,
        planned_steps=steps,
    )
    return strict_json.canonical(made.model_dump(mode="json")).decode()


def write_critique(messages: Sequence[Message]) -> str:
    """Return a critique of the calls of the newest request, as JSON text.

    It asks to replan where a shell line deletes by pattern, and where what is deleted or sent was never looked at.
    """
    request = parse_object(messages[-1].text) if messages else {}
    seen = {read_text(item, "resource") for item in objects_at(request, "evidence") if item.get("seen")}
    issues = [issue for call in objects_at(request, "calls") for issue in list_issues(call, seen)]
    summary = "The calls do what was asked and no more." if not issues else "This could destroy more than was asked."
    made = Critique(verdict="replan" if issues else "accept", issues=issues, summary=summary)
    return strict_json.canonical(made.model_dump(mode="json")).decode()


def describe_goal(wishes: Sequence[Wish], first: Mapping[str, Json]) -> str:
    """Return the goal in a sentence."""
    goal = short("; ".join(describe(wish) for wish in wishes if wish.verb in KINDS), 400)
    return f"{goal[:1].upper()}{goal[1:]}" if goal else f"Do what was asked with {read_text(first, 'tool')}"


def build_call_step(call: Mapping[str, Json]) -> PlannedStep:
    """Return the planned step that is exactly this call."""
    tool, target = read_text(call, "tool"), read_text(call, "target")
    return build_step(tool, target, f"{tool} on {target or 'what it names'}")


def build_step(
    tool: str, target: str, description: str, effect: StepEffect | None = None, uses: int = 1
) -> PlannedStep:
    """Return a planned step."""
    return PlannedStep(tool=tool, target=target, description=description, effect=effect, uses=uses)


def build_steps(wish: Wish) -> list[PlannedStep]:
    """Return the steps that change something for one wish, as far as they are known before looking."""
    kind = KINDS.get(wish.verb)
    if kind is None:
        return []
    says, changes = describe(wish), kind.changes(wish, None)
    if wish.verb == "sweep":
        folder = wish.target.rstrip("/")
        return [
            build_step(
                "delete_path", wish.text if folder in ("", ".") else f"{folder}/{wish.text}", says, "delete", WIDE_USES
            )
        ]
    if changes is None:
        return [build_step(kind.tool, wish.target, says, EFFECTS[kind.tool])] if kind.tool in EFFECTS else []
    if isinstance(changes, Told):
        return []
    known = [(call, target) for call in changes if call.name in EFFECTS for target in targets_of(call)]
    return [build_step(call.name, target, says, EFFECTS[call.name]) for call, target in known]


def targets_of(call: ToolCall) -> list[str]:
    """Return what a call touches, as a plan names it."""
    arguments = call.arguments or {}
    argv = arguments.get("argv")
    if isinstance(argv, list):
        return [shlex.join(map(str, argv))]
    named = [read_text(arguments, key) for key in ("path", "url", "source", "destination") if key in arguments]
    return named or ["."]


def is_asked_for(call: Mapping[str, Json], wishes: Sequence[Wish]) -> bool:
    """Whether a call could be part of fulfilling one of the wishes; where one is not understood, any call might."""
    tool, argv = read_text(call, "tool"), parse_object(read_text(call, "arguments")).get("argv")
    if not wishes or not all(wish.verb in KINDS and KINDS[wish.verb].says for wish in wishes):
        return True
    if tool == "run_command":
        return any(argv == list(wish.words) for wish in wishes if wish.verb == "run")
    return not any(tool in tools for tools in TOGETHER) or any(tool in tools_of(wish) for wish in wishes)


def tools_of(wish: Wish) -> set[str]:
    """Return the tools that could be part of fulfilling a wish."""
    kind = KINDS[wish.verb]
    changes = kind.changes(wish, None)
    named = {kind.tool, *(call.name for call in kind.looks(wish))}
    named.update(call.name for call in (changes if changes and not isinstance(changes, Told) else ()))
    return named.union(*(tools for tools in TOGETHER if named & tools))


def build_done_criterion(planned: PlannedStep) -> Criterion:
    """Return how one would recognise that a step succeeded; a person can tell, no single look can."""
    says = f"{planned.description}: done, and nothing else changed"
    return Criterion(text=says, check=None, target=None, expected=None)


def build_criteria(wish: Wish) -> list[Criterion]:
    """Return what a look at a file would show once a wish is fulfilled."""
    says = describe(wish)
    match wish.verb:
        case "replace":
            return [Criterion(text=says, check="file_contains", target=wish.target, expected=wish.other)]
        case "write" | "append" | "move":
            target = wish.other if wish.verb == "move" else wish.target
            return [Criterion(text=says, check="file_exists", target=target, expected=None)]
        case _:
            return []


def describe_risk(call: Mapping[str, Json]) -> str:
    """Return the risk of a call in a sentence."""
    flags = object_at(call, "capabilities")
    why = " and ".join(name for name in ("irreversible", "external") if flags.get(name) is True)
    return f"{read_text(call, 'tool')} {read_text(call, 'target')}: {why or read_text(call, 'effect') or 'a change'}"


def list_issues(call: Mapping[str, Json], seen: set[str]) -> list[str]:
    """Return what speaks against a call."""
    command = read_text(parse_object(read_text(call, "arguments")), "command")
    if read_text(call, "tool") == "run_shell" and is_pattern_delete(command):
        return [f"`{short(command)}` deletes whatever its pattern matches, unseen; list the files and delete each"]
    targets = call.get("targets")
    if read_text(call, "effect") != "delete" or not isinstance(targets, list):
        return []
    unseen = [target for target in targets if isinstance(target, str) and target not in seen]
    return [f"`{target}` was never looked at; look at it before deleting it" for target in unseen]


def is_pattern_delete(command: str) -> bool:
    """Whether a shell line removes by a pattern or a whole tree."""
    words = command.replace(";", " ").replace("&", " ").split()
    removes = any(word in ("rm", "rmdir", "unlink", "-delete", "clean") for word in words)
    return removes and (any(sign in command for sign in "*?[") or any(w.startswith("-") and "r" in w for w in words))
