"""What a call changed can be read again: at once, after a later change, and for a commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from foregate.agent.loop.changes_made import ChangesMade, FileVersions, read_changes_made
from foregate.agent.session.session import Session
from foregate.schemas.event_body import ToolFinished
from tests.agent.effects.conftest import Do
from tests.events import bodies

READ = ("read_file", {"path": "a.txt"})
EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})


@pytest.fixture
def repository(folder: Path) -> None:
    """Make the workspace a repository."""
    subprocess.run(["git", "init", "-q", "."], cwd=folder, check=True)


async def read_all(session: Session) -> list[ChangesMade]:
    """Return what each call of the session that changed something is said to have changed."""
    finished = bodies(await session.log.read(), ToolFinished)
    return [read_changes_made(session, body) for body in finished if body.changes]


async def test_both_versions_are_there_also_of_a_file_that_was_changed_again(folder: Path, do: Do) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    more = ("edit_file", {"path": "a.txt", "old": "cat", "new": "dog"})
    first, second = await read_all(await do(READ, EDIT, READ, more))
    assert first.files == (FileVersions("a.txt", b"teh cat\n", b"the cat\n"),)
    assert second.files == (FileVersions("a.txt", b"the cat\n", b"the dog\n"),)
    assert first.counts == {"create": 0, "edit": 1, "delete": 0}


async def test_a_file_that_somebody_else_changed_since_is_named_and_never_shown_as_the_calls_own(
    folder: Path, do: Do
) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    session = await do(READ, EDIT)
    (folder / "a.txt").write_text("something else\n")
    ((found,),) = [made.files for made in await read_all(session)]
    assert (found.before, found.after) == (None, None)
    assert "changed again since" in found.problem


async def test_what_is_no_text_or_larger_than_one_read_is_not_shown(folder: Path, do: Do) -> None:
    (folder / "a.txt").write_bytes(b"teh \x00 cat")
    (folder / "b.txt").write_text("teh " + "x" * 300_000)
    delete = [("delete_path", {"path": name}) for name in ("a.txt", "b.txt")]
    found = await read_all(await do(*delete))
    assert [made.files[0].problem for made in found] == ["not a text", "larger than one read"]


async def test_what_builds_leave_behind_is_counted_and_not_shown(folder: Path, do: Do) -> None:
    (made,) = await read_all(await do(("write_file", {"path": "dist/a.txt", "content": "x"})))
    assert made.files == ()
    assert made.counts["create"] >= 1


async def test_a_commit_comes_with_its_patch_also_when_there_is_a_later_one(
    repository: None, folder: Path, do: Do
) -> None:
    (folder / "a.txt").write_text("teh cat\n")
    (folder / "b.txt").write_text("dog\n")
    wanted = [
        call
        for name in ("a.txt", "b.txt")
        for call in (
            ("git_status", {}),
            ("git_add", {"paths": [name]}),
            ("git_status", {}),
            ("git_commit", {"message": f"Keep {name} [main 1234567] x"}),
        )
    ]
    found = [commit for made in await read_all(await do(*wanted)) for commit in made.commits]
    assert [commit.subject for commit in found] == ["Keep a.txt [main 1234567] x", "Keep b.txt [main 1234567] x"]
    assert ["+teh cat" in commit.patch for commit in found] == [True, False]
    assert "+dog" in found[1].patch
