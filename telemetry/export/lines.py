"""A trajectory as lines to learn from: (state, action, observation, reward) per response, or OpenAI's fine-tuning.

An example of OpenAI's is a task: what the model was sent for its last response, and that response. `weight` is 1 for
responses of that task whose calls were all allowed and reached, 0 for all others: those that came before, those of
which a call was held, denied, cut off or cancelled, questions Foregate asked, and calls a plan listed. Where the
context was compressed within a task the example ends, and another begins with what the model was sent from there on; so
each response has weight 1 in at most one example. What an execution model was asked for a task of a plan is an example
of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from foregate.evidence.state.conversation import Conversation, build_message
from foregate.schemas import event_body, strict_json
from foregate.schemas.event import Event, ModelResponded
from foregate.schemas.message import Message, WireNames, format_messages, read_messages
from foregate.schemas.protocols import Blobs
from foregate.schemas.strict_json import Json, get_list, get_text
from foregate.schemas.task_plan import FillRequest, PlanStepChanged
from foregate.schemas.tool_call import ToolCall
from foregate.schemas.tool_spec import ToolSpec
from foregate.telemetry.export.restore import dump_sorted
from foregate.telemetry.export.trajectory import Action, Trajectory, TrajectoryStep, find_pairs


def build_rows(
    trajectory: Trajectory, states: Mapping[int, SentRequest], rewards: Sequence[float] | None, *, content: bool = True
) -> Iterator[dict[str, Json]]:
    """Yield the lines of a session; `states` are by event number, `rewards` one for each response, None is null.

    Raises LookupError for a response outside every task.
    """
    offers = ToolOffers()
    tasks = {task.number: task for task in trajectory.tasks}
    last = {step.task: step.number for step in trajectory.responses}
    for place, step in enumerate(trajectory.responses):
        task = tasks.get(step.task)
        if task is None:
            raise LookupError(f"event {step.seq} is a response outside every task")
        offer = offers(step.tools)
        done = task.has_ended and last[step.task] == step.number
        action = _build_action(step, offer.names, content)
        wire = [get_text(call, "id") for call in get_list(action, "tool_calls")]
        made = list(zip(wire, step.actions, strict=True))
        yield {
            "session": trajectory.session,
            "parent": trajectory.parent or None,
            "step": step.number,
            "task": step.task,
            "turn": step.turn or None,
            "time": step.time,
            "actor": step.actor,
            "model": step.model,
            "state": _build_state(states.get(step.seq), offer, content),
            "action": action,
            "observation": [_build_observation(*one) for one in made],
            "reward": None if rewards is None else rewards[place],
            "done": done,
            "status": task.status if done else None,
            "verdicts": [_build_verdict(*one) for one in made],
            "decisions": [_drop_empty(strict_json.dump(point)) for point in step.decisions],
            "answers": [_drop_empty(strict_json.dump(given)) for given in step.answers],
            "usage": {"input_tokens": step.usage.input_tokens, "output_tokens": step.usage.output_tokens},
            "finish_reason": step.finish_reason,
        }


def _build_state(sent: SentRequest | None, offer: ToolOffer, content: bool) -> Json:
    """Return the messages that were sent, and the names of the tools in force as the messages spell them."""
    if sent is None or not content:
        return None
    tools = [offer.names.to_wire(tool.name) for tool in offer.tools]
    return {"messages": format_messages(sent.messages, offer.names), "tools": tools}


def _build_action(step: TrajectoryStep, names: WireNames, content: bool) -> dict[str, Json]:
    message = format_assistant(step.message, tuple(action.call for action in step.actions), names)
    more: dict[str, Json] = {"reasoning": step.reasoning, "raw": step.raw} if content else {}
    return {**message, **{name: text for name, text in more.items() if text}}


def _build_observation(wire: str, action: Action) -> dict[str, Json]:
    """Return the outcome of a call; `content` is the answer as the model got it, also in the next state."""
    return {
        "tool_call_id": wire,
        "call": action.id,
        "outcome": action.outcome,
        "code": action.answer_code or None,
        "content": action.told,
        "exit_code": action.exit_code,
        "undone": action.undone,
        "resolved": action.resolved or None,
        "child": action.child or None,
    }


def _build_verdict(wire: str, action: Action) -> dict[str, Json]:
    return {
        "tool_call_id": wire,
        "call": action.id,
        "standing": action.standing or None,
        "gate": action.gate or None,
        "code": action.code or None,
        "message": action.message,
        "remedy": dump_sorted(action.remedy) if action.remedy is not None else None,
    }


def _drop_empty(row: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in row.items() if value or value == 0}


def build_examples(
    trajectory: Trajectory, states: Mapping[int, SentRequest], events: Sequence[Event]
) -> Iterator[dict[str, Json]]:
    """Yield the examples of a session in order; one without any response worth learning from is left out."""
    steps = {step.seq: step for step in trajectory.responses}
    heard, worth, offers = ModelConversation(), set[int](), ToolOffers()
    offer = offers(trajectory.tools)
    for event in events:
        if isinstance(event.body, (event_body.ContextCompressed, event_body.TaskEnded, event_body.TaskStarted)):
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
    until = end + 1
    while until < len(sent) and sent[until].role == "tool":
        until += 1
    said = [message for message in sent[:until] if message.role == "assistant" and (message.calls or message.text)]
    weights = iter([int(id(message) in worth) for message in said])
    messages = format_messages(sent[:until], offer.names)
    while messages[-1]["role"] != "assistant":
        messages.pop()
    for message in messages:
        if message["role"] == "assistant":
            message["weight"] = next(weights)
    yield {"messages": messages, "tools": offer.definitions}


Hide = Callable[[bytes], bytes]
"""Masks what a blob holds before it is read."""


class ModelConversation:
    """The conversation as the model gets it, as the session's own state keeps it. Mutated by `apply`."""

    def __init__(self) -> None:
        self.conversation = Conversation()
        self._open: set[str] = set()

    @property
    def messages(self) -> list[Message]:
        """The messages so far."""
        return self.conversation.messages

    def apply(self, event: Event) -> Message | None:
        """Take in an event, and return the message it adds."""
        answered = False
        match event.body:
            case event_body.ContextCompressed() as body:
                self.conversation.compress(body)
            case ModelResponded(calls=calls):
                self._open = {call.id for call in calls}
            case event_body.TaskEnded():
                self._open = set()
            case event_body.EndBody(call=call):
                answered = call in self._open
                self._open.discard(call)
            case _:
                pass
        message = build_message(event, answered)
        if message is not None:
            self.conversation.add_message(message, by_user=isinstance(event.body, event_body.UserMessage))
        return message


