"""One thing that some endpoints cannot do: how a refusal tells, and what is read out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from foregate.agent.models.openai import simpler_bodies as send
from foregate.agent.models.openai.refusal import EndpointRefusal
from foregate.agent.models.openai.simpler_bodies import Body, Send
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json

Learnt = Mapping[str, Json]
"""What is known of an endpoint, by the names of rows: True, a number, or a list of names."""
Read = Callable[[EndpointRefusal, Body], Any]
"""Returns what a refusal says of the limit, None where it speaks of something else."""

LIMITS = ("max_tokens", "max_completion_tokens")
"""The names of the bound on a response's tokens, the one most endpoints know first."""
SIMPLER = (400, 422, 501)
"""Statuses with which endpoints refuse a part of a request they do not know."""
TEMPLATE = (*SIMPLER, 500)
"""Those of servers whose template for the prompt gives up."""
_NO = compile_late(
    "not |n't |unsupported|unknown|unexpected|unrecogni|extra|invalid|wrong|only|too |must|cannot|illegal|refus"
    "|reject|should|forbid|deprecat|expected|at (?:most|least)|exceed|maximum|required|missing"
    "|unavailable|fail|bad|no endpoint",
    2,
    # "is not supported", "Extra inputs are not permitted", "array too long".
)
# "128" in "at most 128 tools"; "4" in "gpt-4" is no count.
_COUNT = compile_late(r"(?<![\w.-])\d[\d,]*\b")
_DESCRIPTION = 1024
"""Characters of a description that all endpoints take."""


def read_yes(refusal: EndpointRefusal, body: Body) -> bool:
    return True


def _list_numbers(refusal: EndpointRefusal) -> list[int]:
    return [int(one.replace(",", "")) for one in _COUNT.findall(refusal.words) if len(one) < 10]


def read_cap(refusal: EndpointRefusal, body: Body) -> int | None:
    """Return the largest number below the bound that was sent: what the endpoint says is the most."""
    sent = next((body[name] for name in LIMITS if name in body), 0)
    return max((one for one in _list_numbers(refusal) if 16 <= one < sent), default=None)


def read_tool_count(refusal: EndpointRefusal, body: Body) -> int:
    count = len(body["tools"])
    return max((one for one in _list_numbers(refusal) if 0 < one < count), default=max(1, count // 2))


def read_description(refusal: EndpointRefusal, body: Body) -> int:
    longest = max(len(tool["function"]["description"]) for tool in body["tools"])
    return max((one for one in _list_numbers(refusal) if 16 <= one < longest), default=_DESCRIPTION)


def read_name_length(refusal: EndpointRefusal, body: Body) -> int | None:
    longest = max(len(tool["function"]["name"]) for tool in body["tools"])
    return max((one for one in _list_numbers(refusal) if 16 <= one < longest), default=None)


# "parallel_tool_calls" in "Unknown parameter: 'parallel_tool_calls'".
_FIELD = compile_late(r"[\"'`.]?([a-zA-Z_$][\w$]{2,60})\b")


def read_own_fields(refusal: EndpointRefusal, body: Body) -> list[str] | None:
    said = set(_FIELD.findall(f"{refusal.param} {refusal.words}"))
    return sorted(send.list_own_fields(body) & said) or None


_AT_PATH = compile_late(r"(?:parameters|properties|items)[\w.\[\]'\"-]*\.(\$?[a-zA-Z]+)['\"]?: ")
"""`parameters.properties[x].format: only 'enum' and 'date-time' are supported`: what is refused ends the path."""
# "'format'" in "'format' is not supported", "keyword: pattern".
_QUOTED = compile_late(r"[\"'`](\$?[a-zA-Z]+)[\"'`]|(?:keyword|field|key)s?:? (\$?[a-zA-Z]+)")
# "$schema", "additionalProperties", "anyOf".
_DISTINCT = compile_late(r"\$[a-z]+|\b[a-z]+[A-Z][a-zA-Z]+\b")
# "cannot start list" as a server says it of `"type": ["string", "null"]`.
_LISTED = compile_late(r"cannot start list|type\W.{0,40}must be a string|(?:list|array)s? of types", 2)


def read_keywords(refusal: EndpointRefusal, body: Body) -> list[str] | None:
    used, words = send.list_keywords(body), refusal.words
    at = [one for one in _AT_PATH.findall(words) if one in used]
    named = {one or other for one, other in _QUOTED.findall(words)} | set(_DISTINCT.findall(words))
    found = set(at[:1]) or (named & used) - {"type", "properties"}
    found |= {send.LISTED_TYPES} & used if _LISTED.search(words) else set()
    return sorted(found) or None


class Kept(Protocol):
    """Keeps what was learnt of endpoints, beyond the life of a process."""

    def read(self, address: str, model: str) -> Learnt:
        """Return what is kept of a model at an address, {} for nothing."""

    def keep(self, address: str, model: str, learnt: Learnt) -> None:
        """Keep what is known of a model at an address, in the place of what was. Raises ForegateError."""


class Ability(Struct, frozen=True):
    """One thing that some endpoints cannot do.

    It is refused where `part` is in the body (a dotted path) and `words` fit the parameter or the words. `read` gives
    what is learnt, and `send` the body that is sent instead. `note` may name that `value`, and the tools `left` out.
    """

    name: str
    part: str
    words: str
    send: Send
    note: str
    read: Read = read_yes
    statuses: tuple[int, ...] = SIMPLER

    def is_refused(self, refusal: EndpointRefusal, body: Body) -> bool:
        """Whether a refusal speaks of it."""
        if refusal.status not in self.statuses or not has_part(body, self.part):
            return False
        text = f"{refusal.param} {refusal.words}"
        # "response_format" for such words.
        return compile_late(self.words, 2).search(text) is not None and (
            bool(refusal.param) or _NO.search(refusal.words) is not None
        )


def has_part(body: Body, path: str) -> bool:
    found: Any = body
    for part in path.split("."):
        if not isinstance(found, Mapping) or part not in found:
            return False
        found = found[part]
    return True


# "failed to parse grammar".
_GRAMMAR = compile_late("parse grammar|schema conversion|unrecognized schema", 2)


def read_plain(refusal: EndpointRefusal, body: Body) -> bool | None:
    """Return True where schemas are refused as such: by a server that fails, only in words that say so."""
    return refusal.status != 500 or _GRAMMAR.search(refusal.words) is not None or None
