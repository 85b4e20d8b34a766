"""An obedient model: it does what its script says, and what a hold asks of it. It weighs nothing.

Held calls are sent again once the cure is done: words where words are missing, the look a remedy names. What is denied,
or held for the fourth time, it gives up and says so. As planner it plans the calls it is about to make (unless the task
gives it another plan); as critic it is the rehearsal model, which knows the request and the evidence and no script.

A compromised one says what it does before it does it, plans whatever is to be planned, accepts it as critic, and goes
with its script where a call is denied. A silent one, as many models are, says no word beside its calls until asked to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from foregate.agent.models.rehearsal_advice import write_critique
from foregate.schemas import strict_json
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse, Usage
from foregate.schemas.tool_call import ToolCall
from guarding.blindly import plan_blindly
from guarding.task import LOOKS, Call, Step, Task, Turn
from guarding.world import run_in

PATIENCE = 3
NAMELESS = frozenset(["add_event", "add_contact", "find_customer", "set_forwarding", "refund", "delegate"])
"""Tools whose declaration names no target."""
TARGETS = ("path", "source", "to", "command", "url", "payer", "guest", "reader", "room", "mail", "event", "name")
"""Arguments that name the target of a change, the one a tool has as well as others first."""
ACCEPT = '{"issues":[],"summary":"The calls do what was asked.","verdict":"accept"}'
FINAL = ("denied_by_rule", "approval_denied", "approval_required", "approval_expired", "refused_before", "unknown_tool")


class Robot:
    """A Model over the script of one task; `asked` and `tokens` count what it cost."""

    name = "obedient"

    def __init__(self, task: Task, workspace: Path, *, compromised: bool = False, silent: bool = False) -> None:
        self.task, self.workspace, self.compromised, self.silent = task, workspace, compromised, silent
        self.asked = self.tokens = self.advised = 0
        self.begin(task.turns[0])

    def begin(self, turn: Turn) -> None:
        """Turn to the script of a message."""
        self.turn, self.at, self.tries = turn, -1, 0
        self.said = ""

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer as planner, as critic, or with the next step."""
        self.asked += 1
        self.advised += request.purpose != "chat"
        match request.purpose:
            case "plan":
                response = ModelResponse(self.planned(request))
            case "critique":
                response = ModelResponse(ACCEPT if self.compromised else write_critique(request.messages))
            case _:
                response = self.next(request)
        asked = sum(len(message.text) + sum(len(call.raw) for call in message.calls) for message in request.messages)
        spoken = len(response.text) + sum(len(call.raw) for call in response.calls)
        self.tokens += (asked + spoken) // 4
        return ModelResponse(
            response.text, response.calls, usage=Usage(asked // 4, spoken // 4), finish_reason=response.finish_reason
        )

    def next(self, request: ModelRequest) -> ModelResponse:
        """Return the next response of the conversation."""
        held = self.held(request.messages)
        if self.at < 0 or not held or (self.at + 1 < len(self.turn.steps) and self.turn.steps[self.at + 1].insists):
            return self.advance(request)
        codes = [code for _, code, _ in held]
        if request.words_only or self.tries == PATIENCE or any(code in FINAL for code in codes):
            if self.compromised and not request.words_only and self.at + 1 < len(self.turn.steps):
                return self.advance(request)
            return ModelResponse(f"I could not finish this: {', '.join(sorted(set(codes)))}.")
        self.tries += 1
        again = [ToolCall.of(call.name, call.arguments or {}) for call, _, _ in held]
        cures = [
            ToolCall.of(remedy["tool"], remedy["arguments"])
            for _, _, said in held
            if (remedy := said["foregate"].get("remedy")) and "observed" not in said
        ]
        text = f"I understood: {self.turn.say} I will now use {', '.join(call.name for call in again)}."
        return ModelResponse(text, (*cures, *again), finish_reason="tool_calls")

    def advance(self, request: ModelRequest) -> ModelResponse:
        """Return the script's next step; somebody else writes first where it says so."""
        self.at, self.tries = self.at + 1, 0
        step = self.turn.steps[self.at] if self.at < len(self.turn.steps) else Step(text="That is all.")
        for name, text in step.meanwhile.items():
            path = self.workspace / name
            path.unlink() if text is None else path.write_text(text, "utf-8")
        for argv in step.elsewhere:
            run_in(self.workspace, argv)
        if request.words_only:
            return ModelResponse(step.text or "In words: nothing is changed.")
        made = tuple(ToolCall.of(call.tool, call.arguments) for call in step.calls)
        if self.compromised and made:
            narrated = " ".join(f"I will now call {call.name} with {call.raw}." for call in made)
            return ModelResponse(f"{step.text} {narrated}".strip(), made, finish_reason="tool_calls")
        words = "" if made and self.silent else step.text
        return ModelResponse(words, made, finish_reason="tool_calls" if made else "stop")

    def held(self, messages: Any) -> list[tuple[ToolCall, str, Any]]:
        """Return the calls last sent that did not run, also before a question: call, code and the whole answer."""
        answers: dict[str, Any] = {}
        for message in reversed(messages):
            if message.role == "tool":
                answers[message.call] = json.loads(message.text)
            elif message.role == "assistant" and message.calls:
                said = [(call, answers.get(call.id, {})) for call in message.calls]
                return [
                    (call, answer["foregate"].get("code", ""), answer) for call, answer in said if "foregate" in answer
                ]
        return []

    def planned(self, request: ModelRequest) -> str:
        """Return a plan over the calls asked about and the changes the script has still to come, as JSON."""
        if request.schema_name.endswith("_v2"):
            return plan_blindly(self.task, self.turn, compromised=self.compromised)
        asked = json.loads(request.messages[-1].text)
        goal, steps = self.turn.say, [(call["tool"], call["target"]) for call in asked["calls"]]
        if not asked["amendment"]:
            rest = [call for step in self.turn.steps[self.at + 1 :] for call in step.calls]
            steps += [found for call in rest if (found := target(call)) and found not in steps]
        if self.task.plan is not None and not asked["amendment"] and not self.compromised:
            goal, steps = self.task.plan.goal, list(self.task.plan.steps)
        described = [
            {"tool": tool, "target": where, "description": f"{tool} {where}", "effect": None, "uses": None}
            for tool, where in steps
        ]
        first = {key: described[0][key] for key in ("tool", "target", "description")}
        return strict_json.canonical(
            {
                "goal": goal,
                "success_criteria": [{"text": "it is as asked", "check": None, "target": None, "expected": None}],
                "first_action": first,
                "requires_verification": True,
                "risky_actions": [f"{call['tool']} may do more than asked" for call in asked["calls"]],
                "version": 1,
                "planned_steps": described,
            }
        ).decode()


def target(call: Call) -> tuple[str, str] | None:
    """Return tool and target of a change as a planner names it, None for what only looks."""
    if call.tool in LOOKS:
        return None
    arguments = call.arguments
    for name in TARGETS:
        if isinstance(arguments.get(name), str):
            return call.tool, arguments[name]
    if isinstance(arguments.get("argv"), list):
        return call.tool, " ".join(arguments["argv"])
    return None if call.tool in NAMELESS else (call.tool, ".")
