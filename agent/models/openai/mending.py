"""Calls that an endpoint spelled badly, where only one thing can have been meant: its tool's name and its arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from json import JSONDecoder

from foregate.schemas.late_pattern import compile_late

_LABELLED = compile_late(r"(?:(?:functions|default_api|tools?)[.:/])?(?P<name>[^.:/<\s][^<\s]*?)(?::\d+)?")
"""A name in the place that providers give it: `functions.read_file:0`, `default_api:read_file`, `tool.read_file`."""
# "<|channel|>commentary to=functions.read_file".
_TO = compile_late(r"\bto=(?:functions\.)?(?P<name>[^\s<]+)")
_LEAK = "<|"
"""How tokens begin that leak into names, as in `read_file<|channel|>commentary`."""
# re.DOTALL: "```json\n{...}\n```".
_FENCED = compile_late(r"```(?:json)?\s*\n(?P<inside>.*?)\s*```", 16)
_OBJECTS = JSONDecoder()


def mend_name(name: str, is_known: Callable[[str], bool]) -> str:
    """Return the known tool that a name certainly means, the name itself where it is known or means none.

    >>> mend_name(" functions.read_file:0", {"read_file"}.__contains__)
    'read_file'
    """
    if is_known(name):
        return name
    bare = name.partition(_LEAK)[0].strip()
    match, to = _LABELLED.fullmatch(bare), _TO.search(name)
    spelled = [bare, match["name"] if match is not None else "", to["name"] if to is not None else ""]
    for meant in (*spelled, "_".join(bare.split()), "".join(bare.split())):
        if meant and is_known(meant):
            return meant
    return name


def mend_arguments(raw: str) -> str:
    """Return the JSON object that arguments certainly are, the arguments themselves where they are one or none is.

    Certain are: the same object more than once, beside empty ones; an object written as a JSON string, or in a fence;
    `null` and nothing at all for no arguments.

    >>> mend_arguments('{}{"path":"a"}{"path":"a"}')
    '{"path":"a"}'
    """
    text = raw.strip().removeprefix("\ufeff")
    if not text or text == "null":
        return "{}"
    if (fenced := _FENCED.fullmatch(text)) is not None:
        text = fenced["inside"]
    elif text[0] == '"':
        text = _read_string(text)
        text = _read_string(text) if text[:1] == '"' else text
    objects = _split_objects(text.strip())
    said = [one for one, value in objects if value] or [one for one, _ in objects[:1]]
    values = [value for _, value in objects if value]
    return said[0] if said and all(value == values[0] for value in values) else raw


def _read_string(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return found if isinstance(found, str) else ""


def _split_objects(text: str) -> list[tuple[str, object]]:
    """Return the JSON objects a text is made of, each with its value; none where there is anything else in it."""
    found: list[tuple[str, object]] = []
    at = 0
    while at < len(text):
        try:
            value, end = _OBJECTS.raw_decode(text, at)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        found.append((text[at:end], value))
        at = end + len(text[end:]) - len(text[end:].lstrip())
    return found
