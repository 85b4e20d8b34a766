"""What an export leaves out of events: what a policy calls sensitive, or everything anybody said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.event import Event
from foregate.schemas.strict_json import Json
from foregate.telemetry.masking import Hidden, mask

OTHER = "_OTHER"
"""Stands for a name that is in no closed list: it could be anybody's words."""
_FINISHED = ("call", "ok", "duration", "exit_code", "dropped", "used", "origin", "early", "look")
_CHOICES = ("yes", "no", "grant", "anyway", "stop", "more", "step", "edit")
_ERRORS = (
    *("timeout", "cancelled", "tool_error", "arguments", "exit_code", "http_status", "unreachable", "broken"),
    "runtime_lost",
)
_FINISH = ("stop", "tool_calls", "length", "content_filter", "other")


def masked(event: Event, patterns: Hidden) -> Event:
    """Return the event with what `patterns` match masked everywhere in its body; the same event where nothing matches.

    Raises PolicyError for a pattern RE2 cannot read.
    """
    if not patterns:
        return event
    body = hidden(event.body, patterns)
    if body is event.body:
        return event
    if "policy" in body:  # the patterns themselves stay: they name no secret, and a turn is judged again by them
        own = event.body["policy"]
        body = {**body, "policy": {**body["policy"], "sensitive": own["sensitive"]}}
        body = event.body if body == event.body else body
    return event if body is event.body else replace(event, body=body)


def hidden_json(raw: str, patterns: Hidden) -> str:
    """Return JSON as text, masked. It is read first, for an escape could hide a secret from a pattern."""
    masked_raw: str = mask(raw, patterns)
    if masked_raw is raw and "\\" not in raw:
        return raw
    try:
        value = strict_json.parse(raw)
        inner = hidden(value, patterns)
        if inner is value and masked_raw is raw:
            return raw
        return str(mask(strict_json.canonical(inner).decode(), patterns))
    except InvalidJson:
        return masked_raw


