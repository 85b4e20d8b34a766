"""Blocks of calls: made sound for the log, cut down to a stage, and asked which item is a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.schemas.model_response import Block

ANY = st.recursive(
    st.integers(0, 9),
    lambda inner: st.builds(Block, st.sampled_from(["parallel", "sequential"]), st.lists(inner, max_size=4).map(tuple)),
    max_leaves=12,
)
BLOCKS = ANY.filter(lambda item: isinstance(item, Block))


@given(BLOCKS, st.integers(0, 10))
def test_a_block_made_for_its_calls_names_each_at_most_once_and_no_other_and_can_be_read_back(
    block: Block, count: int
) -> None:
    made = block.fit_to(count)
    places = list(made.find_places())
    assert len(set(places)) == len(places)
    assert set(places) == {place for place in block.find_places() if place < count}
    assert Block.from_json(made.to_json()) == made
    assert made.fit_to(count) == made


def test_blocks_deeper_than_a_log_holds_run_in_turn() -> None:
    block = Block("parallel", (0, 1))
    for _ in range(40):
        block = Block("parallel", (block,))
    made = block.fit_to(2)
    assert Block.from_json(made.to_json()) == made
    while isinstance(made.items[0], Block):
        made = made.items[0]
    assert made == Block("sequential", (0, 1))


@given(BLOCKS.map(lambda block: block.fit_to(10)), st.sets(st.integers(0, 9)))
def test_what_is_left_of_a_block_holds_the_kept_calls_by_their_new_numbers_in_the_old_order(
    block: Block, kept: set[int]
) -> None:
    places = sorted(kept)
    left = block.restrict_to(places)
    named = [places[number] for number in left.find_places()] if left is not None else []
    assert named == [place for place in block.find_places() if place in kept]


NESTED = Block("sequential", (0, Block("parallel", (1, Block("sequential", (2, 3)))), 4))


@pytest.mark.parametrize(
    ("place", "number", "step"),
    [
        (3, 1, 2),  # the nearest sequence that has it
        (3, 2, None),  # itself, and the block it stands in, are no earlier item
        (4, 1, 0),
        (4, 2, NESTED.items[1]),
        (1, 1, 0),
        (2, 1, 0),  # its own sequence has nothing before it, the one around has
        (0, 1, None),
        (9, 1, None),
    ],
)
def test_a_step_is_an_earlier_item_of_the_nearest_sequence_that_has_one(
    place: int, number: int, step: int | Block | None
) -> None:
    assert NESTED.find_step(place, number) == step


def test_a_parallel_block_has_no_steps() -> None:
    assert Block("parallel", (0, 1)).find_step(1, 1) is None
