"""Masking what the policy calls sensitive, and the secrets Foregate itself holds, before an event is written.

Masked is text that came from outside and that nothing decides by again: what a finished tool showed, what a remedy
showed, the model's reasoning, and what only its endpoint understands. Everything else stays as it was said, for replay
reads it again: the arguments of a call are parsed and hashed anew (a masked argument would be another call, and its
permit would not fit), the words of user and model are what the gates judge, and names, digests and hashes are compared.
Because state is a fold over what is written, the model, the atoms and a replay all see the same masked text.

What is masked is given as one tuple: RE2 patterns, and secrets that are known by their values.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from operator import is_not
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from msgspec import Struct
from msgspec.structs import replace

from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson, PolicyError
from foregate.schemas.event import Body, Draft, ModelResponded
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, RemedyResult, ToolFinished
from foregate.schemas.strict_json import Json

SHORTEST = 8
"""Texts below this many characters are not searched: nothing so short is a secret worth the name."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A value nobody may see, and the name it is replaced by: of a variable, a header or a setting. Neither its
    representation nor its mark tells anything of the value."""

    name: str
    value: str = field(repr=False)

    @property
    def mark(self) -> str:
        """What stands in place of the value. It holds no hash, since a password can be guessed from one."""
        return f"[masked {self.name}]"

    def list_spellings(self) -> Iterator[tuple[str, str]]:
        """Yield the texts that stand for the value, each with an RE2 expression for what may follow it.

        That is the value itself, as JSON and URLs write it, and its base64, also within a longer text that is encoded
        as a whole (`user:password`).
        """
        data = self.value.encode("utf-8", "surrogateescape")
        dumped = [json.dumps(self.value, ensure_ascii=ascii_only)[1:-1] for ascii_only in (True, False)]
        quoted = [quote(data, safe=""), quote(data), quote_plus(data)]
        escaped = {text.replace("/", "\\/") for text in dumped}
        lowered = {re.sub("%..", lambda match: match[0].lower(), text) for text in quoted}
        yield from ((text, "") for text in {self.value, *dumped, *escaped, *quoted, *lowered})
        # Characters that tell of what stands before the value.
        for before, skipped in enumerate((0, 2, 3)):
            shifted = bytes(before) + data
            whole = shifted[: len(shifted) // 3 * 3]
            for encode in (b64encode, urlsafe_b64encode):
                yield encode(whole).decode()[skipped:], "[A-Za-z0-9+/_-]*={0,2}"


N = TypeVar("N", bound=Struct)

_MEMORY = 64 << 20
"""Bytes an expression may take: a private key among the secrets makes a long one."""
Hidden = tuple[str | Secret, ...]
"""What is masked: patterns for what looks like a secret, and secrets themselves."""


_MASKED = (ToolFinished, OutcomeUnknown, ModelResponded, CallAnswered)


def may_mask(draft: Draft) -> bool:
    """Whether a draft is of a kind that holds text from outside."""
    return isinstance(draft.body, _MASKED)


def mask_draft(draft: Draft, patterns: Hidden) -> Draft:
    """Return the draft with what `patterns` match or hold masked; the same draft where nothing matches.

    Raises PolicyError for a pattern RE2 cannot read.
    """
    body: Body = draft.body
    match body:
        case _ if not patterns:
            return draft
        case ToolFinished(content=content, error=error):
            body = _mask_fields(body, patterns, content=content, error=error)
        case OutcomeUnknown(reason=reason):
            body = _mask_fields(body, patterns, reason=reason)
        case ModelResponded(reasoning=reasoning, raw=raw, wire=wire, calls=calls):
            body = _mask_fields(body, patterns, reasoning=reasoning, raw=raw)
            if wire is not None and (masked := wire.map_texts(lambda text: mask_text(text, patterns))) is not wire:
                body = replace(body, wire=masked)
            named = tuple([_mask_fields(call, patterns, wire_id=call.wire_id) for call in calls])
            if any(map(is_not, named, calls)):
                body = replace(body, calls=named)
        case CallAnswered(observed=RemedyResult(output=output) as observed):
            shown = _mask_fields(observed, patterns, output=output)
            body = body if shown is observed else replace(body, observed=shown)
        case _:
            return draft
    return draft if body is draft.body else Draft(body, draft.actor)


def _mask_fields(noun: N, patterns: Hidden, **texts: str) -> N:
    """Return a noun with these of its texts masked; the same one where nothing in them matches."""
    changed: dict[str, str] = {}
    for name, text in texts.items():
        if len(text) >= SHORTEST and (new := mask_text(text, patterns)) is not text:
            changed[name] = new
    return replace(noun, **changed) if changed else noun


def mask_json(value: Json, patterns: Hidden) -> Json:
    """Return `value` with each match in its texts and keys, at any depth, replaced by a mark.

    The mark of a secret is `[masked <name>]`. That of a pattern's match is `[masked <hash>]`, the first 8 digits of its
    SHA-256, so that the same secret can be recognised again. What holds no match is returned as the same object. Raises
    PolicyError for a pattern RE2 cannot read.
    """
    if isinstance(value, str):
        return mask_text(value, patterns)
    if isinstance(value, Mapping):
        inner = {mask_text(key, patterns): mask_under_key(key, item, patterns) for key, item in value.items()}
        same = all(inner.get(key, inner) is item for key, item in value.items())
        return value if same else inner
    if isinstance(value, (list, tuple)):
        items = [mask_json(item, patterns) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def mask_under_key(key: str, value: Json, patterns: Hidden) -> Json:
    """Return what stands under a key, masked.

    The arguments of a call are JSON in a text. It is read first, for an escape could hide a secret from a pattern.
    """
    if key != "arguments" or not isinstance(value, str):
        return mask_json(value, patterns)
    masked_raw = mask_text(value, patterns)
    if masked_raw is value and "\\" not in value:
        return value
    try:
        read = strict_json.parse(value)
        inner = mask_json(read, patterns)
        if inner is read and masked_raw is value:
            return value
        return mask_text(strict_json.canonical(inner).decode(), patterns)
    except InvalidJson:
        return masked_raw


_bare: tuple[str, Hidden] = "", ()
"""The last text in which nothing matched: a result is looked through before it is cut, and before it is written."""


def mask_text(text: str, patterns: Hidden) -> str:
    """Return a text with each match masked; the same text where nothing matches, or where it is too short for one."""
    global _bare
    if not patterns or len(text) < SHORTEST or (text, patterns) == _bare:
        return text
    found = searchable = strict_json.scrub(text)
    for expression, mark in _compile_hidden(patterns):
        found = _replace_matches(found, expression, mark)
    if found is not searchable:
        return found
    _bare = text, patterns
    return text


def find_held_secrets(data: bytes, secrets: tuple[Secret, ...]) -> list[str]:
    """Return the names of the secrets that stand in `data`, in any of their spellings, each once."""
    if not secrets:
        return []
    spelt, marks = _compile_spellings(secrets)
    text = strict_json.scrub(data.decode("utf-8", "replace")) if spelt.search(data) is not None else ""
    found = (text[slice(*match.span())] for match in spelt.finditer(text))
    held = (next(mark for start, mark in marks if one.startswith(start)) for one in found)
    return list(dict.fromkeys(mark[len("[masked ") : -1] for mark in held))


def read_patterns(policy: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the RE2 patterns a recorded policy masks by; raise InvalidJson where it does not say."""
    section = strict_json.get_object(policy, "sensitive")
    formats = strict_json.get_object(section, "formats")
    return (
        *strict_json.as_texts(section.get("patterns"), "sensitive.patterns"),
        *strict_json.as_texts(list(formats.values()), "sensitive.formats"),
    )


