"""Places in arguments where the result of an earlier step goes, and putting it there: as data, never read again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

from foregate.evidence.ledger import find_strings
from foregate.schemas import strict_json
from foregate.schemas.errors import InvalidJson
from foregate.schemas.strict_json import Json

_PATH = r"(?:\.[A-Za-z_][A-Za-z0-9_]*+|\[[0-9]{1,6}\])*+"
_PLACE = re.compile(rf"\$result_of_step_([0-9]{{1,9}})(?![A-Za-z0-9_])({_PATH})(\[|\.[0-9])?")
"""The third group is what cannot be read as more of a path."""
_PART = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\[([0-9]{1,6})\]")
_LONGEST = 4_000_000
"""Bytes of arguments with the results put in, at most."""


def find_steps(value: Json) -> set[int]:
    """Return the numbers of the steps whose results `value` names in its strings, keys aside."""
    match value:
        case str():
            return {int(match[1]) for match in _PLACE.finditer(value)}
        case list():
            return set[int]().union(*(find_steps(item) for item in value))
        case dict():
            return set[int]().union(*(find_steps(item) for item in value.values()))
    return set()


def fill_placeholders(value: Json, results: Mapping[int, str]) -> Json:
    """Return `value` with each place taken by the text of a step's result, or by what its path leads to in it.

    A string that is nothing but one place with a path takes the value found there, of whatever type; elsewhere it is
    written as text, what is no text as JSON. What was put in is not searched for places. Raises InvalidJson with a
    sentence that says which step or path there is not, or that the whole became too long.
    """
    result = _fill(value, _Results(results))
    if len(strict_json.canonical(result)) > _LONGEST:
        raise _build_size_error()
    return result


def find_placeholder_texts(value: Json, results: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Yield the number of each step `value` names and each text that `filled` takes from its result, once a place."""
    read, places = (
        _Results(results),
        {match[0]: match for text in find_strings(value) for match in _PLACE.finditer(text)},
    )
    for match in places.values():
        found = read.look_up(match).value
        yield from ((int(match[1]), text) for text in [*find_strings(found)] or [_format_value(found)])


class _Found(Struct, frozen=True):
    """What a place stands for, and the bytes of it as JSON."""

    value: Json
    size: int


class _Results:
    """Results by the number of their step. Each place is looked up once, and what was taken so far is counted."""

    def __init__(self, results: Mapping[int, str]) -> None:
        self._results = results
        self._parsed: dict[int, Json] = {}
        self._found: dict[str, _Found] = {}
        self._taken = 0

    def insert(self, match: re.Match[str]) -> Json:
        """Return what a place stands for, to be put in; raise InvalidJson where too much was."""
        found = self.look_up(match)
        self._taken += found.size
        if self._taken > _LONGEST:
            raise _build_size_error()
        return found.value

    def look_up(self, match: re.Match[str]) -> _Found:
        """Return what a place stands for; raise InvalidJson where that is nothing."""
        if match[0] not in self._found:
            value = self._look_up_path(match)
            self._found[match[0]] = _Found(value, len(strict_json.canonical(value)))
        return self._found[match[0]]

    def _look_up_path(self, match: re.Match[str]) -> Json:
        step, path, more = int(match[1]), match[2], match[3]
        if more:
            raise InvalidJson(f"`{match[0][:200]}` cannot be read from `{more}` on; a path is written `.key` and `[0]`")
        if step not in self._results:
            raise InvalidJson(
                f"`{match[0][:200]}` names step {step}, which has no result here; name an earlier step of the block, "
                "counted from 1"
            )
        return _follow_path(self._parse_result(step, match[0]), path, match[0]) if path else self._results[step]

    def _parse_result(self, step: int, place: str) -> Json:
        text = self._results[step]
        if step not in self._parsed:
            try:
                self._parsed[step] = strict_json.parse(text, max_bytes=len(text) * 4 + 1)
            except InvalidJson:
                raise InvalidJson(
                    f"`{place[:200]}` names a part of step {step}, whose result is no JSON; name the whole"
                ) from None
        return self._parsed[step]


def _fill(value: Json, results: _Results) -> Json:
    match value:
        case str():
            whole = _PLACE.fullmatch(value)
            if whole is not None:
                return results.insert(whole)
            return _PLACE.sub(lambda match: _format_value(results.insert(match)), value)
        case list():
            return [_fill(item, results) for item in value]
        case dict():
            return {key: _fill(item, results) for key, item in value.items()}
    return value


def _build_size_error() -> InvalidJson:
    return InvalidJson(f"with the results put in, the arguments are longer than {_LONGEST} bytes; pass on less")


def _follow_path(value: Json, path: str, place: str) -> Json:
    """Return what a path leads to."""
    for part in _PART.finditer(path):
        key, index = part[1], part[2]
        if key is not None and isinstance(value, dict) and key in value:
            value = value[key]
        elif index is not None and isinstance(value, list) and int(index) < len(value):
            value = value[int(index)]
        else:
            raise InvalidJson(f"`{place[:200]}` leads nowhere at `{part[0]}`; {_list_alternatives(value)}")
    return value


def _list_alternatives(value: Json) -> str:
    """Return what could have been named instead."""
    if isinstance(value, dict):
        return f"there are the keys {', '.join(sorted(value)[:8])[:200]}" if value else "the object is empty"
    if isinstance(value, list):
        return f"there are {len(value)} items, counted from 0"
    return "there is nothing below this value"


def _format_value(value: Json) -> str:
    return value if isinstance(value, str) else strict_json.canonical(value).decode()
