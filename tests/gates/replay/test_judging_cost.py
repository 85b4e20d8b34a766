"""What judging a recorded turn again takes is bounded by counts, whatever the policy, and is shared by policies."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import pytest

from foregate.evidence.state.recorded_turns import RecordedTurn
from foregate.gates.prelude import build_prelude
from foregate.gates.replay.reach import ReachReader, list_condition_paths
from foregate.gates.replay.redecide import PolicyComparison
from foregate.gates.support.schema_check import SchemaCheck, has_references
from foregate.gates.validity import ValidityGate
from foregate.policy.followed import PolicyReading
from foregate.policy.policy import Policy
from foregate.policy.source.load import default_policy, restore_policy
from foregate.policy.source.strict_yaml import Data, Path
from foregate.policy.source.values import replace_values
from foregate.schemas.tool_spec import Catalogue, build_catalogue
from foregate.tuning.piece_judge import KeyChange, Revision
from foregate.tuning.pieces import read_turns, split_session
from tests.counts.counting import Count, counted
from tests.varied import varied_log

MOST_CALLS = 750
"""Python calls for a turn, in the mean: about half a millisecond."""
CHANGES: dict[str, tuple[Path, Data]] = {
    "a threshold": (("uncertainty", "threshold"), 300),
    "a weight": (("scores", "risk", "broad"), 900),
    "a gate in shadow": (("evidence", "mode"), "shadow"),
    "a rule": (("rules", "list", "no-removals"), {"id": "no-removals", "then": "deny", "command": ["rm"]}),
    "what only reads": (("commands", "read_only", "tree"), {"options": ["-a"]}),
    "what is secret": (("files", "secret"), ["**/.netrc"]),
    "a size": (("files", "max_hash"), 4096),
    "no mandate": (("mandate", "mode"), "off"),
}


@cache
def recorded_turns() -> list[RecordedTurn]:
    log, names = varied_log()
    pieces = (piece for name in names for piece in split_session(log, name))
    return [turn for piece in pieces for turn in read_turns(log, piece)]


def read_frame(turn: RecordedTurn) -> tuple[Policy, Catalogue]:
    values, catalogue = turn.in_force.require()
    return restore_policy(values), build_catalogue(catalogue)


def list_comparisons(key: Path, value: Data) -> Iterator[tuple[PolicyComparison, RecordedTurn]]:
    """Yield each turn with what its policy and a changed one are, the gates built already."""
    revision, known = Revision(KeyChange({key: value})), dict[tuple[str, str], PolicyComparison]()
    for turn in recorded_turns():
        frame = turn.in_force.policy_hash, turn.turn.catalogue_hash
        if frame not in known:
            policy, catalogue = read_frame(turn)
            known[frame] = PolicyComparison(policy, revision.revise(policy, {}), catalogue)
            assert known[frame].prelude.gates
        yield known[frame], turn


@pytest.mark.parametrize("change", CHANGES)
def test_judging_a_turn_again_makes_few_calls_whatever_changes(change: str) -> None:
    work, count = list(list_comparisons(*CHANGES[change])), Count()
    with counted(count):
        for comparison, turn in work:
            comparison.redecide(turn.turn, turn.judgement)
    dearest = "\n".join(f"{calls / len(work):6.1f}  {name}" for name, calls in count.functions.most_common(20))
    assert count.calls <= MOST_CALLS * len(work), f"{count.calls / len(work):.0f} calls a turn:\n{dearest}"


def test_policies_over_the_same_tools_share_their_validators_and_what_those_found() -> None:
    turn = next(turn for turn in recorded_turns() if turn.turn.calls)
    _, catalogue = read_frame(turn)
    moved = replace_values(default_policy(), {("uncertainty", "threshold"): 300})
    one, other = (build_prelude(policy, dict(catalogue)).gates[0] for policy in (default_policy(), moved))
    assert isinstance(one, ValidityGate)
    assert isinstance(other, ValidityGate)
    assert all(one.find_check(name) is other.find_check(name) for name in catalogue)
    open_ = replace_values(default_policy(), {("validity", "max_references"): 3})
    apart = build_prelude(open_, catalogue).gates[0]
    assert isinstance(apart, ValidityGate)
    refers = {name for name in catalogue if has_references(one.write_schema(name))}
    assert (
        {name for name in catalogue if one.find_check(name) is not apart.find_check(name)} == refers != set(catalogue)
    )
    call, check = turn.turn.calls[0], one.find_check(turn.turn.calls[0].name)
    check.find_first_defect(call.arguments or {})
    again = Count()
    with counted(again):
        check.find_first_defect(dict(call.arguments or {}))
    assert again.calls <= 3, again.functions


@pytest.mark.parametrize(("first", "then"), [(1, 1.0), (1, True), ([], ()), (None, math.nan)])
def test_arguments_that_only_look_alike_are_checked_each_for_itself(first: object, then: object) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": [["x"]]}}}

    check = SchemaCheck(schema, closed=False)
    assert check.find_first_defect({"a": first}) != check.find_first_defect({"a": then})  # type: ignore[dict-item]


def test_what_is_remembered_of_texts_and_commands_rests_on_the_words_that_tell_policies_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, remember = set[Path](), PolicyReading.remember

    def note(self: PolicyReading, read: object, said: object, policy: Policy) -> object:
        result = remember(self, read, said, policy)  # type: ignore[arg-type]
        rests_on = self._known[read, said][1] if (read, said) in self._known else ()
        found.update(path for one in rests_on for path in list_condition_paths(self.conditions[one]))
        return result

    monkeypatch.setattr(PolicyReading, "remember", note)
    readers: dict[str, ReachReader] = {}
    for turn in recorded_turns():
        if turn.in_force.policy_hash not in readers:
            readers[turn.in_force.policy_hash] = ReachReader(*read_frame(turn))
        readers[turn.in_force.policy_hash].read(turn.turn, turn.judgement)
    words = {path for path in found if path[:2] not in (("scores", "risk"), ("scores", "uncertainty"))}
    assert found == words
    assert {path[0] for path in found} == {"mandate", "contract", "commands", "scores"}
