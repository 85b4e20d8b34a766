"""Places in arguments where the result of an earlier step goes, and putting it there: as data, never read again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from foregate.evidence.atoms import strings
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

_PATH = r"(?:\.[A-Za-z_][A-Za-z0-9_]*|\[[0-9]{1,6}\])*"
_PLACE = re.compile(rf"\$result_of_step_([1-9][0-9]{{0,3}})({_PATH})(?![A-Za-z0-9_])")
_PART = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]{1,6})\]")
_LONGEST = 4_000_000
"""Characters of arguments with the results put in, at most."""


def steps_in(value: Json) -> set[int]:
    """Return the numbers of the steps whose results `value` names in its strings, keys aside."""
    match value:
        case str():
            return {int(match[1]) for match in _PLACE.finditer(value)}
        case list():
            return set[int]().union(*(steps_in(item) for item in value))
        case dict():
            return set[int]().union(*(steps_in(item) for item in value.values()))
    return set()


def filled(value: Json, results: Mapping[int, str]) -> Json:
    """Return `value` with each place taken by the text of a step's result, or by what its path leads to in it.

    A string that is nothing but one place with a path takes the value found there, of whatever type; elsewhere it is
    written as text, what is no text as JSON. What was put in is not searched for places. Raises InvalidJson with a
    sentence that says which step or path there is not, or that the whole became too long.
    """
    result = _filled(value, results)
    if len(strict_json.canonical(result)) > _LONGEST:
        raise InvalidJson(f"with the results put in, the arguments are longer than {_LONGEST} bytes; pass on less")
    return result


def named(value: Json, results: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Yield the number of each step `value` names and each text that `filled` takes from its result."""
    match value:
        case str():
            for match in _PLACE.finditer(value):
                found = _found(match, results)
                yield from ((int(match[1]), text) for text in [*strings(found)] or [_text(found)])
        case list():
            for item in value:
                yield from named(item, results)
        case dict():
            for item in value.values():
                yield from named(item, results)


def _filled(value: Json, results: Mapping[int, str]) -> Json:
    match value:
        case str():
            whole = _PLACE.fullmatch(value)
            if whole is not None:
                return _found(whole, results)
            return _PLACE.sub(lambda match: _text(_found(match, results)), value)
        case list():
            return [_filled(item, results) for item in value]
        case dict():
            return {key: _filled(item, results) for key, item in value.items()}
    return value


def _found(match: re.Match[str], results: Mapping[int, str]) -> Json:
    """Return what a place stands for."""
    step, path = int(match[1]), match[2]
    if step not in results:
        raise InvalidJson(
            f"`{match[0]}` names step {step}, which has no result here; name an earlier step of the block"
        )
    if not path:
        return results[step]
    try:
        value = strict_json.parse(results[step], max_bytes=len(results[step]) * 4 + 1)
    except InvalidJson:
        raise InvalidJson(
            f"`{match[0]}` names a part of step {step}, whose result is no JSON; name the whole"
        ) from None
    return _along(value, path, match[0])


def _along(value: Json, path: str, place: str) -> Json:
    """Return what a path leads to."""
    for part in _PART.finditer(path):
        key, index = part[1], part[2]
        if key is not None and isinstance(value, dict) and key in value:
            value = value[key]
        elif index is not None and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            raise InvalidJson(f"`{place[:200]}` leads nowhere at `{part[0]}`; {_there(value)}")
    return value


def _there(value: Json) -> str:
    """Return what could have been named instead."""
    if isinstance(value, dict):
        return f"there are the keys {', '.join(sorted(value)[:8])[:200]}" if value else "the object is empty"
    if isinstance(value, list):
        return f"there are {len(value)} items, counted from 0"
    return "there is nothing below this value"


def _text(value: Json) -> str:
    return value if isinstance(value, str) else strict_json.canonical(value).decode()
