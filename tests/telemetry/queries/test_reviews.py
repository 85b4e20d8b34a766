"""Which label stands, who may see it, and what was found of what was hidden."""

from __future__ import annotations

from foregate.schemas.identity import Identity
from foregate.schemas.review import Canary, LabelWithdrawn, QueueDrawn, SessionSignedOff
from foregate.telemetry.queries.reviews import compute_kappa, count_by_gate, count_canaries, measure_agreement
from tests.telemetry.queries.made_reviews import HEAD, fold, label, ruled

BLIND = QueueDrawn(
    name="q",
    way="random",
    filter={},
    sessions=1,
    population=2,
    population_hash="",
    items=(ruled(1),),
    by=Identity("ann"),
    blind=True,
    canaries=(Canary(ruled(2), "too lax"),),
)


def test_a_later_label_of_a_reviewer_stands_and_both_stay_in_the_log() -> None:
    reviews = fold(label(1, "right"), label(1, "unclear", "bob"), label(1, "too lax"))
    assert [(one.body.by.user, one.body.label) for one in reviews.list_labels(ruled(1))] == [
        ("bob", "unclear"),
        ("ann", "too lax"),
    ]
    assert [one.body.label for one in reviews.given] == ["right", "unclear", "too lax"]


def test_a_label_that_is_taken_back_leaves_what_its_reviewer_said_before_and_stays_in_the_log() -> None:
    reviews = fold(label(1, "right"), label(1, "too lax"), LabelWithdrawn(label=2, by=Identity("ann")))
    assert [one.body.label for one in reviews.list_labels(ruled(1))] == ["right"]
    assert ([one.body.label for one in reviews.given], reviews.withdrawn) == (["right", "too lax"], {2})
    none = fold(label(1, "right"), LabelWithdrawn(label=1, by=Identity("ann")))
    assert (none.list_labels(ruled(1)), list(none.list_standing()), count_by_gate(none)) == ([], [], {})


def test_labels_are_counted_by_gate_of_the_sessions_that_are_named() -> None:
    reviews = fold(label(1, "right"), label(2, "too lax"))
    ((gate, counts),) = count_by_gate(reviews).items()
    assert (counts["right"], counts["too lax"]) == (1, 1)
    assert count_by_gate(reviews, {ruled(1).session})[gate] == counts
    assert count_by_gate(reviews, {"another"}) == {}


def test_nobody_takes_back_the_label_of_another_or_one_that_is_not_there() -> None:
    others = [LabelWithdrawn(label=1, by=Identity("bob")), LabelWithdrawn(label=9, by=Identity("ann"))]
    reviews = fold(label(1, "right"), *others)
    assert ([one.body.label for one in reviews.list_labels(ruled(1))], reviews.withdrawn) == (["right"], set())


def test_the_label_given_last_is_found_among_some_rulings() -> None:
    reviews = fold(label(1, "right"), label(2, "too lax"), label(3, "unclear"), label(1, "unclear", "bob"))
    found = reviews.find_last([ruled(1), ruled(2)], "ann")
    assert found is not None
    assert (found.seq, reviews.find_last([ruled(3)], "bob")) == (2, None)


def test_labels_are_counted_by_gate_each_reviewers_once() -> None:
    reviews = fold(label(1, "right"), label(1, "too lax"), label(1, "too lax", "bob"), label(2, "unclear"))
    assert count_by_gate(reviews) == {"evidence": {"right": 0, "too strict": 0, "too lax": 2, "unclear": 1}}


def test_of_a_blind_queue_nobody_sees_what_others_said_before_they_have_labelled_it() -> None:
    reviews = fold(BLIND, label(1, "right"), label(2, "right"), label(3, "right"))
    assert [reviews.list_visible(ruled(number), "bob") for number in (1, 2)] == [[], []]
    assert [one.body.label for one in reviews.list_visible(ruled(3), "bob")] == ["right"]
    assert reviews.list_visible(ruled(3), "bob", blind=True) == []
    seen = fold(BLIND, label(1, "right"), label(1, "unclear", "bob"))
    assert [one.body.by.user for one in seen.list_visible(ruled(1), "bob")] == ["ann"]


def test_the_rate_of_known_answers_is_counted_by_reviewer() -> None:
    reviews = fold(BLIND, label(2, "too lax"), label(2, "right", "bob"), label(1, "right"))
    assert count_canaries(reviews, [BLIND]) == [("ann", 1, 1), ("bob", 1, 0)]


def test_below_a_hundred_blind_double_labels_nothing_is_claimed() -> None:
    bodies = [
        one for number in range(99) for one in (label(number, "right"), label(number, "right", "bob", blind=True))
    ]
    found = measure_agreement(fold(*bodies))
    assert (found.double, found.same, found.kappa) == (99, 99, None)
    assert "below 100 nothing follows" in found.sentence


def test_kappa_is_that_of_the_textbook_and_comes_with_its_count() -> None:
    pairs = [("right", "right")] * 40 + [("right", "unclear")] * 10 + [("unclear", "right")] * 20
    pairs += [("unclear", "unclear")] * 30
    bodies = []
    for number, (first, second) in enumerate(pairs):
        bodies += [label(number, first), label(number, second, "bob", blind=True)]  # type: ignore[arg-type]
    found = measure_agreement(fold(*bodies))
    assert (found.double, found.same, found.kappa) == (100, 70, 400)
    assert found.sentence == "kappa 0.40 from 100 blind double labels, 70 of them alike"
    assert compute_kappa([("right", "right")] * 30) is None


def test_a_second_label_in_sight_of_the_first_does_not_count() -> None:
    found = measure_agreement(fold(label(1, "right"), label(1, "right", "bob")))
    assert (found.double, found.seen) == (0, 1)
    assert found.sentence.endswith("1 more were given in sight of the first and do not count")


def test_who_changes_a_label_in_sight_of_the_others_counts_with_what_they_said_first() -> None:
    ann, bob = label(1, "right"), label(1, "too lax", "bob", blind=True)
    found = measure_agreement(fold(ann, bob, label(1, "right", "bob")))
    assert (found.double, found.same, found.seen) == (1, 0, 0)
    assert measure_agreement(fold(ann, bob, label(1, "too lax"))).same == 0
    corrected = fold(ann, bob, LabelWithdrawn(label=2, by=Identity("bob")), label(1, "right", "bob", blind=True))
    assert measure_agreement(corrected).same == 1


def test_how_many_double_labels_are_enough_can_be_said() -> None:
    bodies = [label(1, "right"), label(1, "right", "bob", blind=True), label(2, "unclear")]
    reviews = fold(*bodies, label(2, "unclear", "bob", blind=True))
    assert (measure_agreement(reviews, 2).kappa, measure_agreement(reviews, 3).kappa) == (1000, None)
    assert "too few, below 3 nothing follows" in measure_agreement(reviews, 3).sentence


def test_a_sign_off_is_void_once_the_session_has_grown() -> None:
    signed = fold(SessionSignedOff(session="s", head=HEAD, by=Identity("ann"))).sign_offs["s"]
    assert (signed.is_void(HEAD), signed.is_void("10:" + "1" * 64)) == (False, True)
