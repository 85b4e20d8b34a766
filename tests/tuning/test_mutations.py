"""A policy moved in one place at a time."""

from __future__ import annotations

from foregate.policy.source.load import default_policy
from foregate.policy.source.users import is_outside_judging
from foregate.policy.source.values import compare_policies
from foregate.tuning.mutations import list_mutations

MUTATIONS = list_mutations(default_policy())


def test_each_mutation_moves_its_own_value_and_nothing_else() -> None:
    for one in MUTATIONS[::7]:
        changed = compare_policies(default_policy(), one.policy)
        assert list(changed) == [one.path]
        assert changed[one.path][1] == one.value


def test_every_rule_every_mode_and_every_weight_is_moved() -> None:
    moved = {one.path for one in MUTATIONS}
    policy = default_policy()
    assert {("rules", "list", rule.id) for rule in policy.rules.list} <= moved
    for gate in ("rules", "narration", "drift", "uncertainty", "evidence", "plan", "critique"):
        assert {one.value for one in MUTATIONS if one.path == (gate, "mode")} == {"shadow", "off"}
    assert {one.value for one in MUTATIONS if one.key == "uncertainty.threshold"} == {275, 1000, 0}


def test_what_no_ruling_reads_is_not_moved() -> None:
    assert not [one.key for one in MUTATIONS if is_outside_judging(one.path) or one.path[0] in ("mcp", "sensitive")]


def test_what_a_word_counts_as_is_no_threshold_to_be_moved() -> None:
    assert all(one.path[:2] not in (("mandate", "numbers"), ("mandate", "months")) for one in MUTATIONS)
