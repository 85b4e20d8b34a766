"""From a recorded decision to the smallest case with the same verdict that notices the same changes of the policy."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from foregate.evidence.state.recorded_turns import RecordedTurn
from foregate.policy.policy import Policy
from foregate.policy.source.load import restore_policy
from foregate.policy.source.strict_yaml import Data, Path, walk_values
from foregate.schemas.errors import InvalidJson, LogError, UsageError
from foregate.schemas.judgement import Judgement
from foregate.schemas.protocols import Readable
from foregate.schemas.review import RuledCall
from foregate.schemas.tool_spec import Catalogue, build_catalogue
from foregate.schemas.turn import Turn
from foregate.telemetry.queries.decisions import read_decisions
from foregate.tuning.case import Case, Fate, dump_case, judge_case, load_case, shorten_hashes
from foregate.tuning.explanation import choose_call, read_turn
from foregate.tuning.mutations import Mutation, MutationJudge, list_mutations
from foregate.tuning.pieces import UNREADABLE

Test = Callable[[Data], bool]
"""Whether values still do what they are kept for; it may be asked about any values."""
_SHORT = 12


def shrink(data: Data, does: Test, kept: Sequence[Path] = ()) -> Data:
    """Return the smallest values found for which `does` holds, as for `data`. What stands at `kept` paths stays.

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
    """Return a smallest part of `entries` for which `test` holds, as it does for all: none of it can be left out."""
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
    likeness = _Likeness(whole, MutationJudge(policy, list_mutations(policy) if mutations is None else mutations))
    start = next((one for one in (shorten_hashes(data), data) if likeness.is_same(one)), data)
    return load_case(shrink(start, likeness.is_same, _KEPT))


class _Likeness:
    """Whether values make a case with the fate of a whole one, that notices the mutations it does and no others."""

    def __init__(self, whole: Case, benches: MutationJudge) -> None:
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
        except Exception:
            # What is left of a turn may fit together no more, in whatever way.
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


def find_noticed(case: Case, benches: MutationJudge) -> list[Mutation]:
    """Return the mutations under which the call of a case has another fate than under the policy."""
    usual = benches.judge(case.turn, case.catalogue)[case.call]
    reaching = benches.list_reaching(case.turn, case.catalogue)
    return [one for one in reaching if is_noticed(benches.judge(case.turn, case.catalogue, one)[case.call], usual)]


def is_noticed(fate: Fate, usual: Fate) -> bool:
    """Whether a fate is known and another than usual."""
    return not fate.unknown and fate != usual


def cut_recorded(log: Readable, ruled: RuledCall, name: str = "") -> Case:
    """Return the smallest case with the verdict of a recorded ruling that notices the same changes of its policy.

    Raises UsageError where this version judges the turn otherwise than the log holds, LogError for a damaged log.
    """
    event = next(iter(log.events(ruled.session, after=ruled.seq - 1, until=ruled.seq)))
    (point,) = (one for one in read_decisions([event]) if one.gate == ruled.gate)
    try:
        recorded = read_turn(log, ruled.session, event)
        values, tools = recorded.in_force.require()
        policy, catalogue = restore_policy(values), build_catalogue(tools)
        call = choose_call(recorded, point, ruled.call)
        about = call.id if call is not None else ""
        found = cut_case(name or "recorded", recorded.turn, about, policy, catalogue)
    except InvalidJson as error:
        raise UsageError(f"`{ruled.address}` cannot be made a case ({error}); take another decision") from None
    except UNREADABLE as error:
        why = f"event {ruled.seq} of session `{ruled.session}` cannot be judged again ({type(error).__name__}: {error})"
        raise LogError(f"{why}; `foregate audit verify` tells what was changed") from None
    _require_same(recorded, about, found.expected, ruled)
    return found if name else Case(_name_case(found), found.turn, found.catalogue, found.call, found.expected)


def _require_same(recorded: RecordedTurn, call: str, fate: Fate, ruled: RuledCall) -> None:
    """Raise UsageError where a turn is judged otherwise now than it was."""
    if (was := find_recorded_verdict(recorded.judgement, call)) != (fate.verdict, fate.gate, fate.code):
        then = f"{was[0]} by {was[1]} ({was[2]}) when version {recorded.foregate or 'unknown'} judged it"
        raise UsageError(f"`{ruled.address}` was {then}, and is {fate.describe()} now; take a newer decision")


def find_recorded_verdict(judgement: Judgement, call: str) -> tuple[str, str, str]:
    """Return how a call stands in the log, by which gate and code; of an answer in words what the postlude said."""
    if not call:
        code = judgement.decisions[0].code
        return "hold" if code == "verification_pending" else "allow", "postlude", code
    verdict = judgement.find_verdict(call)
    return verdict.standing.value, verdict.gate, verdict.ruling.code


def _name_case(case: Case) -> str:
    """Return a name that says what a case is about."""
    calls = [call.name for call in case.turn.calls if call.id == case.call]
    return "-".join([case.expected.verdict, *calls, case.expected.code])[:120].replace("_", "-")
