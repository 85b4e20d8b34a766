"""Write docs/reference/events.md: every kind of event, and every noun in one, from the classes that hold them."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from foregate.schemas.event import Body, Event
from foregate.schemas.event_body import EventBody, get_kind

PAGE = Path(__file__).with_name("reference") / "events.md"
HEAD = """\
# The events of a log

Generated from the classes in `schemas/` by `docs/make_events.py`. [The log](../explanation/log.md) explains what the
chain proves and how to check it without Foregate.

The table `events` of `events.db` in `FOREGATE_HOME` (SQLite) holds `session`, `seq`, `text` and `hash`. `text` is the
canonical JSON of an event; [long values are stored apart](../explanation/log.md#what-is-stored-apart). `foregate audit
show --json` and `foregate run --events` print events as lines of JSON, with `hash` beside the other fields.

- The **hash** is the SHA-256, in lower-case hexadecimal, of the UTF-8 bytes of the event as RFC 8785 JSON (keys sorted,
  no white space), without the field `hash`.
- There are no floating-point numbers. Scores and thresholds are thousandths, money is in micro-units of your currency,
  and durations are whole numbers.
- Keys are ASCII. The arguments of a call are the text that the model sent.
- A field with a default is left out where it has that default; every other field is always written. `X[]` is a list of
  X, and `X?` may be null. `name?` has a default: null where it may be, else `false`, 0, or an empty text, list or
  object. Other defaults stand behind `=`.

From Python, `event.body` is an instance of the class named here, and all of these classes are in `foregate`:

```python
import foregate


def describe(event: foregate.Event) -> str:
    match event.body:
        case foregate.ToolFinished(tool=tool, ok=ok):
            return f"{tool} {'succeeded' if ok else 'failed'}"
        case foregate.CallAnswered(tool=tool, code=code):
            return f"{tool} did not run: {code}"
        case _:
            return event.kind
```
"""
FIELDS = {
    "v": "the version of this format, 1",
    "foregate": "the version of the program that wrote the event",
    "seq": "the number in the session, from 1, without gaps",
    "session": "the session's name",
    "time": "when it was recorded, in UTC: `2026-01-01T00:00:00.000000Z`",
    "kind": "one of [the kinds](#the-kinds)",
    "actor": "who acted: ",
    "policy": "the SHA-256 of the policy in force",
    "prev": "the hash of the event before; 64 zeros for the first",
    "body": "by kind, below",
    "hash": "the hash of this event, which does not cover itself",
}
NOUNS = """\
## What events hold

These objects stand inside the bodies above.
"""


def page() -> str:
    """Return the whole page."""
    bodies: tuple[type[EventBody], ...] = get_args(Body)
    parts = [HEAD, "## The fields of every event\n", every_event(), "## The kinds\n", contents(bodies)]
    for body in bodies:
        parts += [f"### `{get_kind(body)}`\n", f"`{body.__name__}`: {words(body)}\n", fields(body)]
    parts.append(NOUNS)
    nouns = sorted(set(nested(*bodies)) - {*bodies, Event}, key=lambda one: one.__name__)
    for noun in nouns:
        parts += [
            f"### {noun.__name__}\n",
            f"{words(noun)}\n",
            fields(noun) if issubclass(noun, Struct) else choices(noun),
        ]
    return "\n".join(parts).rstrip() + "\n"


def every_event() -> str:
    """Return the fields that every event has."""
    assert FIELDS.keys() == {*Event.__struct_fields__, "kind"}
    rows = [
        f"- `{name}`: {meaning}" + (typed(Event, name) if name == "actor" else "") for name, meaning in FIELDS.items()
    ]
    return "\n".join(rows) + "\n"


def contents(bodies: tuple[type[EventBody], ...]) -> str:
    """Return the list of kinds."""
    return ", ".join(f"[`{get_kind(body)}`](#{get_kind(body)})" for body in bodies) + ".\n"


def words(noun: type) -> str:
    """Return the docstring of a class without its examples, one paragraph to a line."""
    parts = inspect.cleandoc(noun.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(part.split()) for part in parts if not part.startswith((">>>", "Example:")))


def fields(noun: type[Struct]) -> str:
    """Return the fields of a class: each with its name in the log, its type, and its default where it has one."""
    return (", ".join(field(noun, one) for one in msgspec.structs.fields(noun)) or "No fields of its own.") + "\n"


def field(noun: type, one: msgspec.structs.FieldInfo) -> str:
    """Return a field as `name: type`, `name?: type` where its default is empty, or with the default behind it."""
    value: object = one.default
    if one.default_factory is not msgspec.NODEFAULT:
        value = one.default_factory()
    empty = value is not msgspec.NODEFAULT and not msgspec.to_builtins(value)
    end = "" if empty or value is msgspec.NODEFAULT else f" = {json.dumps(msgspec.to_builtins(value))}"
    return f"`{one.encode_name}{'?' if empty else ''}: {typed(noun, one.name)}{end}`"


def typed(noun: type, name: str) -> str:
    """Return the type of a field as its class spells it, shortened; of a closed list of texts, these."""
    hint = get_type_hints(noun)[name]
    if get_origin(hint) is Literal:
        return "|".join(str(value) for value in get_args(hint))
    spelt = next(found[name] for one in noun.__mro__ if name in (found := inspect.get_annotations(one)))
    return re.sub(r" \| None$", "?", re.sub(r"tuple\[([\w.]+), \.\.\.\]", r"\1[]", spelt))


def choices(noun: type) -> str:
    """Return the values of an enumeration."""
    assert issubclass(noun, Enum)
    return "One of " + ", ".join(f"`{one.value}`" for one in noun) + ".\n"


def nested(*nouns: type) -> Iterator[type]:
    """Yield every class and enumeration that the fields of some classes hold, directly or not."""
    seen: set[type] = set()
    left = list(nouns)
    while left:
        noun = left.pop()
        if noun in seen or not (issubclass(noun, (Struct, Enum))):
            continue
        seen.add(noun)
        yield noun
        if issubclass(noun, Struct):
            left += [found for hint in get_type_hints(noun).values() for found in classes(hint)]


def classes(hint: object) -> Iterator[type]:
    """Yield the classes a type is made of."""
    if isinstance(hint, type):
        yield hint
    for inner in get_args(hint):
        if not isinstance(inner, str):
            yield from classes(inner)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
