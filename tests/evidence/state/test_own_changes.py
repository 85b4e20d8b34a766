"""What a task has made is its own to delete; what it only changed or moved is not."""

from __future__ import annotations

from foregate.agent.loop.runner import take_step
from foregate.agent.models.scripted import calls, says
from foregate.agent.tools.files import write_file
from foregate.agent.tools.folders import move_path
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind
from tests.conftest import OpenSession

TALK = "I will write new.txt now and move the old file after it."


async def test_a_file_is_the_tasks_own_where_it_was_not_there_before(
    open_session: OpenSession, workspace: Workspace
) -> None:
    (workspace.root / "old.txt").write_text("theirs\n")
    policy = default_policy()
    tools = [write_file(workspace, policy), move_path(workspace, policy)]
    move = calls(("move_path", {"source": "old.txt", "destination": "other.txt"}), text=TALK)
    script = [calls(("write_file", {"path": "new.txt", "content": "ours\n"}), text=TALK), move, move]  # seen, then done
    session = await open_session(*script, says("Done."), tools=tools)
    await session.record_message("write new.txt and move old.txt to other.txt")
    task = session.state.task
    assert task is not None
    while session.state.task is not None:
        await take_step(session)
    names = {name: Resource(ResourceKind.FILE, name) for name in ("new.txt", "old.txt", "other.txt")}
    assert [name for name, one in names.items() if task.is_own(one, Effect.DELETE)] == ["new.txt"]
    assert all(task.is_own(one, Effect.EDIT) for one in names.values())
