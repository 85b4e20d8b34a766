"""What a person is shown of a call is what the call would do, found without touching anything."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from foregate.agent.loop.runner import run
from foregate.agent.loop.undo import Preview, preview_calls, preview_undo, read_undo_history
from foregate.agent.models.scripted import calls, says
from foregate.agent.session.session import Session
from foregate.agent.tools.files import write_file
from foregate.agent.tools.folders import delete_path
from foregate.agent.tools.replacing import render_template, search_replace
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from tests.conftest import OpenSession

READ = ("read_file", {"path": "a.txt"})


class Watcher:
    """A person who looks at the prospects, once after each thing that happens meanwhile, and says yes."""

    def __init__(self, *meanwhile: Any) -> None:
        self.session: Session | None = None
        self.meanwhile = meanwhile
        self.others: list[Mapping[str, Preview]] = []
        self.seen: list[Mapping[str, Preview]] = []
        self.requests: list[Mapping[str, Any]] = []

    async def answer(self, need: Need) -> Reply | None:
        """Look and say yes."""
        assert self.session is not None
        self.requests.append(need.request)
        meanwhile, self.meanwhile = self.meanwhile or (lambda: None,), ()
        for happen in meanwhile:
            happen()
            self.seen.append(preview_calls(self.session, need))
        self.others.append(preview_calls(self.session, replace(need, digests=("another digest",) * len(need.digests))))
        return Reply("yes")

    @property
    def only(self) -> Preview:
        """The prospect of the only call that asked."""
        ((prospect,),) = (found.values() for found in self.seen)
        return prospect


@pytest.fixture
def each(policy: Policy) -> Policy:
    """A policy that asks about every change."""
    return policy.model_copy(update={"approval": policy.approval.model_copy(update={"mode": "each"})})


async def watched(
    open_session: OpenSession,
    workspace: Workspace,
    policy: Policy,
    person: Watcher,
    call: tuple[str, dict[str, Any]],
    *before: Sequence[Any],
    request: str = "change a.txt",
) -> Session:
    """Return the session after a response that makes one call, watched by `person`."""
    tools = [make(workspace, policy) for make in (write_file, delete_path, search_replace, render_template)]
    script = [*(calls(*some) for some in before), calls(call, text=f"I will now do {request}."), says("Done.")]
    session = await open_session(*script, tools=tools, policy=policy, person=person)
    person.session = session
    await run(session, request)
    return session


EDITS = [
    {"old": "teh", "new": "the"},
    {"diff": "@@ -1,2 +1,2 @@\n-teh cat\n+the cat\n end\n"},
]


@pytest.mark.parametrize("edit", EDITS, ids=["passage", "diff"])
async def test_an_edit_is_foreseen_as_it_is_then_made(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy, edit: dict[str, Any]
) -> None:
    (folder / "a.txt").write_text("teh cat\nend\n")
    person = Watcher()
    await watched(open_session, workspace, each, person, ("edit_file", {"path": "a.txt", **edit}), [READ])
    (change,) = person.only.changes
    assert (change.path, change.before) == ("a.txt", b"teh cat\nend\n")
    assert change.after == (folder / "a.txt").read_bytes() == b"the cat\nend\n"
    assert [resource.id for resource in person.only.kept] == ["a.txt"]


async def test_what_a_file_would_not_keep_is_foreseen(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    (folder / "b.txt").hardlink_to(folder / "a.txt")
    person = Watcher()
    await watched(open_session, workspace, each, person, ("edit_file", {"path": "a.txt", **EDITS[0]}), [READ])
    assert person.only.unkept == {"a.txt": ("hard links",)}


async def test_replacing_in_several_files_is_foreseen_in_each_that_changes(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    for name, content in (("a.txt", "teh cat\n"), ("b.txt", "a teh\nteh\n"), ("c.txt", "none\n")):
        (folder / name).write_text(content)
    person = Watcher()
    paths = ["a.txt", "b.txt", "c.txt"]
    wanted = ("search_replace", {"paths": paths, "pattern": "te(h)", "replacement": "t$1e"})
    looks = [("read_file", {"path": path}) for path in paths]
    await watched(open_session, workspace, each, person, wanted, looks, request="change a.txt, b.txt and c.txt")
    assert [(one.path, one.after) for one in person.only.changes] == [
        ("a.txt", b"the cat\n"),
        ("b.txt", b"a the\nthe\n"),
    ]
    assert all((folder / one.path).read_bytes() == one.after for one in person.only.changes)


async def test_replacing_what_is_nowhere_is_a_problem_before_it_is_allowed(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("cat\n")
    person = Watcher()
    wanted = ("search_replace", {"paths": ["a.txt"], "pattern": "teh", "replacement": "the"})
    await watched(open_session, workspace, each, person, wanted, [READ])
    assert (person.only.changes, "matches nothing" in person.only.problem) == ((), True)


async def test_a_file_from_a_template_is_foreseen(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("Dear {{ name }},\n")
    person = Watcher()
    wanted = ("render_template", {"template": "a.txt", "path": "b.txt", "variables": {"name": "Ann"}})
    await watched(open_session, workspace, each, person, wanted, [READ], request="create b.txt from a.txt")
    (change,) = person.only.changes
    assert (change.path, change.before, change.after) == ("b.txt", None, b"Dear Ann,\n")


async def test_a_new_file_is_foreseen_through_the_link_that_leads_to_it(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    person = Watcher()
    wanted = ("write_file", {"path": "link/b.txt", "content": "b\n"})
    await watched(open_session, workspace, each, person, wanted, request="create link/b.txt")
    (change,) = person.only.changes
    assert (change.path, change.before, change.after) == ("real/b.txt", None, b"b\n")
    assert person.requests[0]["calls"][0]["target"] == "real/b.txt"


async def test_what_no_longer_is_as_it_was_judged_is_a_problem_and_not_shown(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy, tmp_path: Path
) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    (tmp_path / "secret").write_text("teh secret\n")

    def meanwhile() -> None:
        (folder / "a.txt").unlink()
        (folder / "a.txt").symlink_to(tmp_path / "secret")

    person = Watcher(meanwhile)
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    await watched(open_session, workspace, each, person, edit, [READ])
    assert person.seen[0]["c8.1"].changes == ()
    assert "outside" in person.seen[0]["c8.1"].problem
    assert (tmp_path / "secret").read_text() == "teh secret\n"


async def test_a_file_that_changed_or_became_a_pipe_is_not_read_on(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("teh cat\n")

    def write() -> None:
        (folder / "a.txt").unlink()
        (folder / "a.txt").write_text("teh dog\n")

    def pipe() -> None:
        (folder / "a.txt").unlink()
        os.mkfifo(folder / "a.txt")

    person = Watcher(write, pipe, write)
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    await watched(open_session, workspace, each, person, edit, [READ])
    changed, piped = (found["c8.1"] for found in person.seen[:2])
    assert "changed after this call was judged" in changed.problem
    assert (changed.changes, piped.changes) == ((), ())


async def test_an_edit_that_cannot_be_made_says_why(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("cat\n")
    person = Watcher()
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    await watched(open_session, workspace, each, person, edit, [READ])
    assert (person.only.changes, "does not occur" in person.only.problem) == ((), True)


async def test_a_file_larger_than_one_read_is_left_to_its_arguments(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    person = Watcher()

    def meanwhile() -> None:
        assert person.session is not None
        person.session.policy = each.model_copy(update={"files": each.files.model_copy(update={"max_read": 7})})

    person.meanwhile = (meanwhile,)
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    await watched(open_session, workspace, each, person, edit, [READ])
    assert (person.only.changes, person.only.problem) == ((), "")


async def test_a_deletion_says_what_is_kept_and_another_call_has_no_prospect(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("cat\n")
    person = Watcher()
    await watched(
        open_session, workspace, each, person, ("delete_path", {"path": "a.txt"}), [READ], request="delete a.txt"
    )
    assert person.only.changes == ()
    assert [resource.id for resource in person.only.kept] == ["a.txt"]
    assert person.others == [{}]


async def test_a_call_nobody_is_asked_about_any_more_has_no_prospect(
    open_session: OpenSession, workspace: Workspace, folder: Path, each: Policy
) -> None:
    (folder / "a.txt").write_text("cat\n")
    person, needs = Watcher(), []
    person.meanwhile = (lambda: needs.append(person.session.state.open.need.need),)  # type: ignore[union-attr]
    session = await watched(open_session, workspace, each, person, ("delete_path", {"path": "a.txt"}), [READ])
    assert preview_calls(session, needs[0]) == {}
    assert person.only.kept


async def test_taking_back_is_foreseen_from_the_before_image(
    open_session: OpenSession, workspace: Workspace, folder: Path, policy: Policy
) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    edit = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
    session = await watched(open_session, workspace, policy, Watcher(), edit, [READ])
    (change,) = read_undo_history(await session.log.read()).undoable_changes
    (back,) = preview_undo(session, change)
    assert (back.path, back.before, back.after) == ("a.txt", b"the cat\n", b"teh cat\n")
    (folder / "a.txt").unlink()
    assert [back.before for back in preview_undo(session, change)] == [None]


async def test_taking_back_a_new_file_is_foreseen_as_its_end(
    open_session: OpenSession, workspace: Workspace, policy: Policy
) -> None:
    write = ("write_file", {"path": "b.txt", "content": "b\n"})
    session = await watched(open_session, workspace, policy, Watcher(), write, request="create b.txt")
    (change,) = read_undo_history(await session.log.read()).undoable_changes
    assert [(back.before, back.after) for back in preview_undo(session, change)] == [(b"b\n", b"")]
