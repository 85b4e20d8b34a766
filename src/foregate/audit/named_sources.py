"""Who is said to have named a thing first, checked against what that event says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from foregate.evidence.ledger import LONGEST, fold_word, match_url
from foregate.evidence.state.recorded_turns import Lookup
from foregate.schemas.event_body import ToolFinished, UserMessage
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_call import Atom, Origin, Survey

_PLAIN = compile_late(r"[!#-&(-\[\]-~]{2,}")
"""A name that stands unchanged in any text: no quotes, no backslashes, nothing that could be written otherwise."""


class SourceChecker:
    """Checks surveys of one session. `lookup` finds its events; what was found to hold is not looked for again."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._known: set[tuple[int, str, Origin]] = set()

    def find_unsaid(self, surveys: Iterable[Survey]) -> Iterator[Atom]:
        """Yield the names that are not in the event which is said to have brought them.

        Raises LookupError where there is no such event.
        """
        for atom in (atom for survey in surveys for atom in survey.atoms if atom.seq):
            key = atom.seq, atom.text, atom.origin
            if key in self._known:
                continue
            self._known.add(key)
            if not self._is_said(atom):
                yield atom

    def _is_said(self, atom: Atom) -> bool:
        """Whether the event holds the name, or a part that it counts as named by; any other kind of event may."""
        event = self._lookup(atom.seq)
        match event.body:
            case UserMessage(text=text):
                origin = Origin.USER if event.actor == "user" else Origin.NOBODY
            case ToolFinished(content=text, origin=origin):
                pass
            case _:
                return True
        if origin is not atom.origin:
            return False
        if len(atom.text) >= LONGEST or not _PLAIN.fullmatch(atom.text):
            return True
        heard = text.lower()
        return any(part.lower() in heard for part in _list_parts(fold_word(atom.text)))


def _list_parts(name: str) -> Iterator[str]:
    """Yield a name and what it counts as named by: the host of a URL, the folder and the last part of a path."""
    yield name
    if (url := match_url(name)) is not None:
        yield url.group(2)
    folder, _, last = name.strip("/").rpartition("/")
    yield from filter(None, (folder, last))
