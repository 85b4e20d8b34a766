"""One question to a planning model: asked without tools, recorded with its answer like every other need."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from foregate.agent.planning.ask.rewording import MODEL
from foregate.agent.planning.format.configuration import ModelConfiguration
from foregate.agent.planning.format.reader import Reading
from foregate.agent.session.session import Session
from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas import strict_json
from foregate.schemas.errors import ModelError
from foregate.schemas.event import Draft, NeedAnswered, NeedRaised
from foregate.schemas.judgement import Answer, Need
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import REFUSED, ModelResponse
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import PlanDefect, TaskPlan

_WHY = 300
"""Characters of what was wrong with an answer that are recorded."""


class Conclusion(Struct, frozen=True):
    """What a planning model says: an answer in words, a plan as far as it could be read, and what is wrong with either.

    `notes` are those of the adapter.
    """

    answer: str = ""
    reading: Reading | None = None
    defects: tuple[PlanDefect, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def plan(self) -> TaskPlan | None:
        """The plan, None where there is none that could be read."""
        return self.reading.plan if self.reading is not None else None

    @property
    def wrong(self) -> tuple[PlanDefect, ...]:
        """Everything that is wrong with what was said."""
        return (*self.defects, *(self.reading.defects if self.reading is not None else ()))


class Question(Struct, frozen=True):
    """What a planning model is asked, for the `number`th time: under which gate's name, with which words and schema."""

    gate: Literal["task_plan", "plan_results"]
    number: int
    prompt: str
    request: Mapping[str, Json]
    schema_name: str = ""
    schema: Mapping[str, Json] | None = None


async def ask_model(
    session: Session,
    model: Model,
    shape: ModelConfiguration,
    question: Question,
    read: Callable[[str], Conclusion],
    recorded: Callable[[Conclusion], Mapping[str, Json] | None],
) -> tuple[Conclusion, str]:
    """Ask once, record request and answer, and return what `read` makes of the answer's text, and the text.

    `recorded` is what the log keeps of a conclusion.
    """
    gate, key = question.gate, f"{question.gate}:{question.number}"
    content = strict_json.canonical(question.request)
    stored = session.blobs.put(content)
    need = Need(gate, "planner", key, (), ())
    await session.record(Draft(NeedRaised(need=need, request=stored, survey_hash=""), "foregate"))
    request = ModelRequest(
        [Message("system", question.prompt), Message("user", content.decode())],
        words_only=True,
        schema_name=question.schema_name,
        schema=question.schema,
        purpose=gate,
        temperature=shape.temperature,
        max_tokens=shape.max_tokens,
    )
    response = ModelResponse()
    try:
        response = await model.respond(request)
        text = strict_json.scrub(response.text)
        wrong = find_unusable_reason(response, text)
    except ModelError as error:
        text, wrong = "", PlanDefect(0, MODEL, str(error)[:_WHY], "try again, or name another model")
    found = replace(read(text) if wrong is None else Conclusion(defects=(wrong,)), notes=response.notes)
    why = "; ".join(map(sentence, found.wrong))[:_WHY]
    value = None if wrong is not None else recorded(found)
    answer = Answer(gate, "planner", key, (), "", session.policy.hash, value, why, session.clock())
    words = session.blobs.put(text.encode())
    await session.record(Draft(NeedAnswered(answer=answer, usage=response.usage, response=words), "planner"))
    return found, text


def sentence(defect: PlanDefect) -> str:
    """Return a defect as a person reads it."""
    where = f"task {defect.task}, {defect.field}" if defect.task else defect.field
    return f"{where}: {defect.problem}; {defect.remedy}" if defect.remedy else f"{where}: {defect.problem}"


def find_unusable_reason(response: ModelResponse, text: str) -> PlanDefect | None:
    """Return why a response is no answer whatever its text holds, None where the text is to be read."""
    if response.finish_reason == "length":
        remedy = "write a shorter plan; the person may raise `models.planning.max_tokens`"
        return PlanDefect(0, "answer", "the answer was cut off before its end", remedy)
    if response.finish_reason == "content_filter" or REFUSED in response.notes:
        problem = f"the model declined: {escape_text(text, 200)}" if text else "the model declined"
        return PlanDefect(0, "answer", problem, "plan what can be planned, or say it in other words")
    if response.calls and not text.strip():
        problem = f"the answer called `{escape_text(response.calls[0].name, 60)}` and held no plan"
        return PlanDefect(0, "answer", problem, "call nothing now; answer with the plan as JSON")
    return None
