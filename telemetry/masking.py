"""Masking what the policy calls sensitive, before an event is written.

Masked is text that came from outside and that nothing decides by again: what a finished tool showed, what a remedy
showed, and the model's reasoning. Everything else stays as it was said, for replay reads it again: the arguments of a
call are parsed and hashed anew (a masked argument would be another call, and its permit would not fit), the words of
user and model are what the gates judge, and names, digests and hashes are compared. Because state is a fold over what
is written, the model, the atoms and a replay all see the same masked text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError
from foregate.schemas.event import Draft, Kind
from foregate.schemas.strict_json import Json

FIELDS: Mapping[Kind, tuple[tuple[str, ...], ...]] = {
    "tool_finished": (("content",), ("error",)),
    "outcome_unknown": (("reason",),),
    "call_answered": (("observed", "output"),),
    "model_response": (("reasoning",),),
}
"""Per kind of event the ways to the fields that are masked."""

SHORT = 8
"""Texts below this many characters are not searched: nothing so short is a secret worth the name."""


def masked(draft: Draft, patterns: tuple[str, ...]) -> Draft:
    """Return the draft with what `patterns` match masked in FIELDS; the same draft where nothing matches.

    Raises PolicyError for a pattern RE2 cannot read.
    """
    body: Mapping[str, Json] = draft.body
    for field in FIELDS.get(draft.kind, ()) if patterns else ():
        body = _inside(body, field, patterns)
    return draft if body is draft.body else Draft(draft.kind, draft.actor, body)


def mask(value: Json, patterns: tuple[str, ...]) -> Json:
    """Return `value` with each match inside its texts, at any depth, replaced by `[masked <hash>]`; keys are kept.

    The hash is the first 8 digits of the match's SHA-256, so that the same secret can be recognised again. What holds
    no match is returned as the same object. Raises PolicyError for a pattern RE2 cannot read.
    """
    if isinstance(value, str):
        return _text(value, patterns) if patterns and len(value) >= SHORT else value
    if isinstance(value, Mapping):
        inner = {key: mask(item, patterns) for key, item in value.items()}
        return value if all(inner[key] is item for key, item in value.items()) else inner
    if isinstance(value, (list, tuple)):
        items = [mask(item, patterns) for item in value]
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    return value


def _inside(body: Mapping[str, Json], path: Sequence[str], patterns: tuple[str, ...]) -> Mapping[str, Json]:
    field, rest = path[0], path[1:]
    old = new = body.get(field)
    if rest and isinstance(old, Mapping):
        new = _inside(old, rest, patterns)
    elif old and not rest:
        new = mask(old, patterns)
    return body if new is old else {**body, field: new}


def _text(text: str, patterns: tuple[str, ...]) -> str:
    searchable = strict_json.scrub(text)
    expression = _expression(patterns)
    if expression.search(searchable.encode()) is None:  # bytes cost RE2 no counting of characters
        return text
    parts: list[str] = []
    done = 0
    for match in expression.finditer(searchable):
        start, end = match.span()
        if start < end:
            hash_ = strict_json.sha256(searchable[start:end].encode())[:8]
            parts += [searchable[done:start], f"[masked {hash_}]"]
            done = end
    return "".join(parts) + searchable[done:] if parts else text


@lru_cache(maxsize=16)
def _expression(patterns: tuple[str, ...]) -> Any:
    """Return one RE2 expression for all patterns: each text is read once, in time linear in its length."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    for pattern in patterns:
        try:
            re2.compile(pattern, options)
        except re2.error as error:
            raise PolicyError(
                f"`{pattern}` in policy sensitive.patterns is no RE2 expression ({error}); correct or remove it"
            ) from None
    return re2.compile("|".join(f"(?:{pattern})" for pattern in patterns), options)
