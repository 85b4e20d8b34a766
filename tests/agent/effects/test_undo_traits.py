"""Undo brings back what a file has beside its content, or says beforehand and afterwards what it does not."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from foregate.agent.loop.snapshots import Snapshots, build_steps
from foregate.agent.loop.undo import undo
from foregate.agent.workspace import directory
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.event_body import BeforeImage, ToolFinished
from foregate.schemas.tool_call import Change
from foregate.schemas.tool_spec import Resource, ResourceKind
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.agent.effects.changes import Call, snapshot
from tests.agent.effects.conftest import Do
from tests.events import bodies
from tests.policies import EVERYTHING_OFF, policy_with

OLD = 1_000_000_000_123_456_789
"""A time of change long ago, in nanoseconds."""
ALL = 2**32 - 1
ENTRIES = ((1, 6, ALL), (2, 4, 1234), (4, 4, ALL), (16, 6, ALL), (32, 0, ALL))
ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in ENTRIES)
"""The access list `u::rw-,u:1234:r--,g::r--,m::rw-,o::---`."""


def give(path: Path, name: str, value: bytes) -> None:
    """Give a file an extended attribute, where there are any."""
    try:
        os.setxattr(path, name, value)
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM):
            pytest.skip(f"the file system takes no attribute {name} of us")
        raise


def read(path: Path) -> dict[str, bytes]:
    """Return the extended attributes of a file."""
    return {name: os.getxattr(path, name) for name in os.listxattr(path)}


@pytest.fixture
def rich(folder: Path) -> Path:
    """A workspace with a file, and one in a folder, that have more than content."""
    (folder / "sub").mkdir()
    for path in (folder / "a.txt", folder / "sub/c.md"):
        path.write_text("one")
        path.chmod(0o660)
        give(path, "user.origin", b"elsewhere")
        give(path, "system.posix_acl_access", ACL)
        os.utime(path, ns=(OLD, OLD))
    give(folder / "sub", "user.kind", b"drafts")
    os.utime(folder / "sub", ns=(OLD, OLD))
    return folder


CHANGES: list[Call] = [
    ("edit_file", {"path": "a.txt", "old": "one", "new": "two"}),
    ("write_file", {"path": "a.txt", "content": "two"}),
    ("search_replace", {"paths": ["a.txt"], "pattern": "one", "replacement": "two"}),
]


@pytest.mark.parametrize("call", CHANGES, ids=lambda call: call[0])
async def test_a_change_of_content_keeps_attributes_and_undo_brings_the_time_back_too(
    rich: Path, do: Do, call: Call
) -> None:
    before = read(rich / "a.txt")
    session = await do(call)
    assert (rich / "a.txt").read_text() == "two"
    assert read(rich / "a.txt") == before
    assert (rich / "a.txt").stat().st_mtime_ns != OLD
    assert (await undo(session)).done
    assert (read(rich / "a.txt"), (rich / "a.txt").stat().st_mtime_ns) == (before, OLD)


@pytest.mark.parametrize("path", ["a.txt", "sub"])
async def test_what_was_deleted_comes_back_with_its_attributes_and_times(rich: Path, do: Do, path: str) -> None:
    places = [rich / "sub", rich / "sub/c.md"] if path == "sub" else [rich / path]
    before = [(read(place), place.stat().st_mtime_ns) for place in places]
    session = await do(("delete_path", {"path": path, "recursive": True}))
    report = await undo(session)
    assert report.done, report.reason
    assert [(read(place), place.stat().st_mtime_ns) for place in places] == before


async def test_a_new_file_has_the_access_list_its_folder_gives_and_an_edit_gives_none(folder: Path, do: Do) -> None:
    (folder / "plain").write_text("one")
    give(folder, "system.posix_acl_default", ACL)
    await do(
        ("edit_file", {"path": "plain", "old": "one", "new": "two"}), ("write_file", {"path": "new", "content": "x"})
    )
    assert "system.posix_acl_access" not in read(folder / "plain")
    assert "system.posix_acl_access" in read(folder / "new")


@pytest.mark.parametrize("call", [*CHANGES, ("delete_path", {"path": "a.txt"})], ids=lambda call: call[0])
async def test_hard_links_part_and_both_the_result_and_undo_say_so(folder: Path, do: Do, call: Call) -> None:
    (folder / "a.txt").write_text("one")
    (folder / "b.txt").hardlink_to(folder / "a.txt")
    session = await do(call)
    (finished,) = bodies(await session.log.read(), ToolFinished)
    assert ("not kept: hard links" in finished.content) == (call[0] != "delete_path")
    assert (folder / "b.txt").read_text() == "one"
    shown = await undo(session, preview=True)
    report = await undo(session)
    assert (report.done, report.steps) == (True, ("restore `a.txt` without its hard links",)) == (True, shown.steps)
    assert (folder / "a.txt").read_text() == "one"


async def test_a_folder_whose_files_had_hard_links_comes_back_without_them_and_undo_says_so(rich: Path, do: Do) -> None:
    (rich / "sub/d.md").hardlink_to(rich / "sub/c.md")
    session = await do(("delete_path", {"path": "sub", "recursive": True}))
    report = await undo(session)
    assert (report.done, report.steps) == (True, ("bring the folder `sub` back without its hard links",))


async def test_an_attribute_that_did_not_come_back_is_no_success(
    rich: Path, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await do(("delete_path", {"path": "sub", "recursive": True}))

    def refuse(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(os, "setxattr", refuse)
    report = await undo(session)
    assert (report.done, report.reason) == (False, "`sub` could not be brought back as it was; look at it")


INSIDE: dict[str, Call] = {
    "edit": ("edit_file", {"path": "renamed/c.md", "old": "one", "new": "three"}),
    "same size": ("edit_file", {"path": "renamed/c.md", "old": "one", "new": "two"}),
    "replace": ("write_file", {"path": "renamed/c.md", "content": "x"}),
    "create": ("write_file", {"path": "renamed/deep/n.md", "content": "x"}),
    "delete": ("delete_path", {"path": "renamed/c.md"}),
    "delete a link": ("delete_path", {"path": "renamed/link"}),
    "delete a folder": ("delete_path", {"path": "renamed/inner", "recursive": True}),
    "move": ("move_path", {"source": "renamed/c.md", "destination": "renamed/d.md"}),
}


@pytest.mark.parametrize("name", INSIDE)
async def test_a_folder_that_was_moved_and_changed_goes_all_the_way_back(folder: Path, do: Do, name: str) -> None:
    (folder / "sub/inner").mkdir(parents=True)
    (folder / "sub/c.md").write_text("one")
    (folder / "sub/inner/f").write_text("f")
    (folder / "sub/link").symlink_to("c.md")
    before = snapshot(folder)
    session = await do(("move_path", {"source": "sub", "destination": "renamed"}), INSIDE[name])
    for _ in range(2):
        report = await undo(session)
        assert report.done, report.reason
    assert snapshot(folder) == before


def test_a_folder_is_not_moved_into_itself_and_nothing_is_left_of_trying(folder: Path, workspace: Workspace) -> None:
    (folder / "sub").mkdir()
    with pytest.raises(WorkspaceError, match="cannot be moved into itself; name a place outside it"):
        workspace.move("sub", "sub/deep/e/f")
    assert [path.name for path in folder.rglob("*")] == ["sub"]


def test_folders_made_for_what_then_fails_are_gone_again(folder: Path, workspace: Workspace) -> None:
    for act in (
        lambda: workspace.write(f"new/deep/{'n' * 300}", b"x"),
        lambda: workspace.move("nothing", "new/deep/there"),
        lambda: workspace.make_link(f"new/deep/{'n' * 300}", b"x"),
    ):
        with pytest.raises(WorkspaceError):
            act()
        assert list(folder.iterdir()) == []


def test_images_of_earlier_versions_say_less_and_are_restored_all_the_same(folder: Path, workspace: Workspace) -> None:
    blobs, policy = MemoryBlobs(), policy_with(EVERYTHING_OFF)
    (folder / "a").write_text("new")
    (folder / "a").chmod(0o600)
    old = blobs.put(b"old")
    entries = [
        {"path": "f", "kind": "file", "mode": 0o640, "hash": old},
        {"path": "in", "kind": "directory", "mode": 0o700},
    ]
    tree = blobs.put(strict_json.canonical({"entries": entries, "mode": 0o755}))
    made = [
        (Resource(ResourceKind.FILE, "a"), old, strict_json.sha256(b"new"), "file", 0o644),
        (Resource(ResourceKind.DIRECTORY, "d"), tree, "", "directory", 0o755),
    ]
    for resource, image, after, type_, mode in made:
        kept = BeforeImage(kind=resource.kind, id=resource.id, image=image, type=type_, mode=mode)
        (step,) = build_steps([Change(resource, image, after)], [kept], Snapshots(workspace, policy, blobs))
        step.check(False)
        step.take_back()
        step.verify()
    assert ((folder / "a").read_text(), (folder / "d/f").read_text()) == ("old", "old")
    assert directory.list_hashes(blobs.get(tree)) == [old]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file what its owner may not set")
def test_what_the_owner_may_not_set_is_named_before_it_is_lost(folder: Path, workspace: Workspace) -> None:
    folder.chmod(0o777)
    path = folder / "tool"
    path.write_text("x")
    give(path, "user.origin", b"here")
    give(path, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    os.chown(path, 65534, 65534)
    give(path, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    others = folder / "others"
    others.write_text("x")
    others.chmod(0o666)
    assert workspace.list_unkept("tool") == workspace.list_unkept("others") == ()
    os.setegid(65534)
    os.seteuid(65534)
    try:
        assert workspace.list_unkept("tool") == ("security.capability",)
        assert workspace.list_unkept("others") == ("owner",)
        assert workspace.write("tool", b"y") == ("security.capability",)
    finally:
        os.seteuid(0)
        os.setegid(0)
    assert read(path) == {"user.origin": b"here"}
    assert sorted(one.name for one in folder.iterdir()) == ["others", "tool"]
