"""From a recorded turn to the smallest case with the same verdict that notices the same changes of the policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from foregate.policy.policy import Policy
from foregate.policy.source.strict_yaml import Data
from foregate.schemas.errors import InvalidJson
from foregate.schemas.tool_spec import Catalogue
from foregate.schemas.turn import Turn
from foregate.tuning.case import Case, Fate, judge_case
from foregate.tuning.case_document import dump_case, load_case, shorten_hashes
from foregate.tuning.mutation_judge import Benches
from foregate.tuning.mutations import Mutation, list_mutations
from foregate.tuning.shrink import shrink

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
    likeness = _Likeness(whole, Benches(policy, list_mutations(policy) if mutations is None else mutations))
    start = next((one for one in (shorten_hashes(data), data) if likeness.is_same(one)), data)
    return load_case(shrink(start, likeness.is_same, _KEPT))


class _Likeness:
    """Whether values make a case with the fate of a whole one, that notices the mutations it does and no others."""

    def __init__(self, whole: Case, benches: Benches) -> None:
        self._expected, self._benches = whole.expected, benches
        self._noticed = find_noticed(whole, benches)
        self._known = {id(one) for one in self._noticed}
        self._apart: list[int] = []

    def is_same(self, data: Data) -> bool:
        """Whether the fate is the same, and the same mutations are noticed."""
        try:
            case = load_case(data)
            if case.expected != self._expected or self._judge(case) != self._expected:
                return False
            reaching = {id(one): one for one in self._benches.list_reaching(case.turn, case.catalogue)}
            return self._known <= reaching.keys() and all(
                self._is_alike(case, reaching[one]) for one in self._order(reaching)
            )
        except Exception:  # what is left of a turn may fit together no more, in whatever way
            return False

    def _judge(self, case: Case, mutation: Mutation | None = None) -> Fate:
        return self._benches.judge(case.turn, case.catalogue, mutation)[case.call]

    def _order(self, reaching: Mapping[int, Mutation]) -> list[int]:
        """Return the mutations in the order they are asked: those first that told two cases apart last."""
        told = [one for one in reversed(self._apart) if one in reaching]
        return [*told, *sorted(reaching.keys() - set(told), key=lambda one: one not in self._known)]

    def _is_alike(self, case: Case, mutation: Mutation) -> bool:
        """Whether a mutation is noticed where it is to be; one that is not is asked first the next time."""
        own = id(mutation)
        if is_noticed(self._judge(case, mutation), self._expected) == (own in self._known):
            return True
        self._apart = [*(one for one in self._apart if one != own), own]
        return False


def find_noticed(case: Case, benches: Benches) -> list[Mutation]:
    """Return the mutations under which the call of a case has another fate than under the policy."""
    usual = benches.judge(case.turn, case.catalogue)[case.call]
    reaching = benches.list_reaching(case.turn, case.catalogue)
    return [one for one in reaching if is_noticed(benches.judge(case.turn, case.catalogue, one)[case.call], usual)]


def is_noticed(fate: Fate, usual: Fate) -> bool:
    """Whether a fate is known and another than usual."""
    return not fate.unknown and fate != usual
