"""Asking the planner or the critic, and reading what comes back, however it is wrapped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ValidationError

from foregate.agent.session.prompts import BLIND_PLANNER, CRITIC, PLANNER
from foregate.gates.support.blind_planner import KEY
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, ModelError
from foregate.schemas.judgement import Need
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.message import Message, ModelRequest
from foregate.schemas.model_response import Usage
from foregate.schemas.plan import BlindPlan, Criterion, Plan, PlannedAction, PlannedStep
from foregate.schemas.protocols import Model
from foregate.schemas.strict_json import Json
from foregate.schemas.strict_schema import Critique, strict_schema
from foregate.schemas.thoughts import cut_thoughts

_TRIES = 64
"""Braces at which an object may begin that are looked at."""
# "{", '"'; a brace within a string closes nothing.
_MARK = compile_late(r'["\\{}]')


class AdvisorAnswer(NamedTuple):
    """What came back: a value that fits the schema, or None and why; what it used, in how many requests."""

    value: Mapping[str, Json] | None
    error: str = ""
    usage: Usage = Usage()
    text: str = ""
    requests: int = 1


async def ask_advisor(model: Model, need: Need, policy: Policy) -> AdvisorAnswer:
    """Ask the planner or the critic for what a gate must know; a failure is an answer too, never raised.

    What cannot be used is asked for once more, with what was wrong with it.
    """
    planner = need.who == "planner"
    purpose: Literal["plan", "critique"] = "plan" if planner else "critique"
    blind = planner and need.key.startswith(KEY)
    noun: type[BaseModel] = (BlindPlan if blind else Plan) if planner else Critique
    prompt = (BLIND_PLANNER if blind else PLANNER) if planner else CRITIC
    bound = policy.plan.max_bytes if planner else policy.critique.max_bytes
    words = strict_json.canonical(need.request).decode()
    messages = [Message("system", prompt), Message("user", words)]
    request = ModelRequest(
        messages,
        words_only=True,
        schema_name=f"pre_execution_{purpose}_v{2 if blind else 1}",
        schema=strict_schema(noun),
        purpose=purpose,
    )
    text, usage, why = "", Usage(), ""
    for number in (1, 2):
        try:
            response = await model.respond(request)
        except ModelError as error:
            return AdvisorAnswer(None, f"{purpose}_generation_failed: {why or error}"[:300], usage, text, number)
        text, usage = strict_json.scrub(response.text), _add(usage, response.usage)
        try:
            return AdvisorAnswer(read_advice(text, noun, bound), "", usage, text, number)
        except InvalidJson as error:
            why = str(error)
        again = f"This cannot be used: {why}. Send one JSON object of the schema, and nothing else."
        request = ModelRequest(
            [*messages, Message("assistant", text), Message("user", again)],
            words_only=True,
            schema_name=request.schema_name,
            schema=request.schema,
            purpose=purpose,
        )
    return AdvisorAnswer(None, f"{purpose}_generation_failed: {why}"[:300], usage, text, number)


def read_advice(text: str, noun: type[BaseModel], bound: int) -> dict[str, Json]:
    """Return the one value of the schema that a text holds, without thoughts, words and fences around it.

    Raises InvalidJson, whose one sentence says what is wrong, also where there are two different ones.
    """
    bare = cut_thoughts(text).strip()
    found: list[dict[str, Json]] = []
    why = "there is no JSON object in it"
    for candidate in _list_objects(bare):
        try:
            value, why = _read_value(candidate, noun), ""
        except InvalidJson as error:
            why = str(error)
        else:
            found += [value] if value not in found else []
    # An answer that fits before a last one that does not may be what the advisor quotes.
    if why:
        raise InvalidJson(why)
    if len(found) > 1:
        raise InvalidJson(f"it holds {len(found)} different answers")
    if len(strict_json.canonical(found[0])) > bound:
        raise InvalidJson(f"larger than {bound} bytes")
    return found[0]


def _read_value(text: str, noun: type[BaseModel]) -> dict[str, Json]:
    value = strict_json.parse(text)
    try:
        read = noun.model_validate(_normalise_plan(value, noun) if noun in (Plan, BlindPlan) else value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise InvalidJson(f"{'.'.join(str(part) for part in first['loc'])}: {first['msg']}") from None
    return read.model_dump(mode="json")


def _normalise_plan(value: Json, noun: type[BaseModel]) -> Json:
    """Return a plan in the plain shape as one in the full: criteria as texts, and keys that may be null left out.

    A blind plan without a list of steps consists of its first action.
    """
    if not isinstance(value, dict):
        return value
    open_: dict[str, Any] = {"check": None, "target": None, "expected": None}
    first = value.get("first_action")
    none: dict[str, Any] = {"flows": [], "planned_steps": [first] if isinstance(first, dict) else []}
    if noun is Plan:
        none = {"planned_steps": None}
    plan = {**none, **{name: one for name, one in value.items() if name not in none or one is not None}}
    if isinstance(criteria := plan.get("success_criteria"), list):
        plan["success_criteria"] = [{"text": one, **open_} if isinstance(one, str) else one for one in criteria]
    if isinstance(steps := plan["planned_steps"], list):
        plan["planned_steps"] = [_fill_step(step, noun) if isinstance(step, dict) else step for step in steps]
    return tidy_plan(plan) if noun is Plan else plan


_TARGET: Mapping[str, Json] = dict.fromkeys(("argument", "said", "read", "record", "field"))


def _fill_step(step: dict[str, Any], noun: type[BaseModel]) -> dict[str, Any]:
    """Return a step with the keys it leaves out; numbers and truth values of bounds are written as texts.

    The one target of a step in the plain shape is one that the person said: it counts where their words hold it.
    """
    filled = {"effect": None, "uses": None, **step}
    if noun is Plan:
        return filled
    filled = {"tool": None, "targets": [], "bounds": [], **filled}
    if isinstance(target := filled.get("target"), str) and not filled["targets"]:
        del filled["target"]
        filled["targets"] = [{"said": target}]
    for name, none in (("targets", _TARGET), ("bounds", {"value": None})):
        if isinstance(listed := filled[name], list):
            filled[name] = [{**none, **one} if isinstance(one, dict) else one for one in listed]
    for bound in filled["bounds"] if isinstance(filled["bounds"], list) else ():
        if isinstance(bound, dict) and isinstance(given := bound["value"], bool | int | float):
            bound["value"] = str(given).lower()
    return filled


def _list_objects(text: str) -> Iterator[str]:
    """Yield each object that stands in a text on its own; one that never ends is yielded as what it is."""
    at = tries = 0
    while tries < _TRIES and (start := text.find("{", at)) >= 0:
        tries += 1
        end = _find_end(text, start)
        if end or start == 0:
            yield text[start : end or None]
        at = end or start + 1


def _add(one: Usage, other: Usage) -> Usage:
    counts = {name: getattr(one, name) + getattr(other, name) for name in Usage.__struct_fields__}
    return Usage(**counts)


def _find_end(text: str, start: int) -> int:
    """Return where the object that begins at a brace ends, 0 where it does not."""
    depth, quoted, at = 0, False, start
    while (found := _MARK.search(text, at)) is not None:
        at, mark = found.end(), found.group()
        if mark == "\\":
            at += 1
        elif mark == '"':
            quoted = not quoted
        elif not quoted:
            depth += 1 if mark == "{" else -1
            if depth == 0:
                return at
    return 0


def tidy_plan(plan: Mapping[str, Json]) -> dict[str, Json]:
    """Return a plan without keys that nobody asked for and without steps that name no tool.

    The target of the first step is spelled as the first action spells it.
    """
    tidy = _keep_known(plan, Plan)
    if isinstance(action := tidy.get("first_action"), Mapping):
        action = tidy["first_action"] = _keep_known(action, PlannedAction)
    if isinstance(criteria := tidy.get("success_criteria"), list):
        tidy["success_criteria"] = [
            _keep_known(one, Criterion) if isinstance(one, Mapping) else one for one in criteria
        ]
    if isinstance(steps := tidy.get("planned_steps"), list):
        kept = [_keep_known(step, PlannedStep) if isinstance(step, Mapping) else step for step in steps]
        kept = [step for step in kept if not (isinstance(step, dict) and _fold(step, "tool") == "")]
        first = kept[0] if kept else None
        if isinstance(first, dict) and isinstance(action, dict) and _fold(first, "target") == _fold(action, "target"):
            first["target"] = action["target"]
        tidy["planned_steps"] = kept or None
    return tidy


def _keep_known(value: Mapping[str, Json], noun: type[BaseModel]) -> dict[str, Json]:
    return {key: one for key, one in value.items() if key in noun.model_fields}


def _fold(value: Mapping[str, Json], key: str) -> str | None:
    text = value.get(key)
    return text.strip().lower() if isinstance(text, str) else None
