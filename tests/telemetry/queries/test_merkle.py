"""Hash trees: one root for a list, and a path for each of its values that nothing else has."""

from __future__ import annotations

from hashlib import sha256

import pytest

from foregate.telemetry.queries.checkpoints import EMPTY, find_path, find_root, hash_leaf
from foregate.tuning.verify_proof import climb


def find_root_by_definition(values: list[bytes]) -> bytes:
    """Return the root as RFC 9162, section 2.1.1, defines it."""
    if len(values) < 2:
        return sha256(b"\0" + values[0]).digest() if values else sha256(b"").digest()
    half = 1
    while half * 2 < len(values):
        half *= 2
    return sha256(b"\1" + find_root_by_definition(values[:half]) + find_root_by_definition(values[half:])).digest()


@pytest.mark.parametrize("count", range(34))
def test_the_root_is_that_of_the_standard_and_every_path_leads_to_it_alone(count: int) -> None:
    values = [str(number).encode() for number in range(count)]
    leaves = [hash_leaf(value) for value in values]
    root = find_root(leaves)
    assert root == find_root_by_definition(values)
    for index, value in enumerate(values):
        path = [one.hex() for one in find_path(leaves, index)]
        assert climb(value, index, count, path) == root.hex()
        assert climb(b"another", index, count, path) != root.hex()


def test_there_is_no_path_of_a_leaf_that_is_not_there() -> None:
    assert find_root([]) == EMPTY
    for index in (-1, 2):
        with pytest.raises(IndexError):
            find_path([b"a", b"b"], index)