def hidden(value: Json, patterns: Hidden) -> Json:
    """Return `value` with its texts and keys masked; the same object where nothing matches."""
    if isinstance(value, str):
        return mask(value, patterns)
    if isinstance(value, Mapping):
        inner = {mask(key, patterns): _field(key, item, patterns) for key, item in value.items()}
        same = all(inner.get(key, inner) is item for key, item in value.items())
        return value if same else inner
    if isinstance(value, (list, tuple)):
        items = [hidden(item, patterns) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _field(key: str, item: Json, patterns: Hidden) -> Json:
    """Return what stands under a key, masked; the arguments of a call are JSON in a text."""
    if key == "arguments" and isinstance(item, str):
        return hidden_json(item, patterns)
    return hidden(item, patterns)


class Bare:
    """Leaves out of events all that a person, a model or a tool worded; each field that stays is named here.

    What stays are numbers, times, ids, and names of closed lists: codes, gates, kinds, the tools of the catalogue.
    """

    def __init__(self) -> None:
        self._tools: Collection[str] = ()

    def __call__(self, event: Event) -> Event:
        """Return the event without any words; those of a session come in order."""
        if "catalogue" in event.body:
            self._tools = frozenset(spec["name"] for spec in event.body["catalogue"])
        bare = getattr(self, f"_{event.kind}", None)
        body = bare(event.body) if bare is not None else _only(event.body, _KEPT.get(event.kind, ()))
        return replace(event, body=body)

    def _tool(self, name: str) -> str:
        return _one_of(name, self._tools)

    def _session_started(self, body: Mapping[str, Json]) -> Json:
        kept = _only(body, ("model", "depth", "dialect", "parent", "parent_event", "prompts_hash"))
        tools = [{"name": name} for name in sorted(self._tools)]
        return {**kept, "system": "", "catalogue": tools}

    def _user_message(self, body: Mapping[str, Json]) -> Json:
        return {"text": ""}

    def _model_response(self, body: Mapping[str, Json]) -> Json:
        kept = _only(body, ("usage", "model", "places", "continues"))
        if "program" in body:
            kept["program"] = {**body["program"], "calls": self._calls(body["program"]["calls"])}
        finish = _one_of(body["finish_reason"], _FINISH)
        words = {"text": "", "reasoning": "", "notes": []}
        return {**kept, **words, "calls": self._calls(body["calls"]), "finish_reason": finish}

    def _calls(self, calls: Iterable[Mapping[str, Json]]) -> list[Json]:
        return [
            {"id": call["id"], "wire_id": call["id"], "name": self._tool(call["name"]), "arguments": "{}"}
            for call in calls
        ]

    def _turn_judged(self, body: Mapping[str, Json]) -> Json:
        turn = _only(body["turn"], ("response", "task", "turn", "actor", "cause", "depth", "counters"))
        if "proposed" in body["turn"]:
            turn["proposed"] = self._calls(body["turn"]["proposed"])
        judgement = body["judgement"]
        decisions = [self._decision(decision) for decision in judgement["decisions"]]
        verdicts = [
            {**_only(verdict, ("call", "standing", "gate")), "ruling": _ruling(verdict["ruling"])}
            for verdict in judgement["verdicts"]
        ]
        return {"turn": turn, "judgement": {"verdicts": verdicts, "decisions": decisions}, **_only(body, ("early",))}

    def _decision(self, decision: Mapping[str, Json]) -> Json:
        kept = _only(decision, ("gate", "code", "mode", "numbers", "rules"))
        if "tool" in decision:
            kept["tool"] = self._tool(decision["tool"])
        if decision.get("consequence"):
            kept["consequence"] = _only(decision["consequence"], ("kind", "lasts"))
        kept["rulings"] = [_only(ruling, ("call", "standing", "code")) for ruling in decision.get("rulings", ())]
        return kept

    def _need_raised(self, body: Mapping[str, Json]) -> Json:
        return {"need": {**_only(body["need"], ("gate", "who", "calls", "code")), **_count(body["need"])}}

    def _need_answered(self, body: Mapping[str, Json]) -> Json:
        answer = body["answer"]
        kept = {**_only(answer, ("gate", "who")), **_count(answer)}
        if answer["who"] == "person" and answer.get("value"):
            kept["value"] = {"choice": _one_of(answer["value"]["choice"], _CHOICES)}
        return {"answer": kept, **_only(body, ("usage", "model_calls"))}

    def _tool_started(self, body: Mapping[str, Json]) -> Json:
        return {**_only(body, ("call", "class", "effect", "early", "look")), "tool": self._tool(body["tool"])}

    def _tool_finished(self, body: Mapping[str, Json]) -> Json:
        kept = _only(body, _FINISHED)
        error = {"error": _one_of(body["error"], _ERRORS)} if body.get("error") else {}
        return {**kept, **error, "tool": self._tool(body["tool"]), "content": ""}

    def _call_answered(self, body: Mapping[str, Json]) -> Json:
        kept = _only(body, ("call", "code", "ruling", "gate", "change"))
        return {**kept, "tool": self._tool(body["tool"]), "message": ""}

    def _outcome_unknown(self, body: Mapping[str, Json]) -> Json:
        return {"call": body["call"], "tool": self._tool(body["tool"]), "reason": ""}

    def _outcome_resolved(self, body: Mapping[str, Json]) -> Json:
        return {**_only(body, ("call", "outcome")), "tool": self._tool(body["tool"])}

    def _effect_undone(self, body: Mapping[str, Json]) -> Json:
        return {"call": body["call"], "tool": self._tool(body["tool"]), "resources": []}

    def _plan_proposed(self, body: Mapping[str, Json]) -> Json:
        return {"proposal": {"goal": ""}}

    def _plan_step_changed(self, body: Mapping[str, Json]) -> Json:
        kept = _only(body, ("step", "status", "attempt", "choice"))
        return {**kept, "ask": {"notice": "", "about": {}}} if body.get("ask") else kept

    def _task_paused(self, body: Mapping[str, Json]) -> Json:
        return {"reason": body["reason"], "question": ""}

    def _task_ended(self, body: Mapping[str, Json]) -> Json:
        kept = _only(body, ("status", "duration", "turns", "model_calls", "tool_calls", "tokens", "cost"))
        return {**kept, "text": "", "note": ""}


_KEPT: Mapping[str, tuple[str, ...]] = {
    "task_started": ("task", "depth"),
    "policy_changed": ("auto", "dry_run", "mode", "dialect"),
    "context_compressed": ("strategy", "limit", "counted_by", "before", "after", "left_out"),
    "plan_confirmed": ("approved", "dry_run"),
    "session_ended": ("events",),
}
"""What stays of the kinds whose fields hold no words; of a kind that stands nowhere here nothing stays."""


def _count(question: Mapping[str, Json]) -> dict[str, Json]:
    """Return how many calls a question was about; a digest could be guessed back into arguments."""
    return {"digests": [""] * len(question.get("digests", ()))}


def _ruling(ruling: Mapping[str, Json]) -> Json:
    return _only(ruling, ("standing", "code", "numbers", "rules"))


def _only(body: Mapping[str, Json], names: Iterable[str]) -> dict[str, Any]:
    return {name: body[name] for name in names if name in body}


def _one_of(value: str, known: Collection[str]) -> str:
    return value if value in known else OTHER
