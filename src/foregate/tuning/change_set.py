"""Which of many changes of one policy can reach a recorded turn: under all others it comes out as recorded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial

from foregate.gates.replay.reach import CallTraits, PolicyChange, list_condition_paths
from foregate.gates.replay.swept_number import Range, SweptNumber
from foregate.policy.followed import ARITHMETIC, COMPARISONS, Condition, Path, Term, read_value
from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Path as KeyPath
from foregate.tuning.reach_index import FrameKey, IndexedTurn, ReachPage, read_condition

_RULES = tuple(map(str, RULES))


class ConditionIndex:
    """Conditions by the keys that they are about."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._by_path = defaultdict[Path, list[Condition]](list)
        self._by_holder = defaultdict[Path, list[Condition]](list)
        for condition in conditions:
            for path in set(list_condition_paths(condition)):
                self._by_path[path].append(condition)
                for size in range(1, len(path)):
                    self._by_holder[path[:size]].append(condition)

    def list_about(self, key: KeyPath) -> list[Condition]:
        """Return the conditions about a key, what is in it, or what holds it, each once."""
        path = tuple(map(str, key))
        holding = (one for size in range(1, len(path) + 1) for one in self._by_path.get(path[:size], ()))
        return list(dict.fromkeys([*holding, *self._by_holder.get(path, ())]))


class ChangeSet:
    """Numbered changes of a policy. What one makes of it is looked at only where something rests on its key."""

    def __init__(self, before: Policy) -> None:
        self.before = before
        self._changes: dict[int, tuple[Path, Callable[[], Policy]]] = {}
        self._compared: dict[int, PolicyChange | None] = {}
        self._by_path: defaultdict[Path, set[int]] = defaultdict(set)
        self._of_any_key: set[int] = set()
        self._breaking: dict[Condition, frozenset[int]] = {}
        self._by_text: dict[str, frozenset[int]] = {}
        self._matching: dict[CallTraits, frozenset[int]] = {}
        self._of_all: frozenset[int] | None = None

    def add(self, number: int, key: KeyPath, make: Callable[[], Policy]) -> None:
        """Take in a change of a key; `()` stands for any number of keys. One for which `make` raises ValueError makes
        no policy, and reaches nothing."""
        path = tuple(map(str, key))
        self._changes[number] = path, make
        for size in range(1, len(path) + 1):
            self._by_path[path[:size]].add(number)
        self._of_any_key.update([] if path else [number])
        self._breaking, self._by_text, self._matching, self._of_all = {}, {}, {}, None

    def _compare(self, number: int) -> PolicyChange | None:
        if number not in self._compared:
            self._compared[number] = None
            with suppress(ValueError):
                self._compared[number] = PolicyChange(self.before, self._changes[number][1]())
        return self._compared[number]

    def _select(self, numbers: Iterable[int], does: Callable[[PolicyChange], bool]) -> frozenset[int]:
        """Return those of some changes that do something."""
        return frozenset(number for number in numbers if (change := self._compare(number)) is not None and does(change))

    def find_of_all(self) -> frozenset[int]:
        """Return the changes that may reach any turn: a gate is applied that was not, or the order of rules differs."""
        if self._of_all is None:
            asked = [number for number, (path, _) in self._changes.items() if not path or path[1:] == ("mode",)]
            self._of_all = self._select(asked, lambda change: change.reaches_all)
        return self._of_all

    def find_breaking(self, condition: Condition) -> frozenset[int]:
        """Return the changes under which a condition does not hold."""
        if condition not in self._breaking:
            near = {number for path in list_condition_paths(condition) for number in self._list_about(path)}
            self._breaking[condition] = self._select(near, lambda change: change.can_reach(condition))
        return self._breaking[condition]

    def find_breaking_text(self, text: str) -> frozenset[int]:
        """Return the changes under which a condition does not hold, given as its JSON."""
        # The hash of a text is known, that of a condition is computed each time.
        if text not in self._by_text:
            self._by_text[text] = self.find_breaking(read_condition(text))
        return self._by_text[text]

    def _list_about(self, path: Path) -> Iterator[int]:
        """Yield the changes of a key, of what is in it, and of what holds it."""
        yield from self._of_any_key
        yield from self._by_path.get(path, ())
        for size in range(1, len(path)):
            held = self._by_path.get(path[:size], ())
            yield from (number for number in held if len(self._changes[number][0]) == size)

    def find_matching(self, call: CallTraits) -> frozenset[int]:
        """Return the changes whose rules may match a call like this."""
        if call not in self._matching:
            asked = self._of_any_key.union(self._by_path.get(_RULES, ()))
            self._matching[call] = self._select(asked, lambda change: change.can_match(call))
        return self._matching[call]

    def find_reaching(self, conditions: Iterable[Condition], calls: Iterable[CallTraits]) -> frozenset[int]:
        """Return the changes that can reach a turn that rests on these conditions and has calls like these."""
        return self.find_of_all().union(*map(self.find_breaking, conditions), *map(self.find_matching, calls))


