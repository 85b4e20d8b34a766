"""Whether one glob matches whatever another does, for certain: both are compared as automata."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from foregate.policy.risk.globs import fold_name, list_holders, split_glob

_MOST = 512
"""Pairs of states that are looked at; of two globs that need more nothing is claimed."""
_OTHER = ""
"""Any character that neither glob names."""
_SOME = "\ue000"
"""A character of samples, which hardly any glob names."""
_SAMPLES = {
    "/**": ("", f"/{_SOME}"),
    "**/": ("", f"{_SOME}/{_SOME}/"),
    "*": ("", _SOME),
    "?": (_SOME, _SOME),
}
"""What stands in samples for a piece of a glob."""
_ANY, _NO_SLASH = ".", "[^/]"
"""Classes of characters, beside single ones."""


class Automaton:
    """What matches a glob, as states between which characters lead; it begins in 0 and ends in `end`."""

    def __init__(self, pieces: Iterable[str], *, paths: bool) -> None:
        self.steps: dict[int, list[tuple[str, int]]] = {}
        self.jumps: dict[int, list[int]] = {}
        self._after: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self.end = 0
        self.samples = ("", "")
        """Two texts that match: one with as little as can be where there is a star, and one with more."""
        self._star, self._one = (_NO_SLASH, _NO_SLASH) if paths else (_ANY, _ANY)
        for piece in pieces:
            self._add(piece)
            other = ("", f"{_SOME}/{_SOME}") if piece[:2] == "**" else (piece, piece)
            little, much = _SAMPLES.get(piece, other)
            self.samples = self.samples[0] + little, self.samples[1] + much

    def _add(self, piece: str) -> None:
        begin, match = self.end, piece
        if match == "/**":  # nothing, or whatever lies beneath
            self._lead(begin, "/", begin + 1)
            self._lead(begin + 1, _ANY, begin + 1)
            self._jump(begin, begin + 2)
            self._jump(begin + 1, begin + 2)
        elif match == "**/":  # nothing, or any folders
            self._jump(begin, begin + 1)
            self._lead(begin + 1, _ANY, begin + 1)
            self._lead(begin + 1, "/", begin + 2)
            self._jump(begin, begin + 2)
        elif match[0] == "*":
            self._lead(begin, _ANY if match[:2] == "**" else self._star, begin)
            self._jump(begin, begin + 1)
        elif match == "?":
            self._lead(begin, self._one, begin + 1)
        else:
            for at, letter in enumerate(match):
                self._lead(begin + at, f"={letter}", begin + at + 1)
            self.end += len(match)
            return
        self.end += 2 if "/" in match else 1

    def _lead(self, state: int, by: str, to: int) -> None:
        self.steps.setdefault(state, []).append(("=/" if by == "/" else by, to))

    def _jump(self, state: int, to: int) -> None:
        self.jumps.setdefault(state, []).append(to)

    def close(self, states: Iterable[int]) -> frozenset[int]:
        """Return the states, and those they lead to without a character."""
        found, left = set[int](), list(states)
        while left:
            state = left.pop()
            if state not in found:
                found.add(state)
                left.extend(self.jumps.get(state, ()))
        return frozenset(found)

    def follow(self, states: frozenset[int], letter: str) -> frozenset[int]:
        """Return the states that a character leads to."""
        found = self._after.get((states, letter))
        if found is None:
            steps = (step for state in states for step in self.steps.get(state, ()))
            found = self._after[states, letter] = self.close(to for by, to in steps if _takes(by, letter))
        return found

    def accepts(self, text: str) -> bool:
        """Whether a text matches."""
        states = self.close([0])
        for letter in text:
            states = self.follow(states, letter)
        return self.end in states

    def list_letters(self, states: Iterable[int]) -> set[str]:
        """Return the characters that lead on from some of the states where not every one does."""
        return {by[1:] for state in states for by, _ in self.steps.get(state, ()) if by[0] == "="}


def _takes(by: str, letter: str) -> bool:
    return by == _ANY or (by == _NO_SLASH and letter != "/") or by == f"={letter}"


def is_within(narrow: Sequence[Automaton], wide: Sequence[Automaton]) -> bool:
    """Whether whatever matches one of the first automata matches one of the others; False where that takes too long."""
    known = all(any(one.accepts(text) for one in wide) for other in narrow for text in other.samples)
    return known and all(_is_one_within(one, wide) for one in narrow)


_States = tuple[frozenset[int], tuple[frozenset[int], ...]]
"""Where one automaton is and where others are, after the same characters."""


def _is_one_within(narrow: Automaton, wide: Sequence[Automaton]) -> bool:
    start: _States = (narrow.close([0]), tuple(one.close([0]) for one in wide))
    seen, left = {start}, deque([start])
    while left:
        own, others = left.popleft()
        if narrow.end in own and not any(one.end in states for one, states in zip(wide, others, strict=True)):
            return False
        for after in _list_next(narrow, wide, own, others):
            if after not in seen:
                seen.add(after)
                left.append(after)
        if len(seen) > _MOST:
            return False
    return True


def _list_next(
    narrow: Automaton, wide: Sequence[Automaton], own: frozenset[int], others: tuple[frozenset[int], ...]
) -> Iterator[_States]:
    """Yield where one more character leads to: one of those that lead anywhere of their own, or any other."""
    named = (one.list_letters(states) for one, states in zip(wide, others, strict=True))
    for letter in {"/", _OTHER}.union(narrow.list_letters(own), *named):
        if to := narrow.follow(own, letter):
            yield to, tuple(one.follow(states, letter) for one, states in zip(wide, others, strict=True))


@lru_cache(maxsize=2048)
def read_glob(pattern: str, paths: bool = True) -> Automaton:
    """Return the automaton of a glob of paths, or of plain text."""
    return Automaton(split_glob(pattern, paths), paths=paths)


def is_text_within(narrow: str, wide: str) -> bool:
    """Whether `wide` matches each text that `narrow` does.

    >>> is_text_within("read_*", "*_*"), is_text_within("*_file", "read_*")
    (True, False)
    """
    return is_within([read_glob(narrow, False)], [read_glob(wide, False)])


def is_path_within(narrow: str, wide: str) -> bool:
    """Whether `wide` matches each path that `narrow` does.

    >>> is_path_within("src/*.py", "src/**"), is_path_within("src/**", "src/*")
    (True, False)
    """
    return is_within([read_glob(narrow)], [read_glob(wide)])


def read_beneath(pattern: str) -> Automaton:
    """Return the automaton of what a strict rule's glob protects: see `matches_beneath`."""
    return read_glob(f"{fold_name(pattern).rstrip('/')}/**")


def read_holders(pattern: str) -> list[Automaton]:
    """Return the automata of the folders in which something may match: see `may_hold`."""
    here = [] if pattern.startswith("/") else [read_glob("."), read_glob("")]
    return [*here, *map(read_glob, list_holders(fold_name(pattern)))]
