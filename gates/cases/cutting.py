"""From a recorded turn to the smallest case with the same verdict that notices the same changes of the policy."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from foregate.gates.cases.case import Case, Fate, judge_case
from foregate.gates.cases.document import dump_case, load_case, shorten_hashes
from foregate.gates.cases.mutations import Mutation, list_mutations
from foregate.gates.cases.shrink import shrink
from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Data
from foregate.schemas.errors import InvalidJson
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn

STEERING = ("commands", "files", "http", "sensitive", "tools")
"""Sections of the policy that steer what is looked at."""
_KEPT = (("case",),)


def cut_case(
    name: str,
    turn: Turn,
    call: str,
    policy: Policy,
    catalogue: Catalogue,
    mutations: Sequence[Mutation] | None = None,
) -> Case:
    """Return the smallest case found in which the call has the fate it has in the turn, under every mutation too.

    `mutations` are those of the policy, all of them unless some are given. Raises InvalidJson for a turn that no file
    can hold.
    """
    named = {one.name for one in turn.calls}
    catalogue = {tool: spec for tool, spec in catalogue.items() if tool in named}
    whole = Case(name, turn, catalogue, call, Fate("allow", "validity", ""))
    whole = replace(whole, expected=judge_case(whole, policy))
    data = dump_case(whole)
    if judge_case(load_case(data), policy) != whole.expected:
        raise InvalidJson("the turn comes out otherwise when it is read from a file")
    likeness = _Likeness(whole, policy, list_mutations(policy) if mutations is None else mutations)
    start = next((one for one in (shorten_hashes(data), data) if likeness.is_same(one)), data)
    small = shrink(start, likeness.is_nearly_same, _KEPT)
    if not likeness.is_same(small):
        small = shrink(start, likeness.is_same, _KEPT)
    return load_case(small)


class _Likeness:
    """Whether values make a case with the fate of a whole one, that notices the mutations it does and no others."""

    def __init__(self, whole: Case, policy: Policy, mutations: Sequence[Mutation]) -> None:
        self._expected, self._policy = whole.expected, policy
        self._noticed = find_noticed(whole, policy, mutations)
        known = {id(one) for one in self._noticed}
        self._others = [one for one in mutations if id(one) not in known]

    def is_nearly_same(self, data: Data) -> bool:
        """Whether the fate is the same, and each mutation that the whole case notices is noticed."""
        try:
            return self._has_fate(case := load_case(data)) and self._agrees(case, self._noticed, True)
        except Exception:  # what is left of a turn may fit together no more, in whatever way
            return False

    def is_same(self, data: Data) -> bool:
        """Whether no other mutation is noticed either, which takes longer to see."""
        return self.is_nearly_same(data) and self._agrees(load_case(data), self._others, False)

    def _has_fate(self, case: Case) -> bool:
        return case.expected == self._expected == judge_case(case, self._policy)

    def _agrees(self, case: Case, mutations: list[Mutation], noticed: bool) -> bool:
        """Whether all mutations are noticed, or none; the one that was not is asked first the next time."""
        for place, one in enumerate(mutations):
            if is_noticed(judge_mutated(case, self._policy, one), self._expected) != noticed:
                mutations.insert(0, mutations.pop(place))
                return False
        return True


def find_noticed(case: Case, policy: Policy, mutations: Sequence[Mutation]) -> list[Mutation]:
    """Return the mutations under which the call of a case has another fate than under the policy."""
    usual = judge_case(case, policy)
    return [one for one in mutations if is_noticed(judge_mutated(case, policy, one), usual)]


def judge_mutated(case: Case, policy: Policy, mutation: Mutation) -> Fate:
    """Return the fate of the call of a case, which was looked at under the policy, under a mutation of it."""
    return judge_case(case, mutation.policy, policy if mutation.path[0] in STEERING else None)


def is_noticed(fate: Fate, usual: Fate) -> bool:
    """Whether a fate is known and another than usual."""
    return not fate.unknown and fate != usual
