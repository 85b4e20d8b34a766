"""From what an event says to the attributes of a span, an event or a metric."""

from __future__ import annotations

import json
from collections.abc import Collection

from opentelemetry.util.types import AttributeValue

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import ModelResponded
from foregate.schemas.event_body import STATUSES, TaskEnded
from foregate.schemas.judgement import Standing
from foregate.schemas.model_response import FINISH_REASONS
from foregate.schemas.strict_json import Json
from foregate.telemetry.log.masking import Hidden, mask_json, mask_text
from foregate.telemetry.otel import names
from foregate.telemetry.queries.decisions import DecisionPoint

Attributes = dict[str, AttributeValue]

CHOICES = ("yes", "no", "grant", "project", "wider", "anyway", "stop", "more")
"""What a person chooses from; words of their own are content."""
PAUSES = ("needs_input", "awaiting_approval")
"""Why a task pauses."""
_REFUSALS = ("arguments", "changed_meanwhile", "partly_deleted", "returned", "nothing_staged")
_BREAKS = ("timeout", "cancelled", "tool_error", "exit_code", "http_status", "unreachable", "broken", "runtime_lost")
_CUT_OFF = ("not_done", "partly_done", "process_ended", "outcome_unknown")
TOOL_ERRORS = (*_REFUSALS, *_BREAKS, *_CUT_OFF, *STATUSES)
"""What tools of ours say they failed of; what any other tool says of it is content."""
SHOWN = 4096
"""Characters of one text that are exported."""
KEPT = 32
"""Messages that are kept for one request; older ones are left out."""


def limit_to(value: object, known: Collection[str]) -> str:
    """Return a value of a closed list, `_OTHER` for one that is not in it: that could be anybody's words."""
    return value if isinstance(value, str) and value in known else names.OTHER


def build_decision_attributes(point: DecisionPoint, policy: str, tools: Collection[str]) -> Attributes:
    """Return what is told of a gate's verdict: nothing a model, a tool or a person worded.

    A tool is named only when it is one of the catalogue's; any other name is the model's own word.
    """
    found: Attributes = {**build_verdict_attributes(point), names.SEVERITY: point.severity}
    found |= {names.ADDRESS: point.address, names.POLICY: policy}
    if point.tool:
        found[names.TOOL_NAME] = limit_to(point.tool, tools)
    if point.rules:
        found[names.RULES] = point.rules
    if point.consequence is not None:
        found[names.CONSEQUENCE] = point.consequence.kind
    return found


def build_verdict_attributes(point: DecisionPoint) -> dict[str, str]:
    """Return what verdicts are counted by."""
    ruling = max((ruling.standing for ruling in point.rulings), default=Standing.ALLOW).value
    return {names.GATE: point.gate, names.MODE: point.mode, names.CODE: point.code, names.RULING: ruling}


def build_response_attributes(body: ModelResponded) -> Attributes:
    """Return what is told of an answer beside its tokens."""
    model: Attributes = {names.RESPONSE_MODEL: body.model[:128]} if body.model else {}
    return {names.FINISH_REASONS: (limit_to(body.finish_reason, FINISH_REASONS),), **model}


def build_task_end_attributes(body: TaskEnded, holds: int) -> Attributes:
    """Return what is told of a task at its end."""
    told: Attributes = {names.STATUS: body.status, names.HOLDS: holds, names.TURNS: body.turns}
    told |= {names.MODEL_CALLS: body.model_calls, names.TOOL_CALLS: body.tool_calls}
    return {**told, names.TOKENS: body.tokens, names.COST: body.cost}


def mask_and_cut(value: Json, patterns: Hidden) -> str:
    """Return a text, or JSON as text, masked and then cut: a cut could leave half a secret that no pattern knows.

    JSON is masked inside its texts, where no escape hides anything, and once more as a whole, for its keys.
    """
    hidden = mask_json(value, patterns)
    whole = hidden if isinstance(hidden, str) else mask_text(json.dumps(hidden, ensure_ascii=False), patterns)
    text = strict_json.scrub(whole)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} [cut]"


def format_arguments(raw: str, patterns: Hidden) -> str:
    """Return a call's arguments as JSON text. They are read first, for an escape could hide a secret from a pattern."""
    try:
        return mask_and_cut(strict_json.parse(raw), patterns)
    except InvalidJson:
        return mask_and_cut(raw, patterns)


def format_words(role: str, text: str, patterns: Hidden) -> Json:
    """Return a message of words, in the form of the conventions."""
    return {"role": role, "parts": [{"type": "text", "content": mask_and_cut(text, patterns)}]}


def format_tool_response(call: str, text: str, patterns: Hidden) -> Json:
    """Return the message that answers a call."""
    answer = {"type": "tool_call_response", "id": call, "response": mask_and_cut(text, patterns)}
    return {"role": "tool", "parts": [answer]}


def format_response(body: ModelResponded, patterns: Hidden) -> Json:
    """Return the message a model gave, its calls with it."""
    calls: list[Json] = []
    for call in (body.program or body).calls:
        name, arguments = mask_and_cut(call.name[:128], patterns), format_arguments(call.arguments, patterns)
        calls.append({"type": "tool_call", "id": call.id, "name": name, "arguments": arguments})
    words = {"type": "text", "content": mask_and_cut(body.text, patterns)}
    return {"role": "assistant", "parts": [words, *calls], "finish_reason": body.finish_reason}


def encode_messages(found: list[Json]) -> str:
    """Return messages as the JSON text an attribute holds."""
    return json.dumps(found[-KEPT:], ensure_ascii=False)
