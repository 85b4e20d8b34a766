"""The summary of a task names what was changed, what ran and with which result, what was not done, and how to undo."""

from __future__ import annotations

from msgspec.structs import replace

from foregate.agent.loop.changes_made import ChangesMade, FileVersions
from foregate.schemas.event import NeedAnswered
from foregate.schemas.event_body import CallAnswered, OutcomeUnknown, ToolFinished, ToolStarted
from foregate.schemas.judgement import Answer
from foregate.schemas.tool_call import Change, Permit
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind
from foregate.views.terminal.layout import count_columns
from foregate.views.terminal.task_work import MOST, TaskWork, format_work, is_told
from tests.events import task_ended, tool_finished

ENDED = task_ended(text="Done.", duration=12, turns=2, model_calls=3, tool_calls=2, tokens=1040)
CHANGE = Change(Resource(ResourceKind.FILE, "a.txt"), "0" * 64, "1" * 64)
EDIT = tool_finished("edit_file", "a.txt", content="edited", duration=3, changes=(CHANGE,))
TESTS = replace(
    EDIT, call="c2.1", tool="run_command", target="pytest", changes=(), content="noise\n2 passed in 0.1s\n", exit_code=0
)
HELD = CallAnswered(
    call="c3.1",
    tool="send",
    target="bob",
    ruling="deny",
    code="approval_required",
    message="nobody\nwas there to say yes; ask for something smaller",
    change=True,
)
ONE = ChangesMade({"edit": 1}, (FileVersions("a.txt", b"teh\n", b"the\n"),))
UNDO = "/undo takes back the last change ({call})"


def texts(work: TaskWork, width: int = 80) -> list[str]:
    """Return the summary as shown."""
    return [row.plain for row in format_work(work, width, UNDO)]


def test_everything_has_its_row() -> None:
    work = TaskWork()
    work.add_run(EDIT, ONE)
    work.add_run(replace(EDIT, call="c4.1"), ONE)
    work.add_run(TESTS, None)
    work.add_missed(HELD)
    work.ended = ENDED
    assert texts(work) == [
        "  changed   a.txt +2 -2",
        "  ran       run_command pytest: 2 passed in 0.1s",
        "  not done  send bob: approval_required: nobody was there to say yes",
        "  undo      /undo takes back the last change (c4.1)",
        "  spent     3 requests, 1,040 tokens, 12 s",
    ]


def test_a_message_that_was_sent_through_a_tool_is_told_though_no_file_changed() -> None:
    work = TaskWork()
    sent = tool_finished("mail.send", "ann@example.org", call="c2.1", content="queued", duration=3)
    work.add(started(sent, Effect.SEND))
    assert not work.is_worth_a_summary
    work.add(sent)
    work.add(ENDED)
    assert work.is_worth_a_summary
    assert texts(work) == ["  done      mail.send ann@example.org", "  spent     3 requests, 1,040 tokens, 12 s"]


def test_a_look_and_a_message_that_failed_are_nothing_done() -> None:
    work = TaskWork()
    looked = tool_finished("mail.list", "inbox", content="none", duration=3)
    failed = replace(looked, call="c2.1", tool="mail.send", ok=False, error="failed")
    for finished, effect in ((looked, Effect.OBSERVATION), (failed, Effect.SEND)):
        work.add(started(finished, effect))
        work.add(finished)
    assert (work.sent, list(work.not_done)) == ([], [("mail.send", "inbox")])


def started(finished: ToolFinished, effect: Effect) -> ToolStarted:
    """Return the beginning of a call that ended so."""
    permit = Permit(finished.call, "0" * 64, 1, "0" * 64)
    return ToolStarted(
        call=finished.call,
        tool=finished.tool,
        target=finished.target,
        permit=permit,
        side_effect="at_most_once",
        effect=effect,
        before=(),
    )


def test_a_failed_command_says_its_result_and_its_exit_code() -> None:
    work, ended = TaskWork(), "1 failed in 0.1s\n\nexit code 1"
    work.add_run(replace(TESTS, ok=False, content=ended, error="exit_code", exit_code=1), None)
    assert texts(work) == ["  ran       run_command pytest: 1 failed in 0.1s (exit code 1)"]


