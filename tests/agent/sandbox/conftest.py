"""A place for each user, opened once: nothing inside a read sandbox can change it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.sandbox.place import Place, list_users, open_place


@pytest.fixture(scope="session", params=list_users())
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A workspace with a repository, owned by the user who runs in it."""
    with open_place(request.param) as opened:
        yield opened
