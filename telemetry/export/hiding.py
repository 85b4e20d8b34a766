"""What is left out of an event that is exported: what a policy calls sensitive, or every word of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from functools import cache
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace
from pydantic import BaseModel

from foregate.schemas import event_body
from foregate.schemas.event import Body, Event, ModelResponded, NeedAnswered, NeedRaised, TurnJudged
from foregate.schemas.judgement import Answer, CallRuling, Consequence, Decision, Judgement, Need, Ruling, Verdict
from foregate.schemas.model_response import RecordedCall
from foregate.schemas.strict_json import Json
from foregate.schemas.task_plan import FillRequest, PlanConfirmed, PlanStepChanged
from foregate.schemas.tool_spec import ToolSpec
from foregate.schemas.turn import TurnRecord
from foregate.telemetry.log.masking import Hidden, mask_json, mask_under_key, read_patterns

N = TypeVar("N", bound=Struct | BaseModel)
S = TypeVar("S", bound=Struct)


def collect_patterns(events: Iterable[Event], more: Hidden) -> Hidden:
    """Return what is masked: what the session's own policies name, and what is asked for beside."""
    own = [
        pattern
        for event in events
        if isinstance(body := event.body, (event_body.SessionStarted, event_body.PolicyChanged))
        and body.policy is not None
        for pattern in read_patterns(body.policy)
    ]
    return tuple(dict.fromkeys([*more, *own]))


def mask_event(event: Event, patterns: Hidden) -> Event:
    """Return the event with what `patterns` match masked everywhere in its body; the same event where nothing matches.

    Raises PolicyError for a pattern RE2 cannot read.
    """
    body = mask_noun(event.body, patterns) if patterns else event.body
    return event if body is event.body else replace(event, body=body)


def mask_noun(noun: N, patterns: Hidden) -> N:
    """Return a noun with its texts masked, at any depth; the same object where nothing matches.

    A field that takes only words of a closed list stays as it is: none of them is a secret, and no other is readable.
    """
    kind: Any = type(noun)
    old = {name: getattr(noun, name) for name in _list_open_fields(kind)}
    new = {name: _mask_field(name, value, patterns) for name, value in old.items()}
    changed = {name: value for name, value in new.items() if value is not old[name]}
    if not changed:
        return noun
    return noun.model_copy(update=changed) if isinstance(noun, BaseModel) else replace(noun, **changed)


@cache
def _list_open_fields(noun: type[Struct | BaseModel]) -> tuple[str, ...]:
    """Return the names of the fields that hold more than words of a closed list."""
    if issubclass(noun, BaseModel):
        kinds: dict[str, object] = {name: field.annotation for name, field in noun.model_fields.items()}
    else:
        kinds = {field.name: field.type for field in msgspec.structs.fields(noun)}
    return tuple(name for name, kind in kinds.items() if not _is_closed(kind))


def _is_closed(kind: object) -> bool:
    return any(
        get_origin(option) is Literal or (isinstance(option, type) and issubclass(option, Enum))
        for option in (kind, *get_args(kind))
    )


def _mask_field(name: str, value: object, patterns: Hidden) -> object:
    """Return what stands in a field of a noun, masked."""
    if isinstance(value, (Struct, BaseModel)):
        return mask_noun(value, patterns)
    if isinstance(value, tuple):
        items = tuple(_mask_field(name, item, patterns) for item in value)
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if name == "policy" and isinstance(value, Mapping):
        return _mask_policy(value, patterns)
    return mask_under_key(name, value, patterns) if isinstance(value, (str, Mapping, list)) else value


def _mask_policy(policy: Mapping[str, Json], patterns: Hidden) -> Mapping[str, Json]:
    """Return a policy, masked but for the patterns themselves: they name no secret, and a turn is judged by them."""
    rest = {name: value for name, value in policy.items() if name != "sensitive"}
    inner = mask_json(rest, patterns)
    if inner is rest or not isinstance(inner, Mapping):
        return policy
    return {name: policy[name] if name == "sensitive" else inner[name] for name in sorted({*inner, "sensitive"})}


OTHER = "_OTHER"
"""Stands for a name that is in no closed list: it could be anybody's words."""
_CHOICES = ("yes", "no", "grant", "project", "wider", "anyway", "stop", "more", "step", "edit")
_ERRORS = (
    *("timeout", "cancelled", "tool_error", "arguments", "exit_code", "http_status", "unreachable", "broken"),
    "runtime_lost",
)
_FINISH = ("stop", "tool_calls", "length", "content_filter", "other")
_KEPT: Mapping[type[Struct], str] = {
    event_body.SessionStarted: "model depth parent",
    event_body.PolicyChanged: "auto dry_run mode dialect",
    event_body.TaskStarted: "task depth",
    ModelResponded: "usage model continues places",
    RecordedCall: "id",
    TurnRecord: "response task turn actor cause",
    Verdict: "call standing gate",
    Ruling: "standing code",
    Decision: "gate code mode numbers rules",
    CallRuling: "call standing code",
    Consequence: "kind lasts",
    Need: "gate who calls code",
    NeedAnswered: "usage",
    Answer: "gate who",
    event_body.ToolStarted: "call side_effect effect",
    event_body.ToolFinished: "call ok duration origin dropped exit_code",
    event_body.CallAnswered: "call ruling code change",
    event_body.OutcomeUnknown: "call",
    event_body.OutcomeResolved: "call outcome",
    event_body.EffectUndone: "call",
    event_body.ContextCompressed: "strategy limit before after left_out",
    PlanConfirmed: "approved dry_run",
    PlanStepChanged: "step status choice",
    event_body.TaskPaused: "reason",
    event_body.TaskEnded: "status duration turns model_calls tool_calls tokens cost",
    event_body.SessionEnded: "events",
}
"""The fields of each noun that stay as they are; what else is left of a noun, `TextRemover` says."""