def test_what_was_done_in_the_end_is_not_called_not_done() -> None:
    work = TaskWork()
    work.add_missed(replace(HELD, tool="edit_file", target="a.txt", ruling="hold"))
    work.add_missed(OutcomeUnknown(call="c5.1", tool="send", target="bob", reason="timeout"))
    work.add_run(EDIT, ONE)
    assert texts(work)[1:2] == ["  not done  send bob: nobody can say whether it took effect (timeout)"]


def test_a_task_that_only_read_needs_no_summary_and_a_held_read_is_none() -> None:
    work = TaskWork()
    work.add_run(replace(EDIT, tool="read_file", changes=()), None)
    work.add_missed(replace(HELD, tool="read_file", ruling="hold", change=False))
    assert not work.is_worth_a_summary
    work.add_run(replace(TESTS, content="a listing\n"), None)
    assert not work.is_worth_a_summary
    work.add_run(TESTS, None)
    assert work.is_worth_a_summary


def test_commands_without_a_result_share_a_row_and_are_only_counted_where_they_are_many() -> None:
    work = TaskWork()
    for name in ("cat a", "cat b"):
        work.add_run(replace(TESTS, target=name, content="a\n"), None)
    work.add_run(TESTS, None)
    assert texts(work) == [
        "  ran       run_command pytest: 2 passed in 0.1s",
        "            run_command cat a, run_command cat b: ended well",
    ]
    for number in range(8):
        work.add_run(replace(TESTS, target=f"cat {number}", content="a\n"), None)
    assert texts(work)[1] == "            10 commands: ended well"


def test_many_files_and_commands_are_counted_and_every_row_fits() -> None:
    work = TaskWork()
    files = tuple(FileVersions(f"folder/{number}.txt", None, b"x\n") for number in range(20))
    work.add_run(EDIT, ChangesMade({"create": 20}, files, unread=5))
    for number in range(MOST + 3):
        work.add_run(replace(TESTS, target=f"pytest {number} " + "long " * 99), None)
    rows = texts(work, 60)
    assert rows[0].startswith("  changed   25 files +20: folder/0.txt new +1")
    assert "and 19 more" in " ".join(rows)
    assert "  ran       3 more, and" in rows
    assert all(count_columns(row) <= 60 for row in rows)


def test_a_call_that_was_said_to_be_undone_is_said_once() -> None:
    work = TaskWork()
    for target in ("a.txt", "b.txt"):
        work.add(replace(HELD, tool="edit_file", target=target))
    remark = "[Foregate: `edit_file a.txt` was not done (denied_by_rule)]"
    work.forget_told(remark)
    assert list(work.not_done) == [("edit_file", "b.txt")]
    assert is_told(remark, "asked for and not done, for a rule denies it: `edit_file a.txt`")
    assert not is_told(remark, "asked for and not done: `edit_file b.txt`")
    assert not is_told("[Foregate: `edit_file a.txt` failed; unverified: nobody looked]", "`edit_file a.txt`")


def test_requests_to_planner_and_critic_are_counted_among_what_was_spent() -> None:
    work = TaskWork()
    answer = Answer("plan", "planner", "plan:1", (), "", "", None)
    work.add(NeedAnswered(answer=answer, model_calls=2))
    work.add_run(EDIT, ONE)
    work.add(ENDED)
    assert texts(work)[-1] == "  spent     5 requests, 1,040 tokens, 12 s"


def test_an_answer_of_a_person_is_no_request() -> None:
    work = TaskWork()
    work.add(NeedAnswered(answer=Answer("approval", "person", "approval:1", (), "yes", "", None)))
    work.add_run(EDIT, ONE)
    work.add(ENDED)
    assert texts(work)[-1] == "  spent     3 requests, 1,040 tokens, 12 s"


def test_of_a_cancelled_task_it_is_not_said_again_what_was_cancelled() -> None:
    work = TaskWork()
    work.add_run(replace(TESTS, ok=False, content="cancelled", error="cancelled", exit_code=None), None)
    assert len(texts(work)) == 1
    work.add(replace(ENDED, status="cancelled"))
    work.forget_told("")
    assert [row.split()[0] for row in texts(work)] == ["spent"]
