"""Undo: what a call changed is put back, checked on both sides, from a log that was opened again."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.snapshots import Snapshots, build_steps
from foregate.agent.loop.undo import undo
from foregate.agent.tools.memory import Memory, remember
from foregate.agent.tools.python_tool import tool
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.workspace import MemoryWorkspace
from foregate.schemas import strict_json
from foregate.schemas.errors import ForegateError
from foregate.schemas.event_body import BeforeImage, Checkpoint, EffectUndone, ToolFinished
from foregate.schemas.tool_call import Change
from foregate.schemas.tool_spec import Resource, ResourceKind
from foregate.telemetry.log.memory_log import MemoryBlobs
from tests.agent.effects.changes import CHANGES, Call, furnish, snapshot
from tests.agent.effects.conftest import Do
from tests.events import bodies
from tests.full_disk import no_room_for
from tests.policies import EVERYTHING_OFF, policy_with


@pytest.fixture
def furnished(folder: Path) -> Path:
    return furnish(folder)


@pytest.mark.parametrize("name", CHANGES)
async def test_a_change_is_shown_first_then_taken_back_exactly(furnished: Path, do: Do, name: str) -> None:
    before = snapshot(furnished)
    session = await do(CHANGES[name])
    after = snapshot(furnished)
    assert after != before
    shown = await undo(session, preview=True)
    assert shown.done
    assert shown.steps
    assert snapshot(furnished) == after
    report = await undo(session)
    assert (report.done, report.steps, report.reason) == (True, shown.steps, "")
    assert snapshot(furnished) == before
    event = (await session.log.read())[-1]
    assert isinstance(event.body, EffectUndone)
    assert (event.body.call, event.body.resources) == (report.call, report.resources)
    assert "nothing that was changed" in (await undo(session)).reason
    assert "undone already" in (await undo(session, report.call)).reason


@pytest.mark.parametrize("name", CHANGES)
async def test_a_world_that_has_moved_on_is_left_as_it_is(furnished: Path, do: Do, name: str) -> None:
    session = await do(CHANGES[name])
    last = bodies(await session.log.read(), ToolFinished)[-1]
    path = furnished / next((change.resource.id for change in last.changes if change.after), last.target)
    if path.is_dir():
        (path / "somebody").write_text("else")
    else:
        path.unlink(missing_ok=True)
        path.write_text("somebody else")
    moved = snapshot(furnished)
    for preview in (True, False):
        report = await undo(session, preview=preview)
        assert not report.done
        assert "has changed since" in report.reason or "not empty" in report.reason or "is there again" in report.reason
    assert snapshot(furnished) == moved
    assert (await session.log.read())[-1].kind != "effect_undone"


async def test_changes_are_taken_back_newest_first_down_to_the_start(furnished: Path, do: Do) -> None:
    before = snapshot(furnished)
    session = await do(
        ("edit_file", {"path": "a.sh", "old": "one", "new": "two"}),
        ("move_path", {"source": "a.sh", "destination": "b.sh"}),
        ("edit_file", {"path": "b.sh", "old": "two", "new": "three"}),
        ("delete_path", {"path": "b.sh"}),
    )
    first = bodies(await session.log.read(), ToolFinished)[0].call
    assert "has changed since" in (await undo(session, first)).reason
    for _ in range(4):
        assert (await undo(session)).done
    assert snapshot(furnished) == before
    assert session.state.ledger.newest_records(Resource(ResourceKind.FILE, "a.sh"))


async def test_a_file_written_by_any_tool_that_names_it_can_be_taken_back(furnished: Path, do: Do) -> None:
    @tool(effect="edit", external=False, reversible=True, needs_approval=False, targets={"path": "file"})
    def shout(path: str) -> str:
        """Make a file loud."""
        target = furnished / path
        target.write_text(target.read_text().upper())
        return "done"

    session = await do(("shout", {"path": "a.sh"}), tools=[shout])
    assert (furnished / "a.sh").read_text() == "ONE\n"
    assert (await undo(session)).done
    assert (furnished / "a.sh").read_text() == "one\n"


async def test_looks_unknown_calls_and_commands_have_nothing_to_take_back(furnished: Path, do: Do) -> None:
    session = await do(("read_file", {"path": "a.sh"}), ("run_command", {"argv": ["ls"]}))
    first = bodies(await session.log.read(), ToolFinished)[0].call
    assert "changed nothing" in (await undo(session, first)).reason
    assert "no call `nope` in this session; what can be undone: nothing" in (await undo(session, "nope")).reason
    assert "nothing that was changed" in (await undo(session)).reason


async def test_an_unknown_call_lists_those_that_can_be_undone_and_only_those(furnished: Path, do: Do) -> None:
    session = await do(
        ("read_file", {"path": "a.sh"}),
        ("edit_file", {"path": "a.sh", "old": "one", "new": "two"}),
        ("write_file", {"path": "new.txt", "content": "x"}),
    )
    assert (await undo(session)).done
    reason = (await undo(session, "nope")).reason
    finished = bodies(await session.log.read(), ToolFinished)
    (edited,) = [body.call for body in finished if body.tool == "edit_file"]
    assert reason.endswith(f"what can be undone: {edited} (edit_file)")


async def test_a_memory_is_taken_back_too(folder: Path, do: Do, tmp_path: Path) -> None:
    memory = Memory(tmp_path / "memory.json", policy_with())
    call = ("remember", {"key": "drink", "text": "tea"})
    session = await do(call, ("remember", {"key": "drink", "text": "coffee"}), tools=[remember(memory, policy_with())])
    assert (await undo(session)).done
    assert memory.read_all() == {"drink": "tea"}
    assert (await undo(session)).done
    assert memory.read_all() == {}


@pytest.mark.parametrize("first_commit", [True, False])
async def test_staging_and_committing_are_taken_back_and_files_stay(folder: Path, do: Do, first_commit: bool) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout

    git("init", "-q", "-b", "main")
    (folder / "a").write_text("one")
    if not first_commit:
        git("add", "a")
        git("commit", "-q", "-m", "base")
    (folder / "a").write_text("two")
    before = git("status", "--porcelain")
    session = await do(("git_status", {}), ("git_add", {"paths": ["a"]}), ("git_commit", {"message": "m"}))
    assert git("log", "--format=%s").startswith("m\n")
    staged = await undo(session)
    assert staged.done, staged.reason
    assert git("diff", "--cached", "--name-only") == "a\n"
    assert "m" not in git("log", "--all", "--format=%s").split()
    assert (await undo(session)).done
    assert git("status", "--porcelain") == before
    assert (folder / "a").read_text() == "two"


async def test_a_commit_with_another_on_top_stays(folder: Path, do: Do) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)

    git("init", "-q")
    (folder / "a").write_text("one")
    session = await do(("git_add", {"paths": ["a"]}), ("git_commit", {"message": "m"}))
    git("commit", "-q", "--allow-empty", "-m", "on top")
    assert "the repository has changed since" in (await undo(session)).reason


async def test_taking_back_is_announced_first_and_finished_by_the_next_process_when_this_one_ends(
    furnished: Path, do: Do, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = snapshot(furnished)
    session = await do(("delete_path", {"path": "tree", "recursive": True}))
    record = session.record

    async def ended(*drafts: Any) -> Any:
        if drafts[0].kind == "effect_undone":
            raise KeyboardInterrupt
        return await record(*drafts)

    with monkeypatch.context() as patched:
        patched.setattr(session, "record", ended)
        with pytest.raises(KeyboardInterrupt):
            await undo(session)
    assert snapshot(furnished) == before
    assert session.state.seq == (await session.log.store.head(session.name)).seq
    assert (await undo(session, preview=True)).done
    assert "effect_undone" not in [event.kind for event in await session.log.read()]
    assert (await undo(session)).done
    kinds = [event.kind for event in await session.log.read()]
    assert (kinds.count("checkpoint"), kinds.count("effect_undone")) == (1, 1)
    assert snapshot(furnished) == before


SIZE = 1 << 16


@pytest.fixture
def levelled(folder: Path) -> Tool:
    """A tool that deletes a file and overwrites two; taking it back begins with the last one."""
    (folder / "first").write_text("1")
    (folder / "big").write_bytes(b"2" * SIZE)
    (folder / "d").mkdir()
    (folder / "d/last").write_text("3")
    names = {"one": "file", "two": "file", "three": "file"}

    @tool(effect="edit", external=False, reversible=True, needs_approval=False, targets=names)
    def level(one: str, two: str, three: str) -> str:
        """Delete a file and overwrite two."""
        (folder / one).unlink()
        for name in (two, three):
            (folder / name).write_text("x")
        return "done"

    return level


LEVEL: Call = ("level", {"one": "first", "two": "big", "three": "d/last"})


async def test_an_undo_that_breaks_off_says_what_is_back_and_what_is_not_and_the_next_goes_on(
    folder: Path, do: Do, levelled: Tool
) -> None:
    before = snapshot(folder)
    session = await do(LEVEL, tools=[levelled])
    with no_room_for(SIZE):
        report = await undo(session)
    assert (report.done, report.restored) == (False, ("restore `d/last`",))
    assert report.left == ("restore `big`", "restore `first`")
    assert [sentence.partition(":")[0] for sentence in report.sentences] == [
        "cannot write `big`",
        "this was done",
        "this was not",
    ]
    assert ((folder / "d/last").read_text(), (folder / "big").read_text()) == ("3", "x")
    events = await session.log.read()
    assert "effect_undone" not in [event.kind for event in events]
    assert isinstance(events[-1].body, Checkpoint)
    assert events[-1].body.restored == ("restore `d/last`",)
    for preview in (True, False):
        again = await undo(session, preview=preview)
        assert (again.done, again.steps) == (True, report.left)
    assert snapshot(folder) == before
    assert bodies(await session.log.read(), EffectUndone)[-1].resources == ("first", "big", "d/last")


async def test_the_rest_is_not_taken_back_where_somebody_has_changed_it_meanwhile(
    folder: Path, do: Do, levelled: Tool
) -> None:
    session = await do(LEVEL, tools=[levelled])
    with no_room_for(SIZE):
        assert not (await undo(session)).done
    (folder / "first").write_text("mine")
    moved = snapshot(folder)
    report = await undo(session)
    assert report.sentences == ("`first` has changed since; undo what came after it first, or change it by hand",)
    assert snapshot(folder) == moved


@pytest.mark.parametrize("lost", ["bytes", "folder", "place"])
async def test_nothing_is_touched_when_the_last_step_cannot_be_taken(
    folder: Path, do: Do, levelled: Tool, lost: str
) -> None:
    session = await do(("level", {"one": "d/last", "two": "first", "three": "big"}), tools=[levelled])
    if lost == "bytes":
        del session.blobs._bytes[strict_json.sha256(b"3")]  # type: ignore[attr-defined]
    elif lost == "folder":
        (folder / "d").rmdir()
        (folder / "d").write_text("a file")
    else:
        (folder / "d/last").write_text("mine")
    moved = snapshot(folder)
    for preview in (True, False):
        report = await undo(session, preview=preview)
        assert (report.done, report.left, len(report.sentences)) == (False, (), 1)
    assert snapshot(folder) == moved
    assert "checkpoint" not in [event.kind for event in await session.log.read()]


async def test_a_folder_that_came_back_in_part_is_called_so_and_completed(furnished: Path, do: Do) -> None:
    (furnished / "tree/zzz").write_bytes(b"z" * SIZE)
    (furnished / "tree/sub/link").symlink_to("f")
    before = snapshot(furnished)
    session = await do(("delete_path", {"path": "tree", "recursive": True}))
    with no_room_for(SIZE):
        report = await undo(session)
    assert (report.restored, report.left) == ((), ("bring the folder `tree` back (in part)",))
    assert report.sentences[1] == "this was done: nothing"
    assert (furnished / "tree/sub/f").exists()
    (furnished / "tree/mine").touch()
    assert "has changed since" in (await undo(session)).reason
    (furnished / "tree/mine").unlink()
    assert (await undo(session)).done
    assert snapshot(furnished) == before


async def test_a_folder_with_a_lost_file_is_not_brought_back_in_part(furnished: Path, do: Do) -> None:
    session = await do(("delete_path", {"path": "tree", "recursive": True}))
    del session.blobs._bytes[strict_json.sha256(b"\0\xff")]  # type: ignore[attr-defined]
    report = await undo(session)
    assert (report.done, report.left) == (False, ())
    assert not (furnished / "tree").exists()


def test_a_before_image_of_a_type_nobody_knows_is_refused_and_removes_nothing() -> None:
    space, blobs = MemoryWorkspace({"a.txt": b"new"}), MemoryBlobs()
    kept, resource = blobs.put(b"old"), Resource(ResourceKind.FILE, "a.txt")
    image = BeforeImage(kind=resource.kind, id=resource.id, image=kept, type="zip", mode=0o644)
    change = Change(resource, kept, strict_json.sha256(b"new"))
    (step,) = build_steps([change], [image], Snapshots(space, policy_with(EVERYTHING_OFF), blobs))
    with pytest.raises(ForegateError):
        step.take_back()
    assert space.files == {"a.txt": b"new"}
