"""Work in the tier `limited` changes the workspace itself and nothing else, and all of it can be taken back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.workspace.local import LocalWorkspace
from foregate.agent.workspace.snapshot import compare, find_reason_to_ask, load_snapshot, take_snapshot
from foregate.agent.workspace.snapshot_restore import restore
from foregate.agent.workspace.snapshot_store import FileSnapshotStore
from foregate.policy.source.load import default_policy
from tests.agent.sandbox.attempts import CALLS, FILES, LIMITED, NETWORK, SECRETS
from tests.agent.sandbox.place import Place, list_users, open_place
from tests.agent.sandbox.trying import LISTENERS, PYTHON, Results, try_everything
from tests.agent.sandbox.users import run_as
from tests.agent.workspace.snapshot_trees import look

pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")
# What is in the workspace is there for work, secret files as well: there is no network to send them to.
MAY = {
    "see a masked file",
    "see a masked folder",
    "read a masked file",
    "read a key by its descriptor's path",
    "empty a file that is opened for reading",
    "empty a file that is opened for nothing",
    "bring a file out of a private folder",
    "hold a private link to a file",
    "write to who reads a named pipe",
    "pipe",
    "name a masked file anew",
    "exchange a masked file",
    "see a masked folder in one that was renamed",
    "find a descriptor from outside",  # those of the workspace that earlier attempts opened
}
EVERYDAY = """
echo changed >README.md; mkdir -p build/a; echo new >build/a/x; mv src source; rm data.json; ln -s README.md link
ln README.md hard; git add -A; git commit -qm Three; git stash list; git checkout -qb topic; echo x >$TMPDIR/x
python3 -c "import compileall; compileall.compile_dir('source', quiet=1)"; cp README.md copy; echo done
"""


@pytest.fixture(scope="module", params=list_users())
def worked(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place of its own for each user: its workspace changes."""
    with open_place(request.param, "limited") as opened:
        yield opened


@pytest.fixture(params=list_users())
def project(request: pytest.FixtureRequest) -> Iterator[Place]:
    """A place nobody has tried anything in."""
    with open_place(request.param, "limited") as opened:
        yield opened


def plan_work(place: Place) -> SandboxPlan:
    return {**place.make_plan(()), "writable": True}


@pytest.fixture(scope="module")
def results(worked: Place) -> Iterator[Results]:
    """What came of every attempt outside of the workspace."""
    before = look(worked.home)
    with try_everything(worked, plan_work(worked), LIMITED) as found:
        yield {**found, "home": "as it was" if look(worked.home) == before else "changed"}


@pytest.mark.parametrize("name", [*FILES, *SECRETS, *NETWORK, *LIMITED])
def test_what_a_command_tries_is_held(results: Results, name: str) -> None:
    assert name in MAY or results[name] != "DONE"


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_system_call_does_nothing_but_fail(results: Results, name: str) -> None:
    assert results[f"call {name}"] == ("ENOTTY" if name == "ioctl" else "EPERM")


@pytest.mark.parametrize("name", LISTENERS)
def test_nobody_who_listens_outside_is_reached(results: Results, name: str) -> None:
    assert name in MAY or results[name] == "alone"


def test_nothing_outside_has_changed(results: Results) -> None:
    assert results["home"] == "as it was"


def test_everyday_work_is_told_and_taken_back(project: Place) -> None:
    """The user who owns the workspace keeps it, compares it and puts it back; only starting it needs another."""
    policy = default_policy()

    def keep() -> str:
        with (
            closing(LocalWorkspace(project.workspace)) as workspace,
            FileSnapshotStore(project.store / "kept") as store,
        ):
            snapshot = take_snapshot(workspace, policy, store)
            assert find_reason_to_ask(snapshot) == ""
            return snapshot.id

    def take_back() -> tuple[set[str], list[str]]:
        with (
            closing(LocalWorkspace(project.workspace)) as workspace,
            FileSnapshotStore(project.store / "kept") as store,
        ):
            snapshot = load_snapshot(store, name)
            changed = {change.path for change in compare(workspace, policy, store, snapshot)}
            return changed, restore(workspace, policy, store, snapshot)

    before = look(project.workspace)
    name = run_as(project.user, keep)
    ran = project.run_inside("/bin/sh", "-c", EVERYDAY, **plan_work(project))
    assert ran.stdout + ran.stderr == "done\n"
    changed, left = run_as(project.user, take_back)
    assert {"README.md", "build/a/x", "src", "source/main.py", "data.json", "link", "hard", "copy"} <= changed
    assert {".git/refs/heads/topic", ".git/HEAD", ".git/index"} <= changed
    assert left == []
    assert look(project.workspace) == before
