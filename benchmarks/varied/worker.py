"""Who plays varied work: a model that does a job and follows the cures of holds, its advisors, and a person."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from guarding.task import LOOKS

from foregate.schemas import strict_json
from foregate.schemas.judgement import Need
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.plan import list_leaves
from foregate.schemas.protocols import Reply
from foregate.schemas.tool_call import ToolCall
from varied.jobs import Job, Wanted
from varied.world import World

_FINAL = ("denied_by_rule", "approval_denied", "approval_required", "refused_before", "unknown_tool", "outside_mandate")
_TRIES = 3
_CRITIQUES = (("accept", 62), ("replan", 18), ("hollow", 8), ("broken", 8), ("", 4))
_ABSENT = 0.06
"""Share of jobs in which neither planner nor critic can be had."""
_MISFITTING = 0.12
"""Share of plans for calls that begin with another tool."""
_CHECKED = 5
"""One plan in so many promises what a program has to say."""
_STUBBORN = 0.3
"""Share of answers with calls where words alone are asked for."""


class Worker:
    """A Model: `begin` gives it a job. Held calls are sent again as their answers ask, and given up at times."""

    name = "varied"

    def __init__(self, draw: random.Random, world: World) -> None:
        self.draw, self.world = draw, world

    def begin(self, job: Job) -> None:
        """Turn to a job, and to a helper of one's own where it is handed on."""
        self.job, self.at, self.tries = job, -1, 0
        self.is_absent = self.draw.random() < _ABSENT
        self.helper = Worker(self.draw, self.world) if job.child is not None else None
        if self.helper is not None and job.child is not None:
            self.helper.begin(job.child)

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer as planner, as critic, or with the next step; as the helper where it is asked."""
        if self.helper is not None and any(self.helper.job.say in message.text for message in request.messages):
            return await self.helper.respond(request, on_text)
        match request.purpose:
            case "plan" | "critique" if self.is_absent:
                return ModelResponse("", usage=Usage(400, 0))
            case "plan":
                return ModelResponse(self._plan(request), usage=Usage(400, 100))
            case "critique":
                return ModelResponse(self._criticise(), usage=Usage(300, 40))
            case _:
                return self._go_on(request)

    def _go_on(self, request: ModelRequest) -> ModelResponse:
        held = self._find_held(request)
        if not held or self.at < 0:
            return self._advance(request)
        if request.words_only or self.tries >= _TRIES or self.draw.random() < 0.15:
            return self._advance(request) if self.draw.random() < 0.5 else ModelResponse("I could not do all of it.")
        self.tries += 1
        final = (*_FINAL, *(("invalid_arguments",) if self.draw.random() < 0.6 else ()))
        again = [ToolCall.of(call.name, call.arguments or {}) for call, code, _ in held if code not in final]
        remedies = [answer["foregate"].get("remedy") for _, _, answer in held if "observed" not in answer]
        cures = [ToolCall.of(remedy["tool"], remedy["arguments"]) for remedy in remedies if remedy]
        if not again:
            return self._advance(request)
        text = f"I understood: {self.job.say} I will now use {again[0].name}." if self.draw.random() < 0.8 else ""
        return ModelResponse(text, (*cures, *again), usage=Usage(600, 50), finish_reason="tool_calls")

    def _advance(self, request: ModelRequest) -> ModelResponse:
        self.at, self.tries = self.at + 1, 0
        stubborn = request.words_only and self.draw.random() < _STUBBORN
        if self.at >= len(self.job.steps) or (request.words_only and not stubborn):
            return ModelResponse(self.job.ends or "Here is the answer.", usage=Usage(500, 20))
        if self.draw.random() < 0.04:
            self.world.disturb()
        text, wanted = self.job.steps[self.at]
        made = tuple(ToolCall.of(tool, arguments) for tool, arguments in wanted)
        return ModelResponse(text, made, usage=Usage(500, 60), finish_reason="tool_calls")

    def _find_held(self, request: ModelRequest) -> list[tuple[ToolCall, str, Any]]:
        """Return the calls last sent that did not run: call, code and the whole answer."""
        answers: dict[str, Any] = {}
        for message in reversed(request.messages):
            if message.role == "tool":
                answers[message.call or ""] = json.loads(message.text)
            elif message.role == "assistant" and message.calls:
                said = [(call, answers.get(call.id, {})) for call in message.calls]
                return [(call, said["foregate"].get("code", ""), said) for call, said in said if "foregate" in said]
        return []

    def _plan(self, request: ModelRequest) -> str:
        """Return a plan for the rest of the job, or at times one that does not fit, or nothing."""
        if self.draw.random() < 0.08:
            return self.draw.choice(("", "{", '{"goal": ""}'))
        left = [wanted for _, step in self.job.steps[max(self.at, 0) :] for wanted in step if wanted[0] not in LOOKS]
        if self.draw.random() < 0.12:
            left = left[:1]
        if request.schema_name.endswith("_v2"):
            return self._plan_blindly(left)
        asked = json.loads(next(one.text for one in reversed(request.messages) if '"amendment"' in one.text))
        steps = [(call["tool"], call["target"]) for call in asked["calls"]]
        if not asked["amendment"]:
            steps += [(tool, str(next(iter(arguments.values()), "."))) for tool, arguments in left]
        described = [
            {"tool": tool, "target": where, "description": f"{tool} {where}", "effect": None, "uses": None}
            for tool, where in dict.fromkeys(steps)
        ]
        first = {key: described[0][key] for key in ("tool", "target", "description")}
        first |= {"tool": "read_file"} if self.draw.random() < _MISFITTING else {}
        return encode_plan(self.job.say, first, [self._build_criterion()], 1, described)

    def _plan_blindly(self, left: list[Wanted]) -> str:
        steps = [self._build_step(tool, arguments) for tool, arguments in left]
        first = {"tool": steps[0]["tool"] if steps else "read_file", "target": "", "description": "do the first step"}
        return encode_plan(self.job.say, first, [self._build_criterion()], 2, steps, flows=[])

    def _build_criterion(self) -> dict[str, Any]:
        """Return what a plan promises: now and then that a program says so, which a look cannot tell."""
        if len(self.job.say) % _CHECKED == 0:
            return {"text": "tests pass", "check": "command_succeeds", "target": "pytest -q", "expected": None}
        return {"text": "it is as asked", "check": None, "target": None, "expected": None}

    def _build_step(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        step: dict[str, Any] = {"tool": tool, "description": f"use {tool}", "targets": [], "bounds": []}
        for path, given in list_leaves(arguments):
            said = str(given).casefold() in self.job.say.casefold()
            if isinstance(given, str):
                read = {"argument": path, "read": "read_file", "record": "", "field": path.rpartition(".")[2]}
                step["targets"].append({"argument": path, "said": given} if said else read)
            step["bounds"].append({"argument": path, "rule": "equals" if said else "free", "value": str(given)})
        return step

    def _criticise(self) -> str:
        (verdict,) = self.draw.choices([what for what, _ in _CRITIQUES], [weight for _, weight in _CRITIQUES])
        if verdict in ("", "broken"):
            return verdict
        if verdict == "hollow":
            return strict_json.canonical({"verdict": "replan", "issues": [], "summary": "not like this"}).decode()
        issues = ["the target was named by nobody"] if verdict == "replan" else []
        return strict_json.canonical({"verdict": verdict, "issues": issues, "summary": "looked at it"}).decode()


def encode_plan(goal: str, first: Any, criteria: list[Any], version: int, steps: list[Any], **more: Any) -> str:
    """Return a plan as the text of a planner's answer."""
    plan = {"goal": goal, "first_action": first, "success_criteria": criteria, "planned_steps": steps or None}
    told = {"requires_verification": True, "risky_actions": ["it may do more"], "version": version}
    return strict_json.canonical({**plan, **told, **more}).decode()


class Somebody:
    """A Person who mostly says yes."""

    def __init__(self, draw: random.Random) -> None:
        self.draw = draw

    async def answer(self, need: Need) -> Reply:
        """Say yes, no, or what the loop offers."""
        if need.gate == "loop":
            return Reply("anyway" if need.request.get("can_override") and self.draw.random() < 0.5 else "stop")
        return Reply("yes" if self.draw.random() < 0.78 else "no", by="the user")
