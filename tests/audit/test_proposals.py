"""Which labels let a call go."""

from __future__ import annotations

import pytest

from foregate.audit.proposals import is_right
from foregate.schemas.review import Label
from tests.telemetry.review.made import fold, label, ruled

SAID: tuple[tuple[tuple[Label, ...], bool], ...] = (
    ((), False),
    (("too strict",), True),
    (("too strict", "too strict"), True),
    (("too strict", "unclear"), False),
    (("right", "too strict"), False),
    (("too lax",), False),
)


@pytest.mark.parametrize(("words", "may_go"), SAID)
def test_a_call_may_be_let_go_where_everybody_who_labelled_it_found_it_too_strict(
    words: tuple[Label, ...], may_go: bool
) -> None:
    reviews = fold(*(label(1, word, by) for word, by in zip(words, ("ann", "bob"), strict=False)))
    assert is_right(reviews, ruled(1)) == may_go
