"""A place for each user, opened once: nothing inside a read sandbox can change it. Loopback stands for the hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.sandbox.network_world import World, open_world
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


@pytest.fixture
def world(place: Place) -> Iterator[World]:
    """The hosts `given.example` and `other.example`; whom they trust lies in the workspace as `ca.pem`."""
    with open_world() as opened:
        (place.workspace / "ca.pem").write_bytes(opened.authority)
        yield opened
        Path(place.workspace, "ca.pem").unlink()
