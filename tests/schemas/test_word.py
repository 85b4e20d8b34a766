"""Words of a fixed list."""

from __future__ import annotations

import pytest

from foregate.schemas.effect import Effect
from foregate.schemas.evidence_record import EvidenceKind, Origin, Trust
from foregate.schemas.resource import ResourceKind
from foregate.schemas.word import Word


@pytest.mark.parametrize("words", [Effect, EvidenceKind, Origin, ResourceKind, Trust])
def test_a_word_is_found_by_its_text_and_the_text_by_the_word(words: type[Word]) -> None:
    for word in words:
        assert {word: 1}[word.value] == {word.value: 1}[word] == 1
