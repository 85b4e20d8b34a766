"""Playing a scenario of the agent that `classic` follows: its data, a world with its tools, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.agent.tools.files import write_file
from foregate.agent.tools.folders import delete_path
from foregate.agent.tools.tool import Tool
from foregate.evidence.state.plan_in_force import read_steps
from foregate.policy.source.load import load_policy_layers, resolve_policy_file
from foregate.policy.source.strict_yaml import parse_yaml
from foregate.schemas.errors import ModelError
from foregate.schemas.event import ModelResponded, TurnJudged
from foregate.schemas.judgement import Judgement, Need, Standing
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Change, ToolResult
from foregate.schemas.tool_spec import Capabilities, Effect, Resource, ResourceKind, TargetParameter, ToolSpec
from tests.agent.world import ACCEPT, World
from tests.policies import policy_with

CLASSIC = load_policy_layers(resolve_policy_file("classic")).policy
TALK = "I understand, and this is what I will do now."
FOLDER = Path(__file__).parent
Scenario = Mapping[str, Any]
ARGUMENTS: Mapping[str, Callable[[str], dict[str, Json]]] = {
    "read_file": lambda word: {"path": word},
    "edit_file": lambda word: {"path": word, "old": "teh", "new": "the"},
    "write_file": lambda word: {"path": word, "content": "new words"},
    "delete_path": lambda word: {"path": word},
    "send": lambda word: {"to": word, "text": "hello"},
    "delegate": lambda word: {"task": word},
    "letter": lambda word: {},
    "tidy": lambda word: {},
}
SHORT = {"read": "read_file", "edit": "edit_file", "write": "write_file", "delete": "delete_path"}
TAME = Capabilities(external_side_effect=False, needs_approval=False, reversible=True)
KEPT = {
    "remember": replace(TAME, personal_memory=True),
    "deploy": replace(TAME, high_impact_write=True),
    "put": replace(TAME, needs_approval=True),
    "tidy": TAME,
}
"""Further tools that change something, by name; `tidy` alone names no target."""


def read_scenarios() -> Iterator[Scenario]:
    """Yield every scenario, with the file it stands in as `gate`."""
    for file in sorted(FOLDER.glob("*.yaml")):
        data, _ = parse_yaml(file.read_text("utf-8"), file.name)
        assert isinstance(data, list)
        for scenario in data:
            yield {"gate": file.stem, **scenario}


class Place(World):
    """The world with a tool of each sort that the scenarios name."""

    def tools(self) -> list[Tool]:
        """Return the tools."""
        more = [write_file(self.workspace, self.policy), delete_path(self.workspace, self.policy)]
        return [*super().tools(), *more, *(self.build_keeper(name) for name in KEPT)]

    def build_keeper(self, name: str) -> Tool:
        """Return a tool that keeps a note under a key, or everywhere."""
        target = (TargetParameter("key", ResourceKind.OTHER, Effect.EDIT),) if name != "tidy" else ()
        wanted: dict[str, Json] = {"key": {"type": "string"}} if target else {}
        schema: dict[str, Json] = {"type": "object", "properties": wanted, "required": list(wanted)}

        async def keep(arguments: Mapping[str, Json]) -> ToolResult:
            key = Resource(ResourceKind.OTHER, str(arguments.get("key", "")))
            return ToolResult(True, "kept", changes=(Change(key, "", str(len(self.effects))),) if target else ())

        return Tool(ToolSpec(name, f"Do `{name}`.", schema, Effect.EDIT, KEPT[name], target, "builtin"), keep)


@dataclass
class Played:
    """A model, planner and critic by the script of a scenario; a planner without one plans the call it is shown."""

    scenario: Scenario
    place: Place
    name: str = "played"
    tools: list[bool] = field(default_factory=list)
    asked: dict[str, int] = field(default_factory=lambda: {"chat": 0, "plan": 0, "critique": 0})

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Return what the scenario says for the next request of this purpose."""
        number = self.asked[request.purpose]
        self.asked[request.purpose] += 1
        if request.purpose == "chat":
            self.tools.append(bool(request.tools))
            return self.act(number)
        one, many = ("plan", "plans") if request.purpose == "plan" else ("critic", "critics")
        given = self.scenario.get(many, ())
        script = given[number] if number < len(given) else self.scenario.get(one, {})
        if script == "lost":
            raise ModelError("nobody answers")
        if isinstance(script, str):
            return says(script)
        shown = json.loads(request.messages[1].text)
        return says(json.dumps(build_plan(shown, script) if one == "plan" else {**ACCEPT, **script}))

    def act(self, number: int) -> ModelResponse:
        """Return the response to the request of this number; after the script there are only words."""
        if "child" in self.scenario:
            script: Sequence[Any] = [{"do": ["delegate do it"]}, *self.scenario["child"]]
        else:
            script = self.scenario["model"]
        step = script[number] if number < len(script) else {"end": "That is all."}
        if isinstance(step, str):
            step = {"say": "" if step.startswith("silent ") else TALK, "do": [step.removeprefix("silent ")]}
        if "end" in step:
            return says(step["end"])
        if "changed" in step:
            self.place.workspace.files[step["changed"]] = b"teh bird"
        return calls(*(read_call(words) for words in step["do"]), text=step.get("say", TALK))


