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


@pytest.fixture(scope="session", params=list_users())
def limited(request: pytest.FixtureRequest) -> Iterator[Place]:
    """The same, with commands that no namespace holds."""
    with open_place(request.param, "limited") as opened:
        yield opened
