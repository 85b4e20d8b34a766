"""How the rehearsal model answers as planner and as critic: strict JSON, worked out from the request alone."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Literal

from foregate.agent.models.rehearsal.conversation import parsed
from foregate.agent.models.rehearsal.grammar import understand
from foregate.agent.models.rehearsal.wish import Wish
from foregate.agent.models.rehearsal.words import described, short
from foregate.schemas import strict_json
from foregate.schemas.critique import Critique
from foregate.schemas.message import Message
from foregate.schemas.plan import Criterion, Plan, PlannedAction, PlannedStep
from foregate.schemas.strict_json import Json

StepEffect = Literal["edit", "delete", "move", "execute", "commit"]
WIDE_USES = 10
"""Calls a planned step with a pattern covers."""


def plan(messages: Sequence[Message], stumbles: bool) -> str:
    """Return a plan for the calls of the newest request, as JSON text.

    What nobody asked for gets a plan without a goal, which is no plan. One that stumbles forgets the risks at first.
    """
    request = newest(messages)
    calls = [call for call in listed(request.get("calls")) if isinstance(call, dict)]
    if not calls:
        return ""
    wishes = understand(text(request, "user_words")).wishes
    first = calls[0]
    asked = all(asked_for(call, wishes) for call in calls)
    forgets = stumbles and request.get("plan") is None and not text(request, "defect")
    steps = [step_of(call) for call in calls]
    if not request.get("amendment"):
        known = {(step.tool, step.target) for step in steps}
        steps += [step for wish in wishes for step in steps_of(wish) if (step.tool, step.target) not in known]
    made = Plan(
        goal=goal_of(wishes, first) if asked else "",
        success_criteria=[*(done(planned) for planned in steps[:1]), *(seen for w in wishes for seen in checks_of(w))],
        first_action=PlannedAction(tool=steps[0].tool, target=steps[0].target, description=steps[0].description),
        requires_verification=True,
        risky_actions=[] if forgets else [risk_of(call) for call in calls],
        version=1,
        planned_steps=steps,
    )
    return strict_json.canonical(made.model_dump(mode="json")).decode()


def critique(messages: Sequence[Message]) -> str:
    """Return a critique of the calls of the newest request, as JSON text.

    It asks to replan where a shell line deletes by pattern, and where what is deleted or sent was never looked at.
    """
    request = newest(messages)
    calls = [call for call in listed(request.get("calls")) if isinstance(call, dict)]
    issues = [issue for call in calls for issue in issues_of(call, listed(request.get("evidence")))]
    summary = "The calls do what was asked and no more." if not issues else "This could destroy more than was asked."
    made = Critique(verdict="replan" if issues else "accept", issues=issues, summary=summary)
    return strict_json.canonical(made.model_dump(mode="json")).decode()


def newest(messages: Sequence[Message]) -> Mapping[str, Json]:
    """Return the request to planner or critic: the JSON object in the last message."""
    return parsed(messages[-1].text) if messages else {}


def goal_of(wishes: Sequence[Wish], first: Mapping[str, Json]) -> str:
    """Return the goal in a sentence."""
    known = [described(wish) for wish in wishes if wish.verb not in ("unknown", "vague", "ask_how")]
    goal = short("; ".join(known), 400)
    return f"{goal[:1].upper()}{goal[1:]}" if goal else f"Do what was asked with {text(first, 'tool')}"


def step_of(call: Mapping[str, Json]) -> PlannedStep:
    """Return the planned step that is exactly this call."""
    tool, target = text(call, "tool"), text(call, "target")
    return PlannedStep(
        tool=tool, target=target, description=f"{tool} on {target or 'what it names'}", effect=None, uses=1
    )


def steps_of(wish: Wish) -> list[PlannedStep]:
    """Return the steps that change something for one wish, as far as they are known before looking."""
    says = described(wish)
    match wish.verb:
        case "replace" | "append":
            return [step("edit_file", wish.target, says, "edit")]
        case "write":
            return [step("write_file", wish.target, says, "edit")]
        case "delete":
            return [step("delete_path", path, says, "delete") for path in wish.words]
        case "sweep":
            folder = wish.target.rstrip("/")
            pattern = wish.text if folder in ("", ".") else f"{folder}/{wish.text}"
            return [step("delete_path", pattern, says, "delete", WIDE_USES)]
        case "move":
            return [step("move_path", path, says, "move") for path in (wish.target, wish.other)]
        case "run":
            return [step("run_command", shlex.join(wish.words), says, "execute")]
        case "commit":
            return [step("git_add", ".", says, "edit"), step("git_commit", ".", says, "commit")]
        case "fetch":
            return [step("http_request", wish.target, says, None)]
        case _:
            return []


def step(tool: str, target: str, description: str, effect: StepEffect | None, uses: int = 1) -> PlannedStep:
    """Return a planned step."""
    return PlannedStep(tool=tool, target=target, description=description, effect=effect, uses=uses)


def asked_for(call: Mapping[str, Json], wishes: Sequence[Wish]) -> bool:
    """Whether a call serves one of the wishes; where a wish is not understood, any call might."""
    if not wishes or any(wish.verb in ("unknown", "vague", "ask_how") for wish in wishes):
        return True
    return any(serves(call, wish) for wish in wishes)


def serves(call: Mapping[str, Json], wish: Wish) -> bool:
    """Whether a call could be part of fulfilling one wish."""
    tool = text(call, "tool")
    match tool:
        case "run_command":
            return wish.verb == "run" and listed(parsed(text(call, "arguments")).get("argv")) == list(wish.words)
        case "run_shell":
            return wish.verb in ("shell", "delete", "sweep")
        case "git_add" | "git_commit":
            return wish.verb == "commit"
        case "write_file" | "edit_file" | "create_directory":
            return wish.verb in ("write", "replace", "append", "create_directory")
        case "delete_path":
            return wish.verb in ("delete", "sweep")
        case "move_path":
            return wish.verb == "move"
        case "http_request":
            return wish.verb == "fetch"
        case _:
            return True


def done(planned: PlannedStep) -> Criterion:
    """Return how one would recognise that a step succeeded; a person can tell, no single look can."""
    return Criterion(
        text=f"{planned.description}: done, and nothing else changed", check=None, target=None, expected=None
    )


def checks_of(wish: Wish) -> list[Criterion]:
    """Return what a look at a file would show once a wish is fulfilled."""
    match wish.verb:
        case "replace":
            return [criterion(described(wish), "file_contains", wish.target, wish.other)]
        case "write" | "append":
            return [criterion(described(wish), "file_exists", wish.target, None)]
        case "move":
            return [criterion(described(wish), "file_exists", wish.other, None)]
        case _:
            return []


def criterion(
    says: str, check: Literal["file_exists", "file_contains"], target: str, expected: str | None
) -> Criterion:
    """Return a criterion that a look can settle."""
    return Criterion(text=says, check=check, target=target, expected=expected)


def risk_of(call: Mapping[str, Json]) -> str:
    """Return the risk of a call in a sentence."""
    capabilities = call.get("capabilities")
    flags = capabilities if isinstance(capabilities, dict) else {}
    why = [name for name in ("irreversible", "external") if flags.get(name) is True]
    return f"{text(call, 'tool')} {text(call, 'target')}: {' and '.join(why) or text(call, 'effect') or 'a change'}"


def issues_of(call: Mapping[str, Json], evidence: Sequence[Json]) -> list[str]:
    """Return what speaks against a call."""
    arguments = parsed(text(call, "arguments"))
    command = arguments.get("command")
    if text(call, "tool") == "run_shell" and isinstance(command, str) and deletes_by_pattern(command):
        return [f"`{short(command)}` deletes whatever its pattern matches, unseen; list the files and delete each"]
    if text(call, "effect") != "delete":
        return []
    seen = {item.get("resource") for item in evidence if isinstance(item, dict) and item.get("seen")}
    return [
        f"`{target}` was never looked at; look at it before deleting it"
        for target in listed(call.get("targets"))
        if isinstance(target, str) and target not in seen
    ]


def deletes_by_pattern(command: str) -> bool:
    """Whether a shell line removes by a pattern or a whole tree."""
    words = command.replace(";", " ").replace("&", " ").split()
    removes = any(word in ("rm", "rmdir", "unlink", "-delete", "clean") for word in words)
    return removes and (any(sign in command for sign in "*?[") or any(w.startswith("-") and "r" in w for w in words))


def text(body: Mapping[str, Json], key: str) -> str:
    """Return a text under `key`, "" when there is none."""
    value = body.get(key)
    return value if isinstance(value, str) else ""


def listed(value: Json) -> Sequence[Json]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []
