"""The rehearsal model: deterministic and no language model, so that the whole product can be tried offline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from foregate.agent.models.rehearsal import advice, plan
from foregate.agent.models.rehearsal.conversation import Exchange, read_conversation
from foregate.agent.models.rehearsal.performing import NOTED, performance
from foregate.agent.models.rehearsal.stage import Move
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse, Usage


@dataclass(frozen=True)
class RehearsalModel:
    """Understands the requests of `sentences`, makes real tool calls and follows the gates' remedies.

    A pure function of the request: the same messages give the same response, so a resumed session goes on. It acts
    rashly on vague requests and when asked for a poem. `stumbles` makes it careless throughout, for demonstrations:
    it forgets to say what it does, edits unread files, names a tool there is not, and does what nobody asked for.
    Plans and critiques are worked out from what was asked, never from the conversation.
    """

    stumbles: bool = False
    name: str = "rehearsal"

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Answer a chat, planner or critic request; never raises."""
        match request.purpose:
            case "plan":
                move = Move(advice.write_plan(request.messages, self.stumbles))
            case "task_plan":
                move = Move(plan.write_task_plan(request.messages))
            case "plan_results":
                move = Move(plan.write_plan_results(request.messages))
            case "critique":
                move = Move(advice.write_critique(request.messages))
            case _:
                move = next_move(request, self.stumbles)
        if on_text is not None and move.text:
            on_text(move.text)
        return ModelResponse(
            move.text,
            move.calls,
            usage=Usage(sum(tokens(message.text) for message in request.messages), tokens(move.text)),
            finish_reason="tool_calls" if move.calls else "stop",
            model=self.name,
        )


def tokens(text: str) -> int:
    """Return a rough count of tokens, for the limits."""
    return len(text) // 4 + 1


def next_move(request: ModelRequest, stumbles: bool) -> Move:
    """Run the work over the conversation so far and return the move that comes next."""
    conversation = read_conversation(request.messages)
    if conversation.task:
        return plan.fill(conversation)
    tools = frozenset(spec.name for spec in request.tools) if request.tools else None
    work = performance(conversation, tools, stumbles)
    move = next(work)
    for exchange in conversation.exchanges:
        if not is_same_move(move, exchange):
            return Move("This conversation went on without me, so I cannot tell where I was. Say again what is left.")
        move = work.send(exchange)
    if move.calls and (request.words_only or not request.tools):
        return Move(f"I may only answer in words now, so I have not done this. {NOTED}")
    return move


def is_same_move(move: Move, exchange: Exchange) -> bool:
    """Whether a recorded response is the one this work made."""
    return [wanted.name for wanted in move.calls] == [wanted.name for wanted in exchange.calls]
