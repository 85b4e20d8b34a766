"""One question to a planning model: asked without tools, recorded with its answer like every other need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from foregate.agent.planning.ask.rewording import MODEL
from foregate.agent.session.session import Session
from foregate.policy.source.strict_yaml import shown
from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError
from foregate.schemas.event import Draft
from foregate.schemas.judging_events import NeedAnswered, NeedRaised
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import REFUSED, ModelResponse, Usage
from foregate.schemas.need import Answer, Need
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanDefect

T = TypeVar("T")
_WHY = 300
"""Characters of what was wrong with an answer that are recorded."""


@dataclass(frozen=True, slots=True)
class Got:
    """What came of asking: the text, why it can be no answer where it cannot, and what the adapter noted."""

    text: str = ""
    wrong: PlanDefect | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken(Generic[T]):
    """What an answer was taken for: the value, its recorded form, and what is wrong with it, "" for nothing."""

    value: T
    recorded: Mapping[str, Json] | None
    error: str = ""


async def ask(
    session: Session, model: Model, key: str, request: ModelRequest, take: Callable[[Got], Taken[T]]
) -> tuple[T, str]:
    """Ask once, record request and answer, and return what `take` makes of the answer, and its text.

    `key` is the gate's name, a colon and the number of the try.
    """
    gate = key.partition(":")[0]
    stored = session.blobs.put(request.messages[-1].text.encode())
    need = Need(gate, "planner", key, (), ())
    await session.record(Draft(NeedRaised(need=need, request=stored, survey_hash=""), "foregate"))
    got, usage = Got(), Usage()
    try:
        response = await model.respond(request)
        text, usage = strict_json.scrub(response.text), response.usage
        got = Got(text, unusable(response, text), response.notes)
    except ModelError as error:
        got = Got("", PlanDefect(0, MODEL, str(error)[:_WHY], "try again, or name another model"))
    taken = take(got)
    why = taken.error[:_WHY]
    answer = Answer(gate, "planner", key, (), "", session.policy.hash, taken.recorded, why, session.clock())
    words = session.blobs.put(got.text.encode())
    await session.record(Draft(NeedAnswered(answer=answer, usage=usage, response=words), "planner"))
    return taken.value, got.text


def unusable(response: ModelResponse, text: str) -> PlanDefect | None:
    """Return why a response is no answer whatever its text holds, None where the text is to be read."""
    if response.finish_reason == "length":
        remedy = "write a shorter plan; the person may raise `models.planning.max_tokens`"
        return PlanDefect(0, "answer", "the answer was cut off before its end", remedy)
    if response.finish_reason == "content_filter" or REFUSED in response.notes:
        problem = f"the model declined: {shown(text, 200)}" if text else "the model declined"
        return PlanDefect(0, "answer", problem, "plan what can be planned, or say it in other words")
    if response.calls and not text.strip():
        problem = f"the answer called `{shown(response.calls[0].name, 60)}` and held no plan"
        return PlanDefect(0, "answer", problem, "call nothing now; answer with the plan as JSON")
    return None
