"""Judging turns under a policy and many mutations of it: gates built once, and only mutations that can matter asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from foregate.gates.cases.case import Fate, find_fates
from foregate.gates.cases.mutations import Mutation
from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.call_traits import CallTraits
from foregate.gates.replay.reach import Followed, PolicyChange, ReachReader, list_condition_paths
from foregate.gates.replay.redecide import survey_again
from foregate.policy.followed import Condition, Path
from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES
from foregate.schemas import strict_json
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

STEERING = ("commands", "files", "http", "sensitive", "tools")
"""Sections of the policy that steer what is looked at."""
_MOST = 4096
"""Gates that are kept built."""
Fates = Mapping[str, Fate]


class Benches:
    """The gates of a policy and of its mutations over catalogues, built once for each."""

    def __init__(self, policy: Policy, mutations: Sequence[Mutation]) -> None:
        self.policy, self.mutations = policy, mutations
        self._built: dict[tuple[int, str], Prelude] = {}
        self._readers: dict[str, _Reach] = {}
        self._changes = _Changes(policy, mutations)
        self._names: dict[int, tuple[Catalogue, str]] = {}

    def judge(self, turn: Turn, catalogue: Catalogue, mutation: Mutation | None = None) -> Fates:
        """Return the fates of a turn's calls under the policy, or under a mutation of it.

        Raises what judging a turn raises that does not fit together.
        """
        policy, unknown = self.policy if mutation is None else mutation.policy, dict[str, str]()
        if mutation is not None and mutation.path[0] in STEERING:
            turn, unknown, _ = survey_again(turn, policy, self.policy, catalogue)
        fates = find_fates(turn, policy, self._find_bench(policy, catalogue))
        return {call: Fate("hold", "", "", unknown=unknown[call]) if call in unknown else fates[call] for call in fates}

    def list_reaching(self, turn: Turn, catalogue: Catalogue) -> list[Mutation]:
        """Return the mutations that can make anything of the turn come out otherwise; the others cannot."""
        name = self._name(catalogue)
        if name not in self._readers:
            self._readers[name] = _Reach(self.policy, catalogue, self._changes)
        reached = self._readers[name].find_reaching(turn)
        return [one for number, one in enumerate(self.mutations) if number in reached]

    def _find_bench(self, policy: Policy, catalogue: Catalogue) -> Prelude:
        key = (id(policy), self._name(catalogue))
        if key not in self._built:
            if len(self._built) >= _MOST:
                self._built.clear()
            self._built[key] = build_prelude(policy, catalogue, keeps_rows=False)
        return self._built[key]

    def _name(self, catalogue: Catalogue) -> str:
        """Return the hash of a catalogue, the one asked about last being the likeliest."""
        known = self._names.get(id(catalogue))
        if known is None or known[0] is not catalogue:
            if len(self._names) >= _MOST:
                self._names.clear()
            known = catalogue, strict_json.digest([strict_json.dump(spec) for spec in catalogue.values()])
            self._names[id(catalogue)] = known
        return known[1]


class _Changes:
    """What mutations change of a policy, each looked at where something rests on its key."""

    def __init__(self, policy: Policy, mutations: Sequence[Mutation]) -> None:
        self._policy, self._mutations = policy, mutations
        self._traits: dict[CallTraits, set[int]] = {}
        self._made: dict[int, PolicyChange] = {}
        self._by_path: defaultdict[Path, set[int]] = defaultdict(set)
        for number, one in enumerate(mutations):
            path = tuple(map(str, one.path))
            for size in range(len(path) + 1):
                self._by_path[path[:size]].add(number)

    def _get(self, number: int) -> PolicyChange:
        if number not in self._made:
            self._made[number] = PolicyChange(self._policy, self._mutations[number].policy)
        return self._made[number]

    @cached_property
    def of_all(self) -> set[int]:
        """The mutations that may reach any turn: of a gate that is applied and was not."""
        modes = (number for number, one in enumerate(self._mutations) if one.path[1:] == ("mode",))
        return {number for number in modes if self._get(number).reaches_all}

    def find_breaking(self, condition: Condition) -> set[int]:
        """Return the mutations under which a condition does not hold."""
        near = {number for path in list_condition_paths(condition) for number in self._list_about(path)}
        return {number for number in near if self._get(number).can_reach(condition)}

    def _list_about(self, path: Path) -> Iterator[int]:
        """Yield the mutations of a key, of what is in it, and of what holds it."""
        yield from self._by_path.get(path, ())
        for size in range(1, len(path)):
            held = self._by_path.get(path[:size], ())
            yield from (number for number in held if len(self._mutations[number].path) == size)

    def find_matching(self, call: CallTraits) -> set[int]:
        """Return the mutations that take out a rule which may match a call like this."""
        if call not in self._traits:
            rules = self._by_path.get(tuple(map(str, RULES)), ())
            self._traits[call] = {number for number in rules if self._get(number).can_match(call)}
        return self._traits[call]


class _Reach:
    """Which mutations can reach turns over one catalogue."""

    def __init__(self, policy: Policy, catalogue: Catalogue, changes: _Changes) -> None:
        self._reader, self._changes = ReachReader(policy, catalogue), changes
        self._breaking: dict[int, set[int]] = {}

    def find_reaching(self, turn: Turn) -> set[int]:
        """Return the numbers of the mutations that can reach a turn."""
        followed, _ = self._reader.follow(turn, find_fates)
        return self._changes.of_all.union(
            *map(self._find_breaking, self._list_resting(followed)), *map(self._changes.find_matching, followed.calls)
        )

    def _list_resting(self, followed: Followed) -> set[int]:
        return set().union(*self._reader.built, followed.looks, followed.facts, *followed.judged)

    def _find_breaking(self, number: int) -> set[int]:
        if number not in self._breaking:
            self._breaking[number] = self._changes.find_breaking(self._reader.conditions[number])
        return self._breaking[number]
