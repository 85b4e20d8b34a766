"""A policy moved in one place at a time: each rule taken out, each switch thrown, each threshold moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct

from foregate.gates.prelude import Prelude, build_prelude
from foregate.gates.replay.assumption import LARGEST, find_domain, list_other_words
from foregate.gates.replay.reach import ReachReader
from foregate.gates.replay.redecide import survey_again
from foregate.policy.policy import Policy
from foregate.policy.source.layers import RULES
from foregate.policy.source.strict_yaml import Data, Path, format_path
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import WORDS, list_values, mark_moved, replace_values
from foregate.schemas import strict_json
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn
from foregate.tuning.case import Fate, find_fates
from foregate.tuning.change_set import ChangeSet

_LOOKING = "sensitive"
"""The section that steers nothing but looking: a case holds what was found."""


class Mutation(Struct, frozen=True):
    """One value of a policy moved; `value` None takes it out."""

    path: Path
    value: Data
    policy: Policy

    @property
    def key(self) -> str:
        """The dotted key that is moved."""
        return format_path(self.path)

    @property
    def says(self) -> str:
        """The move in words."""
        if self.value is None:
            return f"without the rule `{self.path[-1]}`"
        return f"`{self.key}: {str(self.value).lower() if isinstance(self.value, bool) else self.value}`"


def list_mutations(policy: Policy) -> tuple[Mutation, ...]:
    """Return the moves of a policy: of each rule, switch, choice and number that a ruling may hang on."""
    return tuple(_find_mutations(policy))


def _find_mutations(policy: Policy) -> Iterator[Mutation]:
    for path, now in list_values(policy).items():
        if path[0] == _LOOKING or path[:2] in WORDS or is_outside_judging(path):
            continue
        for value in [None] if path[: len(RULES)] == RULES else _list_moves(path, now):
            try:
                moved = replace_values(policy, {path: value})
            except ValueError:
                continue
            yield Mutation(path, value, mark_moved(moved, policy, path, value))


def _list_moves(path: Path, now: Data) -> list[Data]:
    """Return other values of a switch, a choice or a number: half, double, and none at all."""
    if isinstance(now, int) and not isinstance(now, bool):
        least, most = find_domain(path)
        moved = (max(least, now // 2), min(most, now * 2 if now else max(1, most // 2 if most < LARGEST else 1)), least)
        return [value for value in dict.fromkeys(moved) if value != now]
    return list_other_words(path, now)


STEERING = ("commands", "files", "http", "sensitive", "tools")
"""Sections of the policy that steer what is looked at."""
_MOST = 4096
"""Gates that are kept built."""
Fates = Mapping[str, Fate]


class MutationJudge:
    """The gates of a policy and of its mutations over catalogues, built once for each."""

    def __init__(self, policy: Policy, mutations: Sequence[Mutation]) -> None:
        self.policy, self.mutations = policy, mutations
        self._built: dict[tuple[int, str], Prelude] = {}
        self._readers: dict[str, ReachReader] = {}
        self._changes = ChangeSet(policy)
        for number, one in enumerate(mutations):
            self._changes.add(number, one.path, partial(getattr, one, "policy"))
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
            self._readers[name] = ReachReader(self.policy, catalogue)
        reader = self._readers[name]
        followed, _ = reader.follow(turn, find_fates)
        conditions = [reader.conditions[number] for number in followed.conditions | {*reader.built}]
        reached = self._changes.find_reaching(conditions, followed.calls)
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
