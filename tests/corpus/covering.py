"""Choosing few recordings that together hold everything: every kind, code, field and value any of the logs has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

Feature = tuple[Hashable, ...]

_FREE = {"fingerprints", "uses", "properties", "from", "headers", "env", "$defs", "definitions"}
"""Objects whose keys are no fields: ids, and names somebody chose."""
_ANYTHING = {"arguments", "parameters", "input_schema", "schema", "workspace", "params"}
"""What other people's JSON stands in: no field of it is looked at."""
_WORD = re.compile(r"[a-z][a-z_]{1,60}")
_WORDS = 40
"""A field with more different words than that holds no enumeration."""
_NAMES = {
    *(
        "name",
        "tool",
        "target",
        "text",
        "content",
        "id",
        "call",
        "title",
        "model",
        "goal",
        "session",
        "action",
        "agent",
    ),
    *("argv[]", "parents[]", "resources[]", "just_failed[]", "notes[]", "parameter", "wire_id", "said"),
    *("output_contains", "summary", "question", "keyword", "reasoning", "agent"),
}
"""Fields that hold names and texts, however short."""


_THEMES = {
    "dialect": re.compile(r'"dialect":"[a-z_]+"'),
    "early look": re.compile('"early":true'),
    "stages": re.compile('"program":'),
    "delegated": re.compile('"spent":'),
    "runtime": re.compile('"elsewhere":'),
    "server": re.compile('"source":"mcp:'),
    "compression": re.compile('"kind":"context_compressed"'),
    "unknown": re.compile('"kind":"outcome_unknown"'),
    "undone": re.compile('"kind":"effect_undone"'),
    "shadow": re.compile('"mode":"shadow"'),
    "dry run": re.compile('"dry_run":true'),
    "plan": re.compile('"kind":"plan_confirmed"'),
}
"""What recordings should show as it comes about in several ways: once for each file of tests that does."""


def features_of(sessions: Iterable[Sequence[str]], file: str) -> set[Feature]:
    """Return what the sessions of a log have: kinds, who acts, fields, single words, and what follows what.

    `file` is that of the test which made the log; each has something of its own to show.
    """
    found: set[Feature] = {("made by", file, "")}
    for texts in sessions:
        whole = "\n".join(texts)
        found |= {("theme", file, match.group()) for theme in _THEMES.values() if (match := theme.search(whole))}
        events = [json.loads(text) for text in texts]
        for event in events:
            found.add(("kind", event["kind"], event["actor"]))
            found |= {(event["kind"], *feature) for feature in _fields(event["body"], "")}
            if event["kind"] == "turn_judged":
                found |= set(_rulings(event["body"]["judgement"]))
        kinds = [event["kind"] for event in events]
        found |= {("follows", *pair) for pair in pairwise(kinds)}
        found.add(("ends", kinds[-1]))
    return found


def without_free_words(every: Sequence[set[Feature]]) -> list[set[Feature]]:
    """Return the features without the words of fields that hold anything at all."""
    words: dict[Feature, set[Hashable]] = {}
    for found in every:
        for feature in found:
            if feature[-2] == "word":
                words.setdefault(feature[:-2], set()).add(feature[-1])
    free = {field for field, known in words.items() if len(known) > _WORDS}
    return [{f for f in found if f[-2] != "word" or f[:-2] not in free} for found in every]


def choose(
    every: Sequence[set[Feature]], sizes: Sequence[int], is_good: Callable[[int], bool]
) -> tuple[list[int], set[Feature]]:
    """Return places that together hold what all good ones hold, found greedily, and the features left out.

    What brings most for its size comes first. `is_good` is asked about a place only when it would be taken.
    """
    left = set[Feature]().union(*every)
    open_ones = set(range(len(every)))
    chosen: list[int] = []
    while left and open_ones:
        gains = {place: len(every[place] & left) / (3000 + sizes[place]) for place in open_ones}
        best = max(sorted(open_ones), key=lambda place: gains[place])
        if not gains[best]:
            break
        open_ones = {place for place in open_ones if gains[place]} - {best}
        if is_good(best):
            chosen.append(best)
            left -= every[best]
    return chosen, left


def _fields(value: Any, path: str) -> Iterator[Feature]:
    match value:
        case dict():
            for key, inner in value.items():
                name = "*" if path.rpartition(".")[2] in _FREE else key
                yield path, name, "field", True
                if key not in _ANYTHING:
                    yield from _fields(inner, f"{path}.{name}")
        case list():
            yield path, "many", bool(value)
            for inner in value:
                yield from _fields(inner, f"{path}[]")
        case bool() | None:
            yield path, "value", value
        case int():
            yield path, "sign", (value > 0) - (value < 0)
        case str() if _WORD.fullmatch(value) and path.rpartition(".")[2] not in _NAMES:
            yield path, "word", value


def _rulings(judgement: Any) -> Iterator[Feature]:
    for decision in judgement["decisions"]:
        mode = decision.get("mode", "enforce")
        yield "decision", decision["gate"], decision["code"], mode, decision.get("severity", "")
        for ruling in decision.get("rulings", ()):
            yield "ruling", decision["gate"], ruling["code"], ruling["standing"], mode
            if _WORD.fullmatch(ruling.get("reason", "")):
                yield "reason", decision["gate"], ruling["code"], ruling["reason"]
    for verdict in judgement["verdicts"]:
        yield "verdict", verdict["gate"], verdict["ruling"]["code"], verdict["standing"]


def rows_of(text: str) -> set[Feature]:
    """Return what is remarkable in the text of a reading: its lines of JSON without what is peculiar to one session."""
    found: set[Feature] = set()
    for row in (json.loads(line) for line in text.splitlines() if line.startswith("{")):
        if "call" in row:
            call = row["call"]
            sides = [(side["standing"], side["gate"], side["code"]) for side in (call["before"], call["after"]) if side]
            found.add((call["change"], *sides, call["needs"], *row["keys"]))
        elif "point" in row:
            levers = ((one["then"], one["by"], one["key"] or one["says"][:12]) for one in row["levers"])
            found.add((row["point"]["gate"], row["point"]["code"], row["standing"], *sorted(levers)))
        else:
            found |= {feature for feature in _fields(row, "") if feature[-2] == "field"}
    return found
