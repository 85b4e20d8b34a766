"""A process that ends in a call: the next one finds out what came of it, and that counts as if the call had ended."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest

from foregate.agent.loop.reconcile import list_open_calls, resolve_outcomes, resume
from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.loop.undo import undo
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls, says
from foregate.agent.session.session import Session
from foregate.agent.session.session_log import fold_session
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox, WrappedToolSource
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.event_body import OutcomeResolved, OutcomeUnknown, ToolFinished, ToolStarted
from foregate.schemas.protocols import RunContext, ToolSource
from foregate.schemas.tool_call import ToolCall, ToolResult
from foregate.telemetry.log.memory_log import MemoryBlobs, MemoryLog
from foregate.telemetry.queries.verify import verify_rows
from tests.agent.effects.changes import CHANGES, Call, furnish, snapshot
from tests.events import B, bodies
from tests.policies import EVERYTHING_OFF, policy_with

When = Literal["before", "after"]
Meddle = Callable[[Path, Callable[..., str]], object]


class Died(BaseException):
    """The process ended."""


class Dying(WrappedToolSource):
    """The tools of a process that ends in one of them, before or after its effect; `result` is what nobody got."""

    def __init__(self, inner: ToolSource, tool: str, when: When) -> None:
        super().__init__(inner)
        self.tool, self.when, self.result = tool, when, ToolResult(False, "")

    async def run(self, call: ToolCall, context: RunContext) -> ToolResult:
        if call.name != self.tool:
            return await super().run(call, context)
        if self.when == "after":
            self.result = await super().run(call, context)
        raise Died


@dataclasses.dataclass
class Place:
    """A workspace on disk with a session of built-in tools; no gate stops anything, so that every call runs."""

    workspace: Workspace
    memory: Path
    log: MemoryLog = dataclasses.field(default_factory=MemoryLog)
    blobs: MemoryBlobs = dataclasses.field(default_factory=MemoryBlobs)

    async def open(self, *steps: Any, going_on: bool = True) -> Session:
        """Return the session, new or going on with its log."""
        policy = policy_with(EVERYTHING_OFF)
        session = Session(
            log=self.log,
            lease=await self.log.claim("s", create=not going_on),
            state=await fold_session(self.log, "s") if going_on else None,
            blobs=self.blobs,
            model=ScriptedModel(steps),
            tools=Toolbox(builtin_tools(self.workspace, policy, memory=self.memory)),
            policy=policy,
            workspace=self.workspace,
            person=ScriptedPerson(["yes"]),
        )
        await (resume(session) if going_on else session.start())
        return session

    async def die_in(self, call: Call, when: When, *earlier: Call) -> ToolResult:
        """Run the session until its process ends in a call; return what the call came to, unheard."""
        session = await self.open(*(calls(one) for one in (*earlier, call)), going_on=False)
        session.tools = dying = Dying(session.tools, call[0], when)
        with pytest.raises(Died):
            await run(session, "go")
        await self.log.release(session.log.lease)
        return dying.result

    async def bodies(self, kind: type[B]) -> list[B]:
        """Return what the events of a kind say; the log verifies."""
        assert verify_rows(self.log.lines("s"), "s").defects == ()
        return bodies(await self.log.read("s"), kind)


@pytest.fixture
def place(workspace: Workspace, tmp_path: Path) -> Place:
    return Place(workspace, tmp_path / "memory.json")


@pytest.fixture
def git(folder: Path) -> Callable[..., str]:
    """A furnished repository with one commit; runs git in it."""

    def run_git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        return subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True, text=True).stdout

    furnish(folder)
    run_git("init", "-q", "-b", "main")
    (folder / "a.sh").write_text("zero\n")
    run_git("add", "a.sh")
    run_git("commit", "-q", "-m", "base")
    (folder / "a.sh").write_text("one\n")
    return run_git


MESSAGE = "say one  \n\n\nand why\n\n"
REPOSITORY: dict[str, Call] = {
    "stage": ("git_add", {"paths": ["a.sh", "tree"]}),
    "commit": ("git_commit", {"message": MESSAGE}),
    "commit and sign off": ("git_commit", {"message": MESSAGE, "signoff": True}),
}
KEPT: dict[str, Call] = {"remember": ("remember", {"key": "drink", "text": "tea"})}
EVERY = {**CHANGES, **REPOSITORY, **KEPT}


def prepare(name: str, git: Callable[..., str]) -> str:
    """Stage what a commit commits; return how the repository stands."""
    if name.startswith("commit"):
        git("add", "a.sh")
    return stands(git)


def stands(git: Callable[..., str]) -> str:
    return git("log", "--all", "--format=%H") + git("status", "--porcelain")


@pytest.mark.parametrize("name", EVERY)
async def test_a_call_whose_process_ended_after_its_effect_counts_as_if_it_had_finished(
    place: Place, folder: Path, git: Callable[..., str], name: str
) -> None:
    repository, before = prepare(name, git), snapshot(folder)
    unheard = await place.die_in(EVERY[name], "after")
    assert unheard.ok
    session = await place.open(says("done"))
    assert (await run_to_outcome(session)).status == "completed"
    assert await place.bodies(OutcomeUnknown) == []
    (found,) = await place.bodies(ToolFinished)
    assert (found.ok, len(await place.bodies(ToolStarted))) == (True, 1)
    assert found.changes == unheard.changes
    assert found.evidence == unheard.evidence
    told = json.loads(session.state.messages[-2].text)
    assert (told["ok"], "took effect" in told["output"]) == (True, True)
    report = await undo(session)
    assert (report.done, report.reason) == (True, "")
    assert (stands(git), snapshot(folder)) == (repository, before)


@pytest.mark.parametrize("name", EVERY)
async def test_a_call_whose_process_ended_before_its_effect_is_said_not_to_be_done_and_can_be_sent_again(
    place: Place, folder: Path, git: Callable[..., str], name: str
) -> None:
    repository, before = prepare(name, git), snapshot(folder)
    await place.die_in(EVERY[name], "before")
    session = await place.open(calls(EVERY[name]), says("done"))
    assert (await run_to_outcome(session)).status == "completed"
    assert await place.bodies(OutcomeUnknown) == []
    first, second = await place.bodies(ToolFinished)
    assert (first.ok, first.error, first.changes, second.ok) == (False, "not_done", (), True)
    assert "send it again" in first.content
    report = await undo(session)
    assert (report.done, report.reason) == (True, "")
    assert (stands(git), snapshot(folder)) == (repository, before)
    assert "nothing that was changed" in (await undo(session)).reason


async def test_folders_made_on_the_way_to_nothing_are_named_and_can_be_taken_back(place: Place, folder: Path) -> None:
    await place.die_in(("write_file", {"path": "new/deep/down/n.txt", "content": "new"}), "before")
    (folder / "new/deep").mkdir(parents=True)
    session = await place.open()
    (found,) = await place.bodies(ToolFinished)
    assert (found.error, [change.resource.id for change in found.changes]) == ("not_done", ["new/deep"])
    assert (await undo(session)).done
    assert snapshot(folder) == {}


async def test_what_was_done_in_part_is_said_file_by_file_and_taken_back(place: Place, folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).write_text("teh")
    await place.die_in(("search_replace", {"paths": ["a", "b"], "pattern": "teh", "replacement": "the"}), "after")
    (folder / "b").write_text("teh")
    session = await place.open()
    (found,) = await place.bodies(ToolFinished)
    assert (found.ok, found.error, [one.resource.id for one in found.changes]) == (False, "partly_done", ["a"])
    assert (await undo(session)).done
    assert [(folder / name).read_text() for name in ("a", "b")] == ["teh", "teh"]


def write(path: str, text: str) -> Meddle:
    def put(folder: Path, git: Callable[..., str]) -> None:
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text)

    return put


def commit_more(folder: Path, git: Callable[..., str]) -> None:
    (folder / "a.sh").write_text("more\n")
    git("commit", "-q", "-a", "-m", MESSAGE)


def run_git(*words: str) -> Meddle:
    return lambda folder, git: git(*words)


OTHERWISE: dict[str, tuple[str, When, Meddle]] = {
    "the file holds something else": ("edit", "before", write("a.sh", "else")),
    "a file is where nothing was": ("move", "before", write("far/b.sh", "")),
    "something was put into the folder": ("make a folder", "after", write("x/y/z", "")),
    "a part of the folder is gone": ("delete a tree", "before", lambda folder, _: (folder / "tree/t").unlink()),
    "the deleted file is there again": ("delete", "after", write("a.sh", "else")),
    "both ends of the move hold something": ("move", "after", write("a.sh", "one\n")),
    "something else was staged": ("stage", "before", run_git("add", "link")),
    "what was staged changed since": ("stage", "after", write("a.sh", "three\n")),
    "another commit was made": ("commit", "before", run_git("commit", "-q", "-m", "other")),
    "a commit stands on top": ("commit", "after", run_git("commit", "-q", "--allow-empty", "-m", "top")),
    "something was staged after the commit": ("commit", "after", run_git("add", "link")),
    "more was committed": ("commit", "before", commit_more),
    "the commit before was amended": ("commit", "before", run_git("commit", "-q", "--amend", "-m", MESSAGE)),
}


@pytest.mark.parametrize("name", OTHERWISE)
async def test_what_is_neither_as_before_nor_as_meant_stays_unknown_until_somebody_says(
    place: Place, folder: Path, git: Callable[..., str], name: str
) -> None:
    change, when, meddle = OTHERWISE[name]
    prepare(change, git)
    await place.die_in(EVERY[change], when)
    meddle(folder, git)
    session = await place.open(says("hm"))
    (call,) = list_open_calls(session)
    assert "outcome_unknown" in session.state.messages[-1].text
    left = snapshot(folder)
    assert "say so with" in (await undo(session)).reason
    assert await resolve_outcomes(session, call, None) == []
    assert (await resolve_outcomes(session, call, "done"))[0].outcome == "done"
    assert snapshot(folder) == left


@pytest.mark.usefixtures("no_sandboxes")
async def test_a_command_that_was_cut_off_stays_unknown_and_an_undo_of_what_came_before_says_so(
    place: Place, folder: Path
) -> None:
    furnish(folder)
    await place.die_in(("run_command", {"argv": ["touch", "made"]}), "after", CHANGES["edit"])
    session = await place.open()
    (call,) = list_open_calls(session)
    report = await undo(session)
    assert (report.done, report.tool, (folder / "a.sh").read_text()) == (True, "edit_file", "one\n")
    assert report.note.startswith(f"it is unknown whether `{call}` took effect; look, then say so with")
    assert (await undo(session)).reason == report.note


async def test_what_an_earlier_version_parked_is_found_out_when_the_session_is_taken_up(
    place: Place, folder: Path
) -> None:
    furnish(folder)
    before = snapshot(folder)
    await place.die_in(CHANGES["edit"], "after")
    (folder / "a.sh").write_text("else")
    await place.log.release((await place.open()).log.lease)
    (folder / "a.sh").write_text("two\n")
    session = await place.open()
    assert [body.outcome for body in await place.bodies(OutcomeResolved)] == ["done"]
    assert (await undo(session)).done
    assert snapshot(folder) == before
