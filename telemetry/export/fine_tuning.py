"""A trajectory as examples for OpenAI's fine-tuning: whole conversations, or preference pairs.

An example is a task: what the model was sent for its last response, and that response. `weight` is 1 for responses of
that task whose calls were all allowed and reached, 0 for all others: those that came before, those of which a call was
held, denied, cut off or cancelled, questions Foregate asked, and calls a plan listed. Where the context was compressed
within a task the example ends, and another begins with what the model was sent from there on; so each response has
weight 1 in at most one example. What an execution model was asked for a task of a plan is an example of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from foregate.schemas.event import Event
from foregate.schemas.event_body import ContextCompressed, TaskEnded, TaskStarted
from foregate.schemas.message import Message, format_messages
from foregate.schemas.strict_json import Json
from foregate.telemetry.export.pairs import find_pairs
from foregate.telemetry.export.states import ModelConversation, SentRequest, ToolOffer, ToolOffers, format_assistant
from foregate.telemetry.export.trajectory import Trajectory, TrajectoryStep


def build_examples(
    trajectory: Trajectory, states: Mapping[int, SentRequest], events: Sequence[Event]
) -> Iterator[dict[str, Json]]:
    """Yield the examples of a session in order; one without any response worth learning from is left out."""
    steps = {step.seq: step for step in trajectory.responses}
    heard, worth, offers = ModelConversation(), set[int](), ToolOffers()
    offer = offers(trajectory.tools)
    for event in events:
        if isinstance(event.body, (ContextCompressed, TaskEnded, TaskStarted)):
            yield from _build_example(offer, heard.messages, worth)
            worth = set()
        message = heard.apply(event)
        step = steps.get(event.seq)
        if step is None or message is None or not is_good(step):
            continue
        sent, offer = states.get(event.seq), offers(step.tools)
        if sent is not None and sent.apart:
            yield from _build_example(offer, [*sent.messages, message], {id(message)})
        else:
            worth.add(id(message))
    yield from _build_example(offer, heard.messages, worth)


def build_preferences(trajectory: Trajectory, states: Mapping[int, SentRequest]) -> Iterator[dict[str, Json]]:
    """Yield each preference pair of a session as an example of the preference format."""
    offers = ToolOffers()
    for pair in find_pairs(trajectory):
        sent, offer = states.get(pair.step.seq), offers(pair.step.tools)
        if sent is not None:
            yield {
                "input": {"messages": format_messages(sent.messages, offer.names), "tools": offer.definitions},
                "preferred_output": [format_assistant(pair.text, (pair.better.call,), offer.names)],
                "non_preferred_output": [format_assistant(pair.step.message, (pair.held.call,), offer.names)],
            }


def is_good(step: TrajectoryStep) -> bool:
    """Whether a response is one to learn from: a model's own, whole, with nothing in it that was not let through."""
    whole = step.asked and step.finish_reason != "length" and bool(step.message.strip() or step.actions)
    return whole and all(action.standing == "allow" and action.has_run for action in step.actions)


def _build_example(offer: ToolOffer, sent: Sequence[Message], worth: set[int]) -> Iterator[dict[str, Json]]:
    """Yield the conversation up to its last response, where one of those in it has a weight."""
    end = max((place for place, message in enumerate(sent) if id(message) in worth), default=-1)
    if end < 0:
        return
    until = _find_answers_end(sent, end)
    weights = iter(
        [int(id(said) in worth) for said in sent[:until] if said.role == "assistant" and (said.calls or said.text)]
    )
    messages = format_messages(sent[:until], offer.names)
    while messages[-1]["role"] != "assistant":
        messages.pop()
    for message in messages:
        if message["role"] == "assistant":
            message["weight"] = next(weights)
    yield {"messages": messages, "tools": offer.definitions}


def _find_answers_end(sent: Sequence[Message], end: int) -> int:
    """Return the place behind the message at `end` and the answers to its calls."""
    until = end + 1
    while until < len(sent) and sent[until].role == "tool":
        until += 1
    return until