class Agrees:
    """A person who says yes to every sheet, and stops what is held again and again."""

    async def answer(self, need: Need) -> Reply:
        """Return the answer."""
        return Reply("stop" if need.gate == "loop" else "yes")


def read_call(words: str) -> tuple[str, dict[str, Json]]:
    """Return tool and arguments of a call in short, such as `read a.txt`."""
    tool, _, word = words.partition(" ")
    tool = SHORT.get(tool, tool)
    return tool, ARGUMENTS.get(tool, lambda key: {"key": key})(word)


def build_plan(shown: Any, script: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan in the plain shape for the first call shown, changed as the script says; `gone` is no key."""
    call, given = shown["calls"][0], dict(script)
    action = {"tool": call["tool"], "target": call["target"], "description": "do it"}
    action |= {key: given.pop(key) for key in action if key in given}
    plan: dict[str, Any] = {
        "goal": "do what was asked",
        "success_criteria": ["it is done"],
        "first_action": action,
        "requires_verification": True,
        "risky_actions": ["it might be the wrong one"],
        "version": 1,
    }
    if (steps := given.pop("steps", None)) is not None:
        plan["planned_steps"] = [build_step(step) for step in steps]
    return {key: value for key, value in {**plan, **given}.items() if value != "gone"}


def build_step(step: str | Sequence[str]) -> dict[str, str]:
    """Return a planned step, from `tool target` or a list with its description."""
    tool, target, description = [*step.split(" "), "do it"] if isinstance(step, str) else step
    return {"tool": SHORT.get(tool, tool), "target": target, "description": description}


@dataclass
class Outcome:
    """What came of a scenario: a line for each response with calls, the plan's steps, and how it ended."""

    turns: list[str]
    steps: list[str]
    tools: list[bool]
    status: str


async def play(scenario: Scenario) -> Outcome:
    """Play a scenario through the loop under `classic`."""
    place = Place(policy=policy_with(scenario.get("policy", {}), CLASSIC))
    model = Played(scenario, place)
    session = await place.open(model, Agrees())
    said, status = scenario.get("says", "fix the typo in a.txt"), ""
    for message in [said] if isinstance(said, str) else said:
        status = (await run(session, message)).status
    name = next((one for one in await place.log.sessions() if one != "s"), "s") if "child" in scenario else "s"
    judged = [body for body in await place.bodies(TurnJudged, name) if is_a_response(body)]
    answered = await place.bodies(ModelResponded, name)
    tools = {call.id: call.name for body in answered for call in body.response.calls}
    steps = [step for body in judged for step in read_steps(body.judgement)]
    return Outcome(
        [describe_turn(body.judgement, tools) for body in judged],
        [f"{step.id} {step.tool} {step.target}" for step in steps],
        model.tools,
        status,
    )


def is_a_response(judged: TurnJudged) -> bool:
    """Whether a model's response was judged: its calls, or its answer in words."""
    return judged.turn.actor == "model" or (judged.turn.actor == "postlude" and not judged.judgement.verdicts)


def describe_turn(judgement: Judgement, tools: Mapping[str, str]) -> str:
    """Return the codes that say something, with why a plan was rejected, and behind a bar the tools that may run."""
    told = []
    for decision in judgement.decisions:
        quiet = decision.code.endswith(("_passed", "_not_required")) or decision.gate in ("approval", "prelude")
        told += [] if quiet else [decision.code]
        told += [row.reason for row in decision.rulings[:1] if decision.code == "plan_rejected"]
    runs = [tools[verdict.call] for verdict in judgement.verdicts if verdict.standing is Standing.ALLOW]
    return " ".join([*told, "|", *runs] if runs else told)
