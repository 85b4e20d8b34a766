"""Cohen's kappa as an outside library has it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.metrics.agreement import AnnotationTask

from foregate.schemas.review import LABELS, Label
from foregate.telemetry.queries.reviews import compute_kappa, measure_agreement
from tests.telemetry.queries.made_reviews import fold, label

PAIRS = st.lists(st.tuples(st.sampled_from(LABELS), st.sampled_from(LABELS)), min_size=1, max_size=150)


def ask_library(pairs: list[tuple[Label, Label]]) -> float:
    """Return what an outside library says how far two reviewers agree."""
    rows = [(who, str(item), pair[who == "bob"]) for item, pair in enumerate(pairs) for who in ("ann", "bob")]
    return float(AnnotationTask(rows).kappa())


@settings(max_examples=60)
@given(PAIRS)
def test_kappa_is_what_an_outside_library_says_of_the_same_labels(pairs: list[tuple[Label, Label]]) -> None:
    kappa = compute_kappa(pairs)
    if kappa is None:
        assert len({said for pair in pairs for said in pair}) == 1, "nothing divided by nothing, which it calls 1"
    else:
        assert kappa / 1000 == pytest.approx(ask_library(pairs), abs=0.000501)


@pytest.mark.parametrize(("count", "claimed"), [(99, False), (100, True)])
def test_agreement_is_claimed_from_a_hundred_double_labels_on_and_then_as_the_library_has_it(
    count: int, claimed: bool
) -> None:
    pairs = [(LABELS[number % 3], LABELS[number % 4]) for number in range(count)]
    bodies = [
        one
        for number, (first, second) in enumerate(pairs)
        for one in (label(number, first), label(number, second, "bob", blind=True))
    ]
    found = measure_agreement(fold(*bodies))
    assert (found.double, found.same) == (count, sum(first == second for first, second in pairs))
    assert (found.kappa is not None) == claimed
    if found.kappa is not None:
        assert found.sentence.startswith(f"kappa {ask_library(pairs):.2f} from 100 blind double labels")
