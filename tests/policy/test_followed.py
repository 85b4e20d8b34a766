"""Following what is read of a policy: what was noted holds, and as long as it does nothing comes out otherwise."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from foregate.policy.followed import PolicyReading, is_kept
from tests.policies import policy_with


def read_by(read: Any) -> tuple[Any, set[Any]]:
    """Return what a function finds in the default policy, and what it noted."""
    reading = PolicyReading(policy_with())
    return read(reading.policy), reading.list_noted()


@given(st.integers(0, 1000), st.integers(0, 1000))
def test_a_comparison_holds_as_long_as_it_comes_out_the_same(bound: int, value: int) -> None:
    found, noted = read_by(lambda policy: bound >= policy.uncertainty.threshold)
    (condition,) = noted
    other = policy_with({"uncertainty.threshold": value})
    assert is_kept(condition, policy_with(), other) is ((bound >= value) is found)


@given(st.integers(0, 1000), st.integers(0, 1000), st.integers(0, 1000))
def test_a_calculated_score_holds_as_long_as_its_comparison_does(external: int, broad: int, bound: int) -> None:
    def measure(policy: Any) -> Any:
        weights = policy.scores.risk
        return 1000 - (1000 - weights.external) * (1000 - weights.broad) // 1000 >= bound

    found, noted = read_by(measure)
    other = policy_with({"scores.risk.external": external, "scores.risk.broad": broad})
    assert all(is_kept(one, policy_with(), other) for one in noted) is (measure(other) is found)


def test_a_word_that_is_compared_may_be_another_that_compares_the_same() -> None:
    found, noted = read_by(lambda policy: policy.approval.mode == "each")
    assert found is False
    (condition,) = noted
    assert is_kept(condition, policy_with(), policy_with({"approval.mode": "never"}))
    assert not is_kept(condition, policy_with(), policy_with({"approval.mode": "each"}))


def test_what_is_written_down_or_looked_up_counts_as_read_whole() -> None:
    for read in (
        lambda policy: str(policy.approval.mode),
        lambda policy: {"scope": 1}[policy.approval.mode],
        lambda policy: f"{policy.approval.mode}",
    ):
        _, noted = read_by(read)
        assert ("is", ("approval", "mode")) in noted


def test_an_entry_that_is_not_there_is_noted_too() -> None:
    found, noted = read_by(lambda policy: policy.tools.get("send"))
    assert found is None
    (condition,) = noted
    assert is_kept(condition, policy_with(), policy_with({"tools": {"other": {"effect": "edit"}}}))
    assert not is_kept(condition, policy_with(), policy_with({"tools": {"send": {"effect": "edit"}}}))


def test_all_of_a_table_is_read_where_it_is_gone_through() -> None:
    _, noted = read_by(lambda policy: list(policy.mandate.effects.values()))
    assert ("is", ("mandate", "effects")) in noted


def test_what_is_remembered_rests_on_the_same_the_second_time() -> None:
    reading = PolicyReading(policy_with())

    def read(said: str, policy: Any) -> bool:
        return bool(said in policy.scores.vague_words)

    reading.remember(read, "it", reading.policy)
    first = reading.list_noted()
    reading.begin()
    reading.remember(read, "it", reading.policy)
    assert reading.list_noted() == first == {("is", ("scores", "vague_words"))}