def _replace_matches(text: str, expression: Any, mark: Callable[[str], str]) -> str:
    """Return the text with the mark of each match in its place, the same object without a match."""
    # Bytes cost RE2 no counting of characters.
    if expression.search(text.encode()) is None:
        return text
    parts: list[str] = []
    done = 0
    for match in expression.finditer(text):
        start, end = match.span()
        # An expression that also matches nothing, such as "x*", would put a mark between all characters.
        if start < end:
            parts += [text[done:start], mark(text[start:end])]
            done = end
    return "".join(parts) + text[done:] if parts else text


@lru_cache(maxsize=16)
def _compile_hidden(patterns: Hidden) -> list[tuple[Any, Callable[[str], str]]]:
    """Return the RE2 expressions that find what is hidden, each with what writes the mark of a match.

    Secrets come first: a pattern that matches a part of one would leave the rest of it.
    """
    found: list[tuple[Any, Callable[[str], str]]] = []
    if secrets := tuple(one for one in patterns if isinstance(one, Secret)):
        spelt, marks = _compile_spellings(secrets)
        found.append((spelt, lambda one: next(mark for start, mark in marks if one.startswith(start))))
    if plain := tuple(one for one in patterns if isinstance(one, str)):
        found.append((_compile_patterns(plain), lambda one: f"[masked {strict_json.sha256(one.encode())[:8]}]"))
    return found


@lru_cache(maxsize=16)
def _compile_spellings(secrets: tuple[Secret, ...]) -> tuple[Any, list[tuple[str, str]]]:
    """Return one RE2 expression for all spellings of the secrets, and the spellings with their marks, longest first:
    of two that begin alike the longer one counts."""
    import re2

    found = {text: (after, one.mark) for one in reversed(secrets) for text, after in one.list_spellings()}
    spelt = [(strict_json.scrub(text), *rest) for text, rest in found.items()]
    ordered = sorted(spelt, key=lambda entry: -len(entry[0]))
    expression = "|".join(re2.escape(text) + after for text, after, _ in ordered)
    return _compile(expression), [(text, mark) for text, _, mark in ordered]


def _compile(expression: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_capture = True
    options.max_mem = _MEMORY
    return re2.compile(expression, options)


def _compile_patterns(patterns: tuple[str, ...]) -> Any:
    """Return one RE2 expression for all patterns: each text is read once, in time linear in its length."""
    import re2

    for pattern in patterns:
        try:
            _compile(pattern)
        except re2.error as error:
            why = f"is no RE2 expression ({error}); correct or remove it"
            raise PolicyError(f"`{pattern}` in the policy's `sensitive` {why}") from None
    return _compile("|".join(f"(?:{pattern})" for pattern in patterns))
