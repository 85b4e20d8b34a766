"""The loop: what runs, what is answered, what is recorded."""

from __future__ import annotations

import json
from pathlib import Path

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls, says
from foregate.schemas.errors import ModelError
from foregate.schemas.model_response import ModelResponse
from foregate.telemetry.log import chain
from tests.conftest import OpenSession

EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
READ = ("read_file", {"path": "a.txt"})


async def test_an_edit_of_an_unread_file_is_held_shown_and_then_runs(folder: Path, open_session: OpenSession) -> None:
    (folder / "a.txt").write_text("teh cat")
    session = await open_session(calls(EDIT), calls(EDIT), says("done"))
    outcome = await run(session, "fix the typo")
    assert (outcome.status, outcome.text) == ("completed", "done")
    assert (folder / "a.txt").read_text() == "the cat"
    held = json.loads(session.state.messages[3].text)
    assert held["foregate"]["code"] == "missing_pre_execution_evidence"
    assert held["observed"]["output"] == "teh cat"


async def test_a_read_and_an_edit_in_one_response_hold_only_the_edit(folder: Path, open_session: OpenSession) -> None:
    (folder / "a.txt").write_text("teh cat")
    session = await open_session(calls(READ, EDIT), calls(EDIT), says("done"))
    await run(session, "fix the typo")
    first, second = (json.loads(message.text) for message in session.state.messages[3:5])
    assert first == {"ok": True, "output": "teh cat"}
    assert "observed" not in second


async def test_a_file_changed_after_it_was_read_is_stale(folder: Path, open_session: OpenSession) -> None:
    (folder / "a.txt").write_text("teh cat")

    def meanwhile(_: object) -> ModelResponse:
        (folder / "a.txt").write_text("teh dog")
        return calls(EDIT)

    session = await open_session(calls(READ), meanwhile, calls(EDIT), says("done"))
    await run(session, "fix the typo")
    assert "stale_evidence" in session.state.messages[5].text
    assert (folder / "a.txt").read_text() == "the dog"


async def test_own_changes_count_as_looked_at(folder: Path, open_session: OpenSession) -> None:
    (folder / "a.txt").write_text("teh cat")
    again = ("edit_file", {"path": "a.txt", "old": "cat", "new": "dog"})
    session = await open_session(calls(READ), calls(EDIT, again), says("done"))
    await run(session, "fix it")
    assert (folder / "a.txt").read_text() == "the dog"


async def test_every_call_gets_exactly_one_answer(folder: Path, open_session: OpenSession) -> None:
    (folder / "a.txt").write_text("teh cat")
    wanted = [READ, EDIT, ("nope", {}), ("read_file", {"path": 3}), *[READ] * 12]
    session = await open_session(calls(*wanted), says("done"))
    await run(session, "go")
    answered = [message.call for message in session.state.messages if message.role == "tool"]
    assert sorted(answered) == sorted(call.id for call in session.state.messages[2].calls)
    assert sum("not_run_too_many" in message.text for message in session.state.messages) == 4


async def test_a_task_ends_blocked_when_a_call_is_held_again_and_again_for_the_same_reason(
    open_session: OpenSession,
) -> None:
    bad = ("read_file", {"path": 3})
    session = await open_session(*[calls(bad)] * 4)
    outcome = await run(session, "go")
    assert outcome.status == "blocked"
    assert "held 4 times" in outcome.report.blocker


async def test_a_failing_model_ends_the_task_and_not_the_session(open_session: OpenSession) -> None:
    session = await open_session(ModelError("the endpoint is gone"), says("hello"))
    outcome = await run(session, "hello")
    assert (outcome.status, outcome.report.blocker) == ("failed", "the endpoint is gone")
    assert (await run(session, "hello")).text == "hello"


async def test_an_empty_response_is_asked_for_once_more(open_session: OpenSession) -> None:
    session = await open_session(says(""), says("here"), says(""), says(" "))
    assert (await run(session, "hello")).text == "here"
    assert (await run(session, "hello")).status == "failed"


async def test_a_truncated_response_is_never_judged(folder: Path, open_session: OpenSession) -> None:
    (folder / "a.txt").write_text("x")
    cut = ModelResponse("", calls(READ).calls, finish_reason="length")
    session = await open_session(cut, says("done"))
    await run(session, "go")
    kinds = [event.kind for event in await session.log.read()]
    assert "turn_judged" not in kinds
    assert "not_run_truncated" in session.state.messages[3].text


async def test_the_log_of_a_session_verifies_and_folds_to_the_same_state(
    folder: Path, open_session: OpenSession
) -> None:
    from foregate.evidence.state.session import SessionState

    (folder / "a.txt").write_text("teh cat")
    session = await open_session(calls(EDIT), calls(EDIT), says("done"))
    await run(session, "fix")
    await session.close()
    events = list(chain.verify_lines(session.log.store.lines("s"), "s"))  # type: ignore[attr-defined]
    again = SessionState()
    for event in events:
        again.apply(event)
    assert again.messages == session.state.messages
    assert (again.seq, again.hash, again.ended) == (session.state.seq, session.state.hash, True)
