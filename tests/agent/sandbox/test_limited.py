"""What a command tries in the tier `limited` changes and reaches nothing outside, though no namespace holds it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.agent.sandbox.attempts import CALLS, FILES, LIMITED, NETWORK, SECRETS, WORKSPACE
from tests.agent.sandbox.place import Place, list_users, open_place
from tests.agent.sandbox.trying import LISTENERS, PYTHON, Results, try_everything

pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
# Landlock allows and never hides: the names beside what can be read can be listed.
SEEN = {"see a masked file", "see a masked folder"}


@pytest.fixture(scope="module", params=[0, 1], ids=["this-landlock", "oldest-landlock"])
def landlock(request: pytest.FixtureRequest) -> int:
    """The version of Landlock to go by, 0 for that of the kernel."""
    return int(request.param)


@pytest.fixture(scope="module", params=list_users())
def tried(request: pytest.FixtureRequest, landlock: int) -> Iterator[Place]:
    """A place whose commands are held without namespaces."""
    with open_place(request.param, "limited", landlock) as opened:
        yield opened


@pytest.fixture(scope="module")
def results(tried: Place) -> Iterator[Results]:
    """What came of every attempt."""
    with try_everything(tried, tried.plan, LIMITED) as found:
        yield found


def test_nothing_outside_has_changed(results: Results) -> None:
    assert results["anything outside"] == "as it was"


@pytest.mark.parametrize("name", LISTENERS)
def test_nobody_who_listens_outside_is_reached(results: Results, name: str) -> None:
    assert results[name] == "alone"


@pytest.mark.parametrize("name", [*WORKSPACE, *FILES, *SECRETS, *NETWORK, *LIMITED])
def test_what_a_command_tries_is_held(results: Results, name: str) -> None:
    assert name in SEEN or results[name] != "DONE"


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_system_call_does_nothing_but_fail(results: Results, name: str) -> None:
    assert results[f"call {name}"] == ("ENOTTY" if name == "ioctl" else "EPERM")
