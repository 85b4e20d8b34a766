"""A policy file that is changed while a session runs."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run, run_to_outcome
from foregate.agent.models.scripted import ScriptedModel, ScriptedPerson, calls, says
from foregate.assembly.followed_policy import FollowedPolicy
from foregate.assembly.open import OpenSession, open_session
from foregate.assembly.setting import SessionOptions
from foregate.policy.source.layers import read_layer
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import PolicyChanged
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.queries.verify import verify_session
from foregate.tuning.what_if import WhatIf
from tests.events import bodies

READ = ("read_file", {"path": "a.txt"})
WRITE = ("write_file", {"path": "b.txt", "content": "b\n"})
TALK = "I will write b.txt, as you asked."
ASKS = "rules: {list: [{id: ask-writes, then: ask, tool: write_file}]}\n"
DENIES = "rules: {list: [{id: no-writes, then: deny, tool: write_file}]}\n"
Open = Callable[..., Awaitable[OpenSession]]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A policy file outside the workspace."""
    file = tmp_path / "mine.yaml"
    file.write_text("{}\n")
    return file


@pytest.fixture
async def opened(folder: Path, mine: Path) -> AsyncIterator[Open]:
    """Opens a session under the file, over scripts that are played to their end."""
    (folder / "a.txt").write_text("0123456789\n" * 100)
    log, models, sessions = MemoryLog(), list[ScriptedModel](), list[OpenSession]()

    async def open_one(steps: list[Any], answers: list[Any] | None = None, **more: Any) -> OpenSession:
        models.append(ScriptedModel(steps))
        person = ScriptedPerson(answers) if answers is not None else None
        setting = SessionOptions(folder, models[-1], policy=mine, person=person, log=log, environ={}, **more)
        sessions.append(await open_session(setting))
        return sessions[-1]

    yield open_one
    for one in sessions:
        await one.close()
    for model in models:
        model.finish()


def writes(mine: Path, text: str, then: Any) -> Callable[[Any], Any]:
    """A step that changes the file first."""

    def step(_: Any) -> Any:
        mine.write_text(text)
        return then

    return step


async def read_changes(opened: OpenSession) -> list[PolicyChanged]:
    """What the log says of other policies."""
    return [body for body in bodies(await opened.session.log.read(), PolicyChanged) if body.policy or body.refused]


async def test_a_changed_file_holds_from_the_next_turn_on_and_the_log_says_so(opened: Open, mine: Path) -> None:
    one = await opened([writes(mine, DENIES, calls(READ, text=TALK)), calls(WRITE), says("no")])
    shown: list[Event] = []
    one.session.subscribe(shown.append)
    before = one.session.policy.hash
    await run(one.session, "write b to b.txt")
    events = await one.session.log.read()
    judged = [event for event in events if isinstance(event.body, TurnJudged)]
    assert [event.policy for event in judged] == [before, one.session.policy.hash]
    assert judged[1].body.judgement.verdicts[0].ruling.code == "denied_by_rule"  # type: ignore[union-attr]
    (change,) = await read_changes(one)
    assert (change.before, change.policy) == (before, one.session.policy.recorded)
    assert change.layers is not None
    assert change.layers["from"] == {"rules.list.no-writes": "mine.yaml:1"}
    assert next(event for event in events if event.body == change).policy == one.session.policy.hash
    assert one.followed.loaded is not None
    assert "mine.yaml" in one.followed.loaded.sources[1]
    log: Any = one.session.log.store
    assert verify_session(log, one.name).ok
    judged_again = WhatIf(log, read_layer(mine, "mine.yaml", trusted=True))
    assert [row.call.change for row in judged_again.find_changes([one.name])] == []


async def test_loosening_while_a_call_waits_does_not_let_it_through(opened: Open, mine: Path) -> None:
    mine.write_text(ASKS)
    one = await opened([calls(WRITE, text=TALK), calls(WRITE), says("done")], [writes(mine, "{}\n", None), "no"])
    assert (await run(one.session, "write b to b.txt")).status == "awaiting_approval"
    asked = one.session.policy.hash
    await run_to_outcome(one.session)
    judged = [event for event in await one.session.log.read() if isinstance(event.body, TurnJudged)]
    assert judged[0].policy == asked
    assert judged[0].body.judgement.verdicts[0].ruling.code == "approval_denied"  # type: ignore[union-attr]
    assert [event.policy == asked for event in judged] == [True, False]
    assert judged[1].body.judgement.verdicts[0].ruling.code == "refused_before"  # type: ignore[union-attr]


async def test_a_file_that_is_no_policy_is_told_of_once_and_the_last_good_one_stays(opened: Open, mine: Path) -> None:
    mine.write_text(DENIES)
    steps = [
        writes(mine, "rules: {mode: on}\n", calls(READ, text=TALK)),
        calls(WRITE),
        writes(mine, " \n", calls(READ)),
        writes(mine, "approval: {mode: each}\n", says("no")),
        says("good"),
    ]
    one = await opened(steps)
    before = one.session.policy
    await run(one.session, "write b to b.txt")
    assert one.session.policy is before
    first, second = await read_changes(one)
    assert 'mine.yaml:1: `rules.mode` is `"on"`; allowed is one of' in str(first.refused)
    assert str(first.refused).endswith("; the policy in force stays")
    assert "mine.yaml is empty now; write `{}`" in str(second.refused)
    await run(one.session, "go on")
    assert one.session.policy.approval.mode == "each"


async def test_a_file_that_is_gone_or_only_touched_changes_nothing(opened: Open, mine: Path) -> None:
    mine.write_text(ASKS)
    one = await opened([calls(READ), calls(("list_files", {"path": "."})), says("read")])
    os.utime(mine, ns=(1, 1))
    before = one.session.policy
    mine.replace(mine.with_name("other"))
    await run(one.session, "read a.txt and list the files")
    assert one.session.policy is before
    (refused,) = await read_changes(one)
    assert "there is no such policy file" in str(refused.refused)


async def test_tools_and_children_keep_to_the_policy_that_holds_now(opened: Open, mine: Path) -> None:
    steps = [writes(mine, "files: {max_read: 50}\nlimits: {child_depth: 0}\n", calls(READ)), calls(READ), says("read")]
    one = await opened(steps)
    assert "delegate" in one.session.catalogue
    await run(one.session, "read a.txt")
    first, second = (m.text for m in one.session.state.messages if m.role == "tool")
    assert len(second) < len(first) / 2
    assert "delegate" not in one.session.catalogue
    assert [event.kind for event in await one.session.log.read()].count("catalog_changed") == 1


def test_no_pipe_in_the_place_of_the_file_is_waited_for(tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("{}\n")
    follow = FollowedPolicy(mine)
    mine.unlink()
    os.mkfifo(mine)
    assert follow() == f"{mine}: not a regular file; make it one, or remove it; the policy in force stays"