class TextRemover:
    """Leaves out of events all that a person, a model or a tool worded; each field that stays is named in `_KEPT`.

    What stays are numbers, times, ids, and names of closed lists: codes, gates, kinds, the tools of the catalogue. A
    field that has to be there and is not exported is empty.
    """

    def __init__(self) -> None:
        self._tools: Collection[str] = ()

    def __call__(self, event: Event) -> Event:
        """Return the event without any words; those of a session come in order."""
        return replace(event, body=_strip(event.body, **self._strip_parts(event.body)))

    def _strip_parts(self, body: Body) -> dict[str, Any]:
        """Return the fields that keep a part."""
        match body:
            case event_body.SessionStarted():
                return {"catalogue": self._strip_catalogue(body.catalogue), "layers": {}}
            case event_body.CatalogChanged():
                return {"catalogue": self._strip_catalogue(body.catalogue)}
            case ModelResponded(program=program):
                whole = _strip(program, calls=self._strip_calls(program.calls)) if program is not None else None
                finish_reason = _keep_known(body.finish_reason, _FINISH)
                return {"calls": self._strip_calls(body.calls), "finish_reason": finish_reason, "program": whole}
            case TurnJudged(turn=turn, judgement=judgement):
                proposed = self._strip_calls(turn.proposed) if turn.proposed is not None else None
                verdicts = tuple(_strip(verdict, ruling=_strip(verdict.ruling)) for verdict in judgement.verdicts)
                ruled = Judgement(verdicts, tuple(map(self._strip_decision, judgement.decisions)))
                return {"turn": _strip(turn, proposed=proposed), "judgement": ruled}
            case NeedRaised(need=need):
                return {"need": _strip(need, digests=_count_digests(need.digests))}
            case NeedAnswered(answer=answer):
                by_person = answer.who == "person" and answer.value
                value = {"choice": _keep_known(answer.choice, _CHOICES)} if by_person else None
                return {"answer": _strip(answer, digests=_count_digests(answer.digests), value=value)}
            case event_body.ToolFinished():
                error = _keep_known(body.error, _ERRORS) if body.error else ""
                return {"tool": _keep_known(body.tool, self._tools), "error": error}
            case event_body.SandboxEnded():
                return {}
            case event_body.CallBody():
                return {"tool": _keep_known(body.tool, self._tools)}
            case PlanStepChanged():
                return {"ask": _build_empty(FillRequest) if body.ask is not None else None}
            case event_body.TaskPaused():
                return {"question": None if body.question is None else ""}
            case _:
                return {}

    def _strip_catalogue(self, specs: Iterable[ToolSpec]) -> tuple[ToolSpec, ...]:
        self._tools = frozenset(spec.name for spec in specs)
        return tuple(ToolSpec(name=name, description="", parameters={}) for name in sorted(self._tools))

    def _strip_calls(self, calls: Iterable[RecordedCall]) -> tuple[RecordedCall, ...]:
        return tuple(_strip(call, name=_keep_known(call.name, self._tools), arguments="{}") for call in calls)

    def _strip_decision(self, decision: Decision) -> Decision:
        tool, follows = decision.tool and _keep_known(decision.tool, self._tools), decision.consequence
        rulings = tuple(map(_strip, decision.rulings))
        return _strip(decision, tool=tool, rulings=rulings, consequence=follows and _strip(follows))


def _strip(noun: S, **parts: object) -> S:
    """Return a noun with the fields `_KEPT` names and those given; all others are at their default, or empty."""
    kept = {name: getattr(noun, name) for name in _KEPT.get(type(noun), "").split()}
    return type(noun)(**{**_list_empty_fields(type(noun)), **kept, **parts})


@cache
def _list_empty_fields(noun: type[Struct]) -> dict[str, Any]:
    """Return what stands in the fields a noun must have when they are empty."""
    return {field.name: _build_empty(field.type) for field in fields(noun) if field.required}


def _build_empty(kind: Any) -> Any:
    """Return the empty value of a type, of a noun one with nothing but what it must have; None without one."""
    kind = get_origin(kind) or kind
    if isinstance(kind, type) and issubclass(kind, Struct):
        return kind(**_list_empty_fields(kind))
    return {} if kind is Mapping else kind() if kind in (str, int, bool, tuple) else None


def _count_digests(digests: Collection[str]) -> tuple[str, ...]:
    """Return how many calls a question was about; a digest could be guessed back into arguments."""
    return ("",) * len(digests)


def _keep_known(value: str, known: Collection[str]) -> str:
    return value if value in known else OTHER
