"""Who said a name first: paths, URLs, hosts, addresses, identifiers and long numbers of every incoming text."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from foregate.schemas.evidence_record import Origin
from foregate.schemas.strict_json import Json
from foregate.schemas.survey import Atom

WINDOW = 64 * 1024
"""Characters at each end of a text that are cut into atoms."""
BOUND = 50_000
"""Atoms a session remembers; beyond it the least trusted and oldest go first."""

_WORD = re.compile(r"[^\s\"'`<>()\[\]{},;|]{2,512}")
_NAMING = re.compile(r"[./@:_\\-]|\d{4}|[a-z][A-Z]")
_TRUST = {origin: rank for rank, origin in enumerate(Origin)}


@dataclass(frozen=True, slots=True)
class Heard:
    """The most trusted origin of an atom and the event that brought it."""

    origin: Origin
    seq: int


class AtomTable:
    """A side table rebuilt from events; O(new text) on arrival, O(arguments) per turn."""

    def __init__(self) -> None:
        self._heard: OrderedDict[str, Heard] = OrderedDict()

    def hear(self, text: str, origin: Origin, seq: int) -> None:
        """Take in a text; an atom keeps its most trusted origin."""
        for atom in atoms_of(text):
            known = self._heard.get(atom)
            if known is None or _TRUST[origin] < _TRUST[known.origin]:
                self._heard[atom] = Heard(origin, seq)
        while len(self._heard) > BOUND:
            self._heard.popitem(last=False)

    def first(self, atom: str) -> Atom:
        """Return who said an atom; `nobody` when no text of the session holds it."""
        heard = self._heard.get(fold(atom))
        return Atom(atom, heard.origin, heard.seq) if heard else Atom(atom, Origin.NOBODY)

    def of_arguments(self, arguments: Mapping[str, Json], limit: int = 32) -> tuple[Atom, ...]:
        """Return the atoms of a call's short string arguments with who said each first."""
        found: dict[str, Atom] = {}
        for text in short_strings(arguments):
            for atom in atoms_of(text):
                if atom not in found:
                    found[atom] = self.first(atom)
                if len(found) >= limit:
                    return tuple(found.values())
        return tuple(found.values())


def atoms_of(text: str) -> Iterator[str]:
    """Yield the words of a text that name something, folded for comparison."""
    if len(text) > 2 * WINDOW:
        text = f"{text[:WINDOW]} {text[-WINDOW:]}"
    for match in _WORD.finditer(text):
        word = fold(match.group())
        if len(word) > 1 and _NAMING.search(match.group()):
            yield word


def fold(word: str) -> str:
    """Return a word without the punctuation of a sentence around it, and without `./` in front."""
    return word.rstrip(".,:!?").removeprefix("./").rstrip("/")


def short_strings(value: Json, longest: int = 512) -> Iterator[str]:
    """Yield the strings of a value up to a length; longer ones are content, not names."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            if len(item) <= longest:
                yield item
        elif isinstance(item, Mapping):
            stack.extend(reversed(list(item.values())))
        elif isinstance(item, list):
            stack.extend(reversed(item))
