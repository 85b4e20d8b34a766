"""A log written anew is found where two of its events say something else of the same thing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import calls
from foregate.agent.session.session_log import SessionLog
from foregate.evidence.state.session import SessionState
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.verify import verify_session
from tests.agent.corpus import ASK_EDITS, READ, TALK, rules
from tests.agent.world import World
from tests.policies import policy_with
from tests.rewritten import MEND, Lines, find_line, record_edits, rewrite_log
from tests.telemetry.made import said

LAX = "2020-01-01T00:00:00.000000Z"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A closed log with a session `s`: a read, an edit a person refused, and one they said yes to."""
    path = tmp_path_factory.mktemp("recorded") / "events.db"

    asyncio.run(record_edits(path))
    return path.read_bytes()


def find_defects(recorded: bytes, folder: Path, change: Callable[[Lines], object]) -> list[tuple[int, str]]:
    """Return number and name of what is found once somebody wrote the log anew, and the head noted beside it."""
    path = folder / "events.db"
    path.write_bytes(recorded)
    rewrite_log(path, "s", change)
    with closing(SqliteLog(path)) as log:
        return [(defect.seq, defect.code) for defect in verify_session(log, "s").defects]


def test_a_log_written_anew_without_a_change_is_sound(recorded: bytes, tmp_path: Path) -> None:
    assert find_defects(recorded, tmp_path, lambda lines: None) == []


def loosen_policy(lines: Lines) -> None:
    find_line(lines, "session_started")["body"]["policy"]["approval"]["mode"] = "never"


def swap_tools(lines: Lines) -> None:
    find_line(lines, "session_started")["body"]["catalogue"].pop()


def change_a_policy_hash(lines: Lines) -> None:
    find_line(lines, "tool_finished")["policy"] = "0" * 64


def turn_no_into_yes(lines: Lines) -> None:
    find_line(lines, "need_answered", 0)["body"]["answer"]["value"]["choice"] = "yes"


def turn_yes_into_no(lines: Lines) -> None:
    find_line(lines, "need_answered", 1)["body"]["answer"]["value"]["choice"] = "no"


def let_the_model_answer(lines: Lines) -> None:
    find_line(lines, "need_answered", 1)["actor"] = "model"


def name_another_who_answered(lines: Lines) -> None:
    find_line(lines, "need_answered", 1)["body"]["answer"]["value"]["by"] = "somebody"


def answer_another_call(lines: Lines) -> None:
    find_line(lines, "need_answered", 1)["body"]["answer"]["digests"] = ["0" * 64]


def answer_unasked(lines: Lines) -> None:
    find_line(lines, "need_raised", 1).update(kind="checkpoint", body={"undo": "c1.1", "steps": []})


def set_the_clock_back(lines: Lines) -> None:
    find_line(lines, "tool_finished")["time"] = LAX


def tell_of_another_evidence(lines: Lines) -> None:
    find_line(lines, "tool_finished")["body"]["evidence"][0]["hash"] = "0" * 64


def leave_a_message_out(lines: Lines) -> None:
    find_line(lines, "user_message").update(kind="checkpoint", body={"undo": "c1.1", "steps": []})


def spend_less(lines: Lines) -> None:
    find_line(lines, "task_ended")["body"]["tool_calls"] = 1


def hide_what_a_response_cost(lines: Lines) -> None:
    find_line(lines, "model_response", 1)["body"]["usage"]["input_tokens"] = 7


def name_another_tool(lines: Lines) -> None:
    find_line(lines, "tool_finished", 1)["body"]["tool"] = "read_file"


def name_another_target(lines: Lines) -> None:
    find_line(lines, "tool_finished", 1)["body"]["target"] = "b.txt"


def soften_a_refusal(lines: Lines) -> None:
    find_line(lines, "call_answered")["body"].update(ruling="hold", code="missing_pre_execution_evidence")


def renumber_the_task(lines: Lines) -> None:
    find_line(lines, "task_started")["body"]["task"] = 3


def begin_twice(lines: Lines) -> None:
    lines.insert(3, find_line(lines, "session_started"))


def begin_without_a_policy(lines: Lines) -> None:
    find_line(lines, "session_started").update(kind="checkpoint", body={"undo": "c1.1", "steps": []})


@pytest.mark.parametrize(
    ("lie", "code"),
    [
        (loosen_policy, "other_policy"),
        (swap_tools, "other_catalogue"),
        (change_a_policy_hash, "other_policy"),
        (turn_no_into_yes, "other_answer"),
        (turn_yes_into_no, "other_answer"),
        (let_the_model_answer, "other_answerer"),
        (name_another_who_answered, "other_answer"),
        (answer_another_call, "other_question"),
        (answer_unasked, "answer_without_question"),
        (set_the_clock_back, "time_back"),
        (tell_of_another_evidence, "other_evidence"),
        (leave_a_message_out, "other_messages"),
        (spend_less, "other_use"),
        (hide_what_a_response_cost, "other_use"),
        (name_another_tool, "other_call"),
        (name_another_target, "other_call"),
        (soften_a_refusal, "other_ruling"),
        (renumber_the_task, "other_task"),
        (begin_twice, "begins_again"),
        (begin_without_a_policy, "no_beginning"),
    ],
)
def test_a_lie_that_another_event_contradicts_is_found(
    recorded: bytes, tmp_path: Path, lie: Callable[[Lines], object], code: str
) -> None:
    assert code in {found for _, found in find_defects(recorded, tmp_path, lie)}


async def test_no_event_is_earlier_than_the_one_before_it_though_the_clock_is_set_back() -> None:
    times = iter(["2026-01-02T00:00:00.000000Z", "2026-01-01T00:00:00.000000Z", "2026-01-01T00:00:01.000000Z"])
    log, state = MemoryLog(), SessionState()
    lease = await log.claim("s", create=True)

    def open_log(state: Any) -> SessionLog:
        return SessionLog(log, lease, state, "p", lambda: (), lambda: next(times))

    first, second = open_log(state), open_log(state)
    state.apply = lambda event: setattr(state, "seq", event.seq)  # type: ignore[method-assign]
    await first.record(said("one"))
    await first.record(said("two"))
    second.began_after = 2
    await second.record(said("three"))
    assert [event.time[:10] for event in log.events("s")] == ["2026-01-02"] * 3


async def test_a_policy_that_changed_is_recorded_before_anything_is_recorded_under_it() -> None:
    world = World(policy=rules(ASK_EDITS))
    session = await world.open([calls(READ, text=TALK), calls(MEND)], [None])
    await run(session, "mend a.txt")
    await world.kill(session)
    other = policy_with({"approval.mode": "each"})
    resumed = await world.open([], [None], resume=True, policy=other)
    await resumed.close()
    assert next(event.kind for event in await world.log.read("s") if event.policy == other.hash) == "policy_changed"
    assert verify_session(world.log, "s").defects == ()
