"""What is drawn, from what, and in which order it is shown."""

from __future__ import annotations

import hashlib

import pytest

from foregate.schemas.errors import UsageError
from foregate.schemas.identity import Identity
from foregate.schemas.review import Canary, QueueDrawn
from foregate.telemetry.queries.reviews import Reviews
from foregate.telemetry.queries.rulings import Filter, RulingRow
from foregate.telemetry.queries.samples import Draw, draw_queue, find_disagreements, is_same_draw, order_queue
from tests.telemetry.queries.made_reviews import fold, label, row, ruled

ROWS = [row(number) for number in range(1, 101)]
WANTED = Filter(codes=("stale_evidence",))


def draw(rows: list[RulingRow], **more: object) -> QueueDrawn:
    asked = Draw(**{"name": "q", "way": "random", "size": 10, "seed": 7, **more})  # type: ignore[arg-type]
    return draw_queue(asked, rows, WANTED, 3, Identity("ann"), Reviews())


def test_the_same_seed_draws_the_same_whatever_the_order_of_the_population() -> None:
    first, again = draw(ROWS), draw(ROWS[::-1])
    assert (first.items, first.population_hash) == (again.items, again.population_hash)
    assert draw(ROWS, seed=8).items != first.items


def test_a_queue_states_its_population_and_the_probability_of_each() -> None:
    queue = draw(ROWS)
    assert (queue.population, queue.sessions, len(queue.items), queue.probability) == (100, 3, 10, 100_000)
    assert (queue.seed, dict(queue.filter)) == (7, {"codes": ["stale_evidence"]})
    addresses = sorted(one.ruled.address for one in ROWS)
    assert queue.population_hash == hashlib.sha256("".join(f"{one}\n" for one in addresses).encode()).hexdigest()


def test_every_ruling_is_drawn_about_as_often_as_it_should_be() -> None:
    counts = dict.fromkeys((one.ruled.address for one in ROWS), 0)
    for seed in range(400):
        for one in draw(ROWS, seed=seed).items:
            counts[one.address] += 1
    assert sum(counts.values()) == 4000
    assert (min(counts.values()) > 15, max(counts.values()) < 70) == (
        True,
        True,
    )  # 40 each, 6 standard deviations are 36


def test_a_population_smaller_than_the_sample_is_drawn_whole() -> None:
    queue = draw(ROWS[:4])
    assert (len(queue.items), queue.probability) == (4, 1_000_000)


def test_nothing_is_drawn_from_nothing() -> None:
    with pytest.raises(UsageError, match="no decision fits"):
        draw([])


def test_the_riskiest_come_first_and_chance_has_no_part() -> None:
    rows = [row(1, risk=100), row(2, risk=900), row(3, risk=100, standing="deny")]
    queue = draw(rows, way="risk", size=2, seed=0)
    assert ([one.seq for one in queue.items], queue.probability) == ([2, 3], 0)


def test_canaries_are_no_part_of_the_sample_and_stand_among_it() -> None:
    canaries = (Canary(ruled(1), "too lax"), Canary(ruled(2), "right"))
    queue = draw(ROWS, canaries=canaries)
    assert (queue.population, {1, 2} & {one.seq for one in queue.items}) == (98, set())
    shown = [one.seq for one in order_queue(queue)]
    assert sorted(shown) == sorted([1, 2, *(one.seq for one in queue.items)])
    assert shown == [one.seq for one in order_queue(queue)]
    places = {order_queue(draw(ROWS, canaries=canaries, seed=seed)).index(ruled(1)) for seed in range(30)}
    assert len(places) > 5


def test_a_queue_is_known_as_the_draw_that_made_it() -> None:
    queue, asked = draw(ROWS), Draw("q", "random", 10, 7)
    assert is_same_draw(queue, asked, WANTED)
    assert not is_same_draw(queue, asked._replace(size=11), WANTED)
    assert not is_same_draw(queue, asked._replace(seed=8), WANTED)
    assert not is_same_draw(queue, asked, Filter())


def test_a_queue_is_known_again_once_it_was_written_and_read() -> None:
    queue = fold(draw(ROWS)).queues["q"]
    assert is_same_draw(queue, Draw("q", "random", 10, 7), WANTED)


def test_a_tool_may_be_a_pattern_and_a_time_is_one_of_an_event() -> None:
    rows = [row(1, tool="read_file"), row(2, time="2026-01-02T00:00:00.000000Z")]
    assert [one.ruled.seq for one in rows if Filter(tools=("read_*", "nothing")).is_wanted(one)] == [1]
    assert [one.ruled.seq for one in rows if Filter(since="2026-01-01T12:00:00.000000Z").is_wanted(one)] == [2]
    assert [one.ruled.seq for one in rows if Filter(until="2026-01-01T12:00:00.000000Z").is_wanted(one)] == [1]


def test_what_reviewers_label_differently_is_in_dispute() -> None:
    reviews = fold(label(1, "right"), label(1, "too lax", "bob"), label(2, "right"), label(2, "right", "bob"))
    assert [one.ruled.seq for one in find_disagreements(ROWS, reviews, None)] == [1]


def test_labels_that_another_policy_goes_against_are_in_dispute() -> None:
    reviews = fold(label(1, "too strict"), label(2, "too strict"), label(3, "right"), label(4, "right"))
    otherwise = {("s", 1, "c1.1"): "allow", ("s", 3, "c3.1"): "deny"}
    assert [one.ruled.seq for one in find_disagreements(ROWS, reviews, otherwise)] == [2, 3]
    assert [one.ruled.seq for one in find_disagreements(ROWS, reviews, {})] == [1, 2]