class SentRequest(Struct, frozen=True):
    """A response (its event number), what was sent for it, and whether that is what everybody said so far.

    The execution model of a plan is sent a context of its own for each task: `apart`.
    """

    seq: int
    messages: tuple[Message, ...]
    apart: bool = False


def read_sent_requests(events: Iterable[Event], blobs: Blobs, hide: Hide) -> Iterator[SentRequest]:
    """Yield what was sent for each response of a session, in order; raise LogError for a blob that is missing."""
    heard, request = ModelConversation(), ""
    for event in events:
        match event.body:
            case ModelResponded(places=None) if request:
                yield SentRequest(event.seq, tuple(read_messages(hide(blobs.get(request)))), True)
                request = ""
            case ModelResponded():
                yield SentRequest(event.seq, tuple(heard.messages))
            case PlanStepChanged(ask=FillRequest(request=sent)):
                request = sent
            case _:
                pass
        heard.apply(event)


class ToolOffer:
    """The tools a model was offered: `names` spells theirs for endpoints, `definitions` has the form of a request."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self.tools = tools
        self.names = WireNames([tool.name for tool in tools])
        self.definitions = [_format_definition(tool, self.names) for tool in tools]


class ToolOffers(dict[int, ToolOffer]):
    """Offers by their tools, each made once: the steps of a session share theirs."""

    def __call__(self, tools: Sequence[ToolSpec]) -> ToolOffer:
        """Return the offer of these tools."""
        return self.get(id(tools)) or self.setdefault(id(tools), ToolOffer(tools))


def format_assistant(text: str, calls: tuple[ToolCall, ...], names: WireNames) -> dict[str, Json]:
    """Return one message of the model."""
    found = format_messages([Message("assistant", text, calls)], names)
    return found[0] if found else {"role": "assistant", "content": text}


def _format_definition(tool: ToolSpec, names: WireNames) -> dict[str, Json]:
    function: dict[str, Json] = {
        "name": names.to_wire(tool.name),
        "description": tool.description,
        "parameters": tool.parameters or {"type": "object", "properties": {}},
    }
    return {"type": "function", "function": function}
