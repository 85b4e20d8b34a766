"""Cutting values to the smallest ones that still do what they are kept for (delta debugging, level by level)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from foregate.policy.source.strict_yaml import Data, Path, walk_values

Test = Callable[[Data], bool]
"""Whether values still do what they are kept for; it may be asked about any values."""
_SHORT = 12


def shrink(data: Data, does: Test, kept: Sequence[Path] = ()) -> Data:
    """Return the smallest values found of which `does` holds; it holds of `data`. What stands at `kept` paths stays.

    Nothing more can be taken out of them, piece by piece, and no text in them can be cut.
    """
    while True:
        smaller = _shorten_texts(_take_out(data, does, kept), does, kept)
        if smaller == data:
            return data
        data = smaller


def _take_out(data: Data, does: Test, kept: Sequence[Path]) -> Data:
    """Take out entries of mappings and lists, the outer ones first, as many at once as can be."""
    pending: list[Path] = [()]
    while pending:
        path = pending.pop(0)
        entries = list_entries(find_value(data, path))
        loose = [entry for entry in entries if not _is_kept((*path, entry), kept)]
        data = _thin_out(data, does, path, loose)
        pending += [(*path, entry) for entry in list_entries(find_value(data, path))]
    return data


def _thin_out(data: Data, does: Test, path: Path, loose: Sequence[Any]) -> Data:
    """Return the values with as few of the loose entries at a path as can be."""

    def leave(left: Sequence[Any]) -> Data:
        return remove_entries(data, path, [entry for entry in loose if entry not in left])

    return leave(minimise(loose, lambda left: does(leave(left))))


def _is_kept(path: Path, kept: Sequence[Path]) -> bool:
    """Whether something to keep stands at a path, in it, or around it."""
    return any(one[: len(path)] == path[: len(one)] for one in kept)


def minimise(entries: Sequence[Any], test: Callable[[Sequence[Any]], bool]) -> list[Any]:
    """Return a smallest part of `entries` of which `test` holds, as it does of all: none of it can be left out."""
    left, parts = list(entries), 1
    while left:
        size = -(-len(left) // parts)
        pieces = [left[at : at + size] for at in range(0, len(left), size)]
        without = next((rest for one in pieces if test(rest := [x for x in left if x not in one])), None)
        if without is not None:
            left, parts = without, max(1, parts - 1)
        elif size == 1:
            break
        else:
            parts = min(len(left), parts * 2)
    return left


def _shorten_texts(data: Data, does: Test, kept: Sequence[Path]) -> Data:
    """Cut texts to nothing, a line, a word or a part, where that changes nothing."""
    for path, value in list(walk_values(data)):
        if isinstance(value, str) and not _is_kept(path, kept):
            shorter = (text for text in _list_shorter(value) if does(replace_value(data, path, text)))
            if (text := next(shorter, None)) is not None:
                data = replace_value(data, path, text)
    return data


def _list_shorter(text: str) -> Iterator[str]:
    """Yield shorter forms of a text, the shortest first."""
    words = text.split()
    if len(text) > _SHORT:
        yield ""
        yield from words[:1]
        yield " ".join(words[: len(words) // 2])
        yield text.splitlines()[0]
        yield text[: len(text) // 2]


def list_entries(value: Data) -> list[Any]:
    """Return the keys of a mapping or the places of a list, none of anything else."""
    if isinstance(value, dict):
        return list(value)
    return list(range(len(value))) if isinstance(value, list) else []


def find_value(data: Data, path: Path) -> Data:
    """Return what stands at a path."""
    for step in path:
        data = data[step]
    return data


def remove_entries(data: Data, path: Path, entries: Sequence[Any]) -> Data:
    """Return the values without some entries of what stands at a path."""
    changed = copy.deepcopy(data)
    holder = find_value(changed, path)
    for entry in sorted(entries, reverse=True):
        del holder[entry]
    return changed


def replace_value(data: Data, path: Path, value: Data) -> Data:
    """Return the values with another one at a path."""
    changed = copy.deepcopy(data)
    find_value(changed, path[:-1])[path[-1]] = value
    return changed
