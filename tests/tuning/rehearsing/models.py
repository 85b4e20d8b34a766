"""Models that are played twice: one that heeds no gate, and one that sends again what was held."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from foregate.agent.models.scripted import answers, calls, says
from foregate.gates.replay.assumption import Assumption
from foregate.schemas import strict_json
from foregate.schemas.event import Event
from foregate.schemas.judgement import Need
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.protocols import Reply
from foregate.schemas.strict_json import Json
from foregate.tuning.family_replay import PolicyReplacer
from foregate.tuning.rehearse import Rehearsal, rehearse
from tests.agent.world import ACCEPT, plan_json

TALK = "I understood what you want, and this is what I do for it now."
Wanted = tuple[str, dict[str, Json]]
AGAIN = ("narration_required", "missing_pre_execution_evidence", "stale_evidence", "critique_rejected")


@dataclass
class Heedless:
    """Sends its steps in order, whatever came of the ones before; plans and critiques fit what was asked."""

    steps: Sequence[tuple[str, Sequence[Wanted]]]
    name: str = "heedless"
    sent: int = 0

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        if request.purpose == "plan":
            return write_plan(request)
        if request.purpose == "critique":
            return answers(ACCEPT)
        return self.go_on(request)

    def go_on(self, request: ModelRequest) -> ModelResponse:
        if self.sent >= len(self.steps):
            return says("That is all.")
        text, wanted = self.steps[self.sent]
        self.sent += 1
        return calls(*wanted, text=text) if wanted else says(text)


@dataclass
class Insistent(Heedless):
    """The same, but what was held is sent again once, with words, before it goes on."""

    name: str = "insistent"
    pressed: set[str] = field(default_factory=set)

    def go_on(self, request: ModelRequest) -> ModelResponse:
        held = [call for call in find_held(request.messages) if json.dumps(call) not in self.pressed]
        if held:
            self.pressed.update(map(json.dumps, held))
            return calls(*held, text=TALK)
        return super().go_on(request)


def sends_twice(steps: Sequence[tuple[str, Sequence[Wanted]]]) -> bool:
    """Whether a script has a call more than once, which nobody can tell from sending it again because it was held."""
    wanted = [json.dumps(call) for _, calls in steps for call in calls]
    return len(wanted) > len(set(wanted))


def write_plan(request: ModelRequest) -> ModelResponse:
    """Return a plan for the calls that the planner is shown."""
    first, *rest = json.loads(request.messages[1].text)["calls"]
    none = {"description": "do it", "effect": None, "uses": None}
    steps = [{"tool": one["tool"], "target": one["target"], **none} for one in rest]
    return answers(plan_json(first["tool"], first["target"], *steps))


def find_held(messages: Sequence[Message]) -> list[Wanted]:
    """Return the calls of the last response that a gate held, as they were sent."""
    at = max((at for at, message in enumerate(messages) if message.role == "assistant" and message.calls), default=None)
    if at is None:
        return []
    codes = {message.call: _read_code(message.text) for message in messages[at + 1 :] if message.role == "tool"}
    return [(call.name, dict(call.arguments or {})) for call in messages[at].calls if codes.get(call.id) in AGAIN]


def _read_code(text: str) -> str:
    told = strict_json.parse(text)
    said = told.get("foregate") if isinstance(told, dict) else None
    return str(said.get("code", "")) if isinstance(said, dict) else ""


class Agreeing:
    """A person who says yes to whatever they are asked."""

    async def answer(self, need: Need) -> Reply | None:
        return Reply("anyway" if need.gate == "loop" and need.request.get("can_override") else "yes")


async def rehearse_one(events: Sequence[Event], policies: PolicyReplacer, assumed: Assumption) -> Rehearsal:
    """Return a session played again that stands alone in its log."""
    (played,) = await rehearse({events[0].session: events}.__getitem__, [events[0].session], policies, assumed)
    return played