class _FrameReach:
    """What of a change set matters on one page, by the numbers that the page has for conditions and traits."""

    def __init__(self, page: ReachPage, number: int, changes: ChangeSet, wanted: frozenset[int]) -> None:
        frame = page.frames[number]
        texts = frame.conditions.items()
        found = ((number, changes.find_breaking_text(text) & wanted) for number, text in texts)
        self._broken = {number: breaking for number, breaking in found if breaking}
        self._matched = [changes.find_matching(one) & wanted for one in page.traits]
        self._of_all = (changes.find_of_all() & wanted).union(*self._list_broken(frame.built))

    def _list_broken(self, conditions: Iterable[int]) -> list[frozenset[int]]:
        return [self._broken[number] for number in conditions if number in self._broken]

    def find_reaching(self, turn: IndexedTurn) -> frozenset[int]:
        """Return the changes that can reach a turn."""
        matched = (self._matched[number] for number in turn.calls)
        return self._of_all.union(*self._list_broken(turn.conditions), *matched)


def find_reached(
    page: ReachPage, sets: Mapping[FrameKey, ChangeSet], numbers: Collection[int]
) -> dict[int, frozenset[int]]:
    """Return by the event of a turn which of some changes can reach it: every one, where it does not come out as
    recorded under its own policy."""
    wanted = frozenset(numbers)
    frames = [_FrameReach(page, number, sets[frame.key], wanted) for number, frame in enumerate(page.frames)]
    found = {turn.seq: frames[turn.frame].find_reaching(turn) if turn.is_same else wanted for turn in page.turns}
    return {seq: reaching for seq, reaching in found.items() if reaching}


def list_break_points(
    conditions: Iterable[Condition], key: KeyPath, before: Policy, least: int, most: int
) -> list[int]:
    """Return, ascending, the values of a numeric key nearest to that in force, on either side, at which a condition of
    recorded turns comes out otherwise than it did. Turns that were judged under another value may rest on one that does
    not hold at that in force: of it the nearest values to those at which it holds are returned."""
    path, found = tuple(map(str, key)), set[int]()
    now = read_value(before, path)
    for condition in conditions:
        if condition[0] == "number" and path in list_condition_paths(condition):
            within = Range(now, least, most)
            beyond = _compare(condition, partial(_read, before, path, within)) is condition[-1]
            found.update([within.low - beyond] if within.low > least else [])
            found.update([within.high + beyond] if within.high < most else [])
    return sorted(found)


def _read(policy: Policy, key: Path, within: Range, name: Path) -> int:
    """Return a number of a policy; what stands for the key's own notes the range in which all compares the same."""
    value = SweptNumber(within) if name == key else read_value(policy, name)
    # Of a key that this policy does not have.
    return value if isinstance(value, int) else 1


def _compare(condition: Condition, read: Callable[[Path], int]) -> bool:
    _, sign, left, right, _ = condition
    return COMPARISONS[sign](_calculate(left, read), _calculate(right, read))


def _calculate(term: Term, read: Callable[[Path], int]) -> int:
    if isinstance(term, int):
        return term
    if term[0] == "key":
        return read(term[1])
    return ARITHMETIC[term[0]](_calculate(term[1], read), _calculate(term[2], read))
