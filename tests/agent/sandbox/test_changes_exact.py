"""The list of what a command changed in a work sandbox is the difference of two trees, whatever the command does."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest
from hypothesis import Phase, example, given, settings

from foregate.agent.sandbox.changes import list_changes
from foregate.agent.sandbox.removal import remove_tree
from foregate.schemas.sandbox import PathChange, PathState
from foregate.schemas.tool_spec import Effect
from tests.agent.sandbox.place import PATH, Place
from tests.agent.sandbox.trees import CLOSED, LOOK, RUNNER, STEPS, TREES, Seen, find_difference, make_tree
from tests.agent.sandbox.users import run_as

PYTHON = shutil.which("python3", path=PATH)
NUMBERS = count()
pytestmark = pytest.mark.skipif(PYTHON is None, reason="no system Python that a sandbox can show")


def run(place: Place, steps: Sequence[Sequence[Any]], **plan: Any) -> tuple[Seen, Seen]:
    """Return what is seen in a sandbox before the steps and after them."""
    assert PYTHON is not None
    ran = place.run_inside(PYTHON, "-c", RUNNER, json.dumps(steps), **plan)
    assert ran.returncode == 0, ran.stderr
    before, after = json.loads(ran.stdout)
    return before, after


def describe(state: PathState) -> object:
    return (state.kind, state.mode, state.size, "" if state.kind == "other" else state.hash)


@given(tree=TREES, steps=STEPS, closed=CLOSED)
@example(
    tree={"a/a": ("file", "one"), "a/b/a": ("file", "")},
    steps=[("rename", "a", "b"), ("rename", "b/b", "a")],
    closed=[],
)
@example(
    tree={"a/a/b": ("file", "one")}, steps=[("rename", "a/a", "b"), ("rename", "a", "b/a"), ("rmtree", "b")], closed=[]
)
@example(
    tree={"a/a": ("file", "one"), "a/b": ("link", "")}, steps=[("renew", "a"), ("write", "a/b", "two")], closed=["a"]
)
@example(tree={"a/a": ("folder", ""), "b": ("file", "")}, steps=[("rmtree", "a"), ("rename", "b", "a")], closed=["a"])
@settings(max_examples=12, phases=[Phase.explicit, Phase.generate])
def test_the_list_is_the_difference_of_the_trees(
    place: Place, tree: dict[str, tuple[str, str]], steps: Sequence[Sequence[Any]], closed: list[str]
) -> None:
    """The same steps run in a work sandbox, and in a plain copy that is shown writable itself."""
    assert PYTHON is not None
    name = f"{os.getpid()}-{next(NUMBERS)}"
    one, plain = (Place(place.store / f"{name}-{which}", place.store, place.user) for which in ("one", "plain"))
    for each in (one, plain):
        run_as(place.user, each.base.mkdir)
        make_tree(each.workspace, tree, place.user)
    script = [*steps, *(("close", path) for path in closed)]
    work = one.make_work_plan(f"{name}-upper", masks=())
    before, after = run(plain, script, **{**plain.make_plan(()), "writable": True})
    assert run(one, script, **work) == (before, after)
    listed = run_as(place.user, lambda: list_all(one, work["upper"]))
    told = {change.path: (describe(change.before), describe(change.after)) for change in listed}
    assert told == find_difference(before, after)
    assert json.loads(one.run_outside(PYTHON, "-c", LOOK).stdout) == before
    check_order(listed)
    for folder in (one.base, plain.base, work["upper"]):
        run_as(place.user, lambda folder=folder: remove_tree(str(folder)))
        assert not os.path.lexists(folder)


def list_all(place: Place, upper: str) -> list[PathChange]:
    return list_changes(upper, str(place.workspace), max_paths=1000, max_bytes=1 << 20)


def check_order(listed: Sequence[PathChange]) -> None:
    """Deletions come first, what is inside before what it is in; then all else the other way round."""
    deleted = [change.path for change in listed if change.effect is Effect.DELETE]
    others = [change.path for change in listed if change.effect is not Effect.DELETE]
    assert [change.path for change in listed] == deleted + others
    for paths in (deleted, others[::-1]):
        for number, path in enumerate(paths):
            assert not [later for later in paths[number:] if later.startswith(f"{path}/")]
