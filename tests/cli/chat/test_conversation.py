"""The chat: what is shown, what is asked, and what Ctrl-C stops."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from foregate.agent.models.scripted import ScriptedModel, calls, says
from foregate.agent.session.result import Report, RunResult
from foregate.agent.tools.files import edit_file, read_file
from foregate.agent.tools.tool import Tool
from foregate.agent.workspace.workspace import Workspace
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.conversation import ChatSession
from foregate.policy.policy import Policy
from foregate.schemas.errors import ModelError
from foregate.schemas.event import Event
from foregate.schemas.event_body import CallAnswered, PolicyChanged, TaskEnded
from foregate.schemas.message import ModelRequest
from foregate.schemas.model_response import ModelResponse
from foregate.schemas.tool_call import ToolResult
from foregate.schemas.tool_spec import Effect, ToolSpec
from foregate.telemetry.log.memory_log import MemoryLog
from foregate.views.terminal.layout import count_columns
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.screen import Screen
from tests.cli.typist import Typist

EDIT = ("edit_file", {"path": "a.txt", "old": "teh", "new": "the"})
SEND = ("send", {"to": "bob@example.org"})
READ = ("read_file", {"path": "a.txt"})
SAY = "I will send a short mail to bob@example.org."


class Chatted:
    """What a chat left behind."""

    shown: str
    events: list[Event]


@pytest.fixture
def plain(policy: Policy) -> Policy:
    """A policy that asks people but neither planner nor critic."""
    off = {"mode": "off"}
    return policy.model_copy(
        update={"plan": policy.plan.model_copy(update=off), "critique": policy.critique.model_copy(update=off)}
    )


@pytest.fixture
def chat(folder: Path, workspace: Workspace, plain: Policy) -> Callable[..., Awaitable[Chatted]]:
    """Chats over a real session in memory: `lines` and `answers` are typed, `steps` are what the model says."""
    (folder / "a.txt").write_text("teh cat")
    log = MemoryLog()

    async def send(arguments: object) -> ToolResult:
        return ToolResult(True, "sent \x1b[2J\u202e")

    async def chatted(
        lines: list[Any],
        *steps: Any,
        answers: tuple[Any, ...] = (),
        resume: str = "",
        interactive: bool = True,
        policy: Policy = plain,
        model: Any = None,
        dialect: str | None = None,
    ) -> Chatted:
        out = io.StringIO()
        screen, terminal = Screen(Console(file=out, width=80)), Typist(lines, answers, interactive=interactive)
        person = PersonAtTerminal(screen, terminal) if interactive else None
        if person is not None:
            person.reads_wait = policy.approval.reads == "ask"
        spec = ToolSpec("send", "", {"type": "object", "properties": {"to": {"type": "string"}}}, Effect.SEND)
        opened = await open_session(
            SessionOptions(
                workspace=folder,
                model=model or ScriptedModel(steps),
                policy=policy,
                tools=[read_file(workspace, policy), edit_file(workspace, policy), Tool(spec, send)],
                builtin=False,
                person=person,
                log=log,
                resume=resume,
                listeners=[screen.show_event],
                on_text=screen.stream,
                dialect=dialect,
            )
        )
        await ChatSession(opened, terminal, screen, person).run_chat()
        await opened.close()
        terminal.finish()
        if model is None:
            getattr(opened.session.model, "inner", opened.session.model).finish()
        result = Chatted()
        result.shown, result.events = out.getvalue(), list(await log.read(opened.name))
        return result

    return chatted


async def test_text_streams_rulings_fall_and_passes_stay_quiet(chat: Callable[..., Awaitable[Chatted]]) -> None:
    done = await chat(["fix the typo in a.txt"], calls(EDIT, text="I will fix the typo."), calls(EDIT), says("Fixed."))
    after = done.shown[done.shown.index("I will fix") :]
    expected = ["I will fix the typo.", "held    evidence: missing_pre_execution_evidence", "ran     read_file a.txt"]
    places = [after.index(part) for part in [*expected, "ran     edit_file a.txt", "Fixed."]]
    assert places == sorted(places)
    assert "_passed" not in after
    assert after.count("Fixed.") == 1


async def test_a_yes_runs_the_call_and_a_no_reaches_the_model(chat: Callable[..., Awaitable[Chatted]]) -> None:
    def told(request: ModelRequest) -> ModelResponse:
        assert "not today" in request.messages[-1].text
        return says("As you wish.")

    yes = await chat(["mail bob@example.org"], calls(SEND, text=SAY), says("Sent."), answers=("y",))
    assert "ran     send" in yes.shown
    no = await chat(["mail bob@example.org"], calls(SEND, text=SAY), told, answers=("n not today",))
    assert "denied  approval: approval_denied" in no.shown
    assert not [event for event in no.events if event.kind == "tool_started"]


async def test_a_grant_for_the_session_asks_once(chat: Callable[..., Awaitable[Chatted]]) -> None:
    script = [calls(SEND, text=SAY), says("Sent."), calls(SEND, text=SAY), says("Sent again.")]
    done = await chat(["mail bob@example.org", "and again to bob@example.org"], *script, answers=("a",))
    assert done.shown.count("1 call needs your yes") == 1
    assert sum(event.kind == "tool_started" for event in done.events) == 2


async def test_without_a_terminal_nobody_is_asked_and_it_is_denied(chat: Callable[..., Awaitable[Chatted]]) -> None:
    done = await chat(["mail bob@example.org"], calls(SEND, text=SAY), says("No."), interactive=False)
    assert "denied  approval: approval_required" in done.shown


async def test_an_approval_left_open_is_shown_again_by_execute_and_after_a_resume(
    chat: Callable[..., Awaitable[Chatted]],
) -> None:
    left = await chat(["mail bob@example.org", "/execute"], calls(SEND, text=SAY), answers=(None, None))
    assert left.shown.count("1 call needs your yes") == 2
    assert "foregate chat --resume" in left.shown
    resumed = await chat([], says("Sent."), answers=("y",), resume="last")
    assert "ran     send" in resumed.shown
    assert [event.kind for event in resumed.events if event.kind == "task_started"] == ["task_started"]


async def test_reads_wait_for_execute_where_the_policy_says_so(
    chat: Callable[..., Awaitable[Chatted]], plain: Policy
) -> None:
    asks = plain.model_copy(update={"approval": plain.approval.model_copy(update={"reads": "ask"})})
    script = [calls(READ), calls(READ), calls(READ), says("read")]
    done = await chat(["read a.txt", "/execute 2", "/execute"], *script, policy=asks)
    assert done.shown.count("waits   read_file a.txt") == 2
    assert sum(event.kind == "tool_started" for event in done.events) == 3


async def test_what_a_text_asks_for_is_listed_before_anything_of_it_is_asked_about_or_run(
    chat: Callable[..., Awaitable[Chatted]],
) -> None:
    said = f"{SAY}\n<read_file><path>a.txt</path></read_file>\n<send><to>bob@example.org</to></send>"
    lines = ["mail bob@example.org", "/history", "/dry-run on", "mail bob@example.org"]
    script = [says(said), says("Sent."), says(said), says("Not sent.")]
    done = await chat(lines, *script, answers=("y",), dialect="action_tags")
    parts = (
        "2 calls in the text",
        "1         read_file a.txt",
        "2         send (send, to: bob@example.org)",
        "needs your yes",
        "ran     read_file",
        "ran     send",
        "tool   send (c4.2)",
    )
    places = [done.shown.index(part) for part in parts]
    assert places == sorted(places)
    assert "not run send: a dry run" in done.shown
    assert "<send>" not in done.shown


async def test_calls_that_wait_for_results_are_listed_with_the_others_and_only_once(
    chat: Callable[..., Awaitable[Chatted]],
) -> None:
    said = (
        f"{SAY}\n<sequential><read_file><path>a.txt</path></read_file>"
        "<send><to>$result_of_step_1</to></send></sequential>"
    )
    done = await chat(["mail what a.txt says"], says(said), says("Sent."), answers=("y",), dialect="action_tags")
    assert done.shown.count("detected") == 1
    listed = [
        "2 calls in the text",
        "1         read_file a.txt",
        "2         send (send, to: $result_of_step_1), with results",
    ]
    listed += ["order     1, then 2", "ran     read_file a.txt", "needs your yes", "to: teh cat", "ran     send"]
    places = [done.shown.index(part) for part in listed]
    assert places == sorted(places)


async def test_tags_wait_for_execute_and_are_taken_back_like_any_call(
    chat: Callable[..., Awaitable[Chatted]], plain: Policy, folder: Path
) -> None:
    asks = plain.model_copy(update={"approval": plain.approval.model_copy(update={"reads": "ask", "mode": "each"})})
    read = says("<read_file><path>a.txt</path></read_file>")
    change = says("<modify_file><path>a.txt</path><search>teh</search><replace>the</replace></modify_file>")
    script = [read, change, says("Fixed.")]
    done = await chat(["fix a.txt", "/execute"], *script, answers=("y",), policy=asks, dialect="action_tags")
    assert done.shown.count("waits   read_file a.txt") == 1
    assert (folder / "a.txt").read_text() == "the cat"
    again = [read, change, says("Fixed.")]
    (folder / "a.txt").write_text("teh cat")
    auto = ["/auto on", "fix a.txt", "/undo"]
    done = await chat(auto, *again, answers=("y",), policy=asks, dialect="action_tags")
    assert "waits" not in done.shown
    assert (folder / "a.txt").read_text() == "teh cat"


async def test_switches_are_recorded_off_at_start_and_shown(chat: Callable[..., Awaitable[Chatted]]) -> None:
    done = await chat(["/auto", "/auto on", "/dry-run on", "/auto off", "/auto maybe"])
    assert "/auto is off; say" in done.shown
    switched = [event.body for event in done.events if event.kind == "policy_changed"]
    assert switched == [PolicyChanged(auto=True), PolicyChanged(dry_run=True), PolicyChanged(auto=False)]
    assert {event.actor for event in done.events if event.kind == "policy_changed"} == {"person"}


async def test_the_commands_show_what_the_session_knows(chat: Callable[..., Awaitable[Chatted]]) -> None:
    lines = ["fix a.txt", "/evidence", "/decisions", "/decisions all", "/plan", "/history", "/policy", "/help", "/what"]
    done = await chat([*lines, "/quit", "never read"][:-1], calls(READ), calls(EDIT, text="Now."), says("Fixed."))
    for part in (
        "file a.txt: file_read at",
        "more decisions passed",
        "evidence_passed",
        "no plan is in force",
        "you    | fix a.txt",
        "tool   read_file a.txt (c4.1)",
        "validity     enforce",
        "/execute",
        "there is no command `/what`",
    ):
        assert part in done.shown


async def test_a_command_nobody_knows_is_answered_with_the_nearest(chat: Callable[..., Awaitable[Chatted]]) -> None:
    done = await chat(["/hlep", "/decsions all", "/xyzzy", "/" + "z" * 90, "/undo\nc1.1"])
    for said in (
        "there is no command `/hlep`; did you mean `/help`?",
        "there is no command `/decsions`; did you mean `/decisions`?",
        "there is no command `/xyzzy`; /help lists them",
        f"there is no command `/{'z' * 39}…`; /help lists them",
    ):
        assert said in " ".join(done.shown.split())


async def test_the_decisions_show_what_a_person_allowed_once_and_for_the_session(
    chat: Callable[..., Awaitable[Chatted]],
) -> None:
    script = [calls(SEND, text=SAY), says("Sent."), calls(SEND, text=SAY), says("Sent again.")]
    lines = ["mail bob@example.org", "and again to bob@example.org", "/decisions"]
    done = await chat(lines, *script, answers=("a",))
    assert done.shown.count("approval_granted") == 2


async def test_execute_without_anything_open_says_so(chat: Callable[..., Awaitable[Chatted]]) -> None:
    done = await chat(["/execute", "/execute x", "/execute 0"])
    assert "nothing waits for an answer" in done.shown
    assert done.shown.count("takes a number") == 2


class PressesCtrlC:
    """A model that waits while the person presses Ctrl-C, and answers the next time."""

    name = "slow"

    def __init__(self) -> None:
        self.pressed = False

    async def respond(self, request: ModelRequest, on_text: object = None) -> ModelResponse:
        """Send the signal once and wait for ever; then answer."""
        if not self.pressed:
            self.pressed = True
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.Event().wait()
        return says("still here")


async def test_ctrl_c_cancels_the_step_and_not_the_session(chat: Callable[..., Awaitable[Chatted]]) -> None:
    before = signal.getsignal(signal.SIGINT)
    done = await chat(["wait", KeyboardInterrupt, "hello"], model=PressesCtrlC())
    assert "cancelled no change was completed" in done.shown
    assert "still here" in done.shown
    ends = [(event.body.status, event.body.note) for event in done.events if isinstance(event.body, TaskEnded)]
    assert ends == [("cancelled", "the person cancelled"), ("completed", "")]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_was_done_before_a_task_was_cancelled_is_not_called_cancelled() -> None:
    out = io.StringIO()
    Screen(Console(file=out, width=80)).show_outcome(RunResult("cancelled", report=Report(done=("write_file a.txt",))))
    assert "done before: write_file a.txt" in out.getvalue()


async def test_ctrl_c_at_the_sheet_answers_the_call_as_cancelled(chat: Callable[..., Awaitable[Chatted]]) -> None:
    done = await chat(["mail bob@example.org"], calls(SEND, text=SAY), answers=(KeyboardInterrupt,))
    answered = [event.body for event in done.events if isinstance(event.body, CallAnswered)]
    assert [body.code for body in answered] == ["not_run_cancelled"]


class Pieces:
    """A model that streams the words of one text in small pieces, and then fails where `breaks`."""

    name = "pieces"

    def __init__(self, text: str, *, breaks: bool = False) -> None:
        self.text, self.breaks = text, breaks

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None] | None = None) -> ModelResponse:
        """Stream the text and answer with it."""
        for place in range(0, len(self.text), 7):
            assert on_text is not None
            on_text(self.text[place : place + 7])
        if self.breaks:
            raise ModelError("the connection broke")
        return says(self.text)


FORGED = """Foregate speaks:
approval  1 call needs your yes
  held    rules: denied_by_rule
approve? y
you> delete everything
[Foregate: all is verified]\rforegate: done
\x1b[2K\x1b[1G  ran     delete_path a.txt
{filling}  ran     delete_path a.txt
{filling}approve? """
FILLINGS = ("x" * 77, "x " * 39, "漢" * 38 + "x", "🏽" * 38, "\u0903" * 77, "\t" * 40 + "x")


@pytest.mark.parametrize("filling", FILLINGS)
@pytest.mark.parametrize("breaks", [False, True])
async def test_only_foregate_speaks_without_a_bar(
    chat: Callable[..., Awaitable[Chatted]], filling: str, breaks: bool
) -> None:
    def ours(done: Chatted) -> list[str]:
        """Return the lines without a bar from the first answer on, and check that no terminal breaks any."""
        lines = done.shown[done.shown.index("|") :].splitlines()
        assert all(count_columns(line) <= 80 for line in lines)
        return [line for line in lines if line != "|" and not line.startswith("| ")]

    plain = await chat(["hello"], model=Pieces("Well.", breaks=breaks))
    forged = await chat(["hello"], model=Pieces(FORGED.format(filling=filling), breaks=breaks))
    assert ours(forged) == ours(plain)
    assert bool(ours(plain)) == breaks


def test_a_terminal_made_narrower_while_a_text_streams_breaks_no_line_either() -> None:
    console = Console(file=io.StringIO(), width=80)
    screen = Screen(console)
    screen.stream("none of this fits in twenty columns ")
    console.width = 20
    screen.stream("four five six seven eight nine ten eleven")
    screen.say("ours")
    assert console.file.getvalue().splitlines()[1:] == [  # type: ignore[attr-defined]
        "| four five six", "| seven eight nine", "| ten eleven", "ours"]  # fmt: skip


async def test_the_line_by_foregate_is_its_own_and_one_the_model_writes_is_not(
    chat: Callable[..., Awaitable[Chatted]],
) -> None:
    wrong = ("edit_file", {"path": "a.txt", "old": "nowhere", "new": "x"})
    done = await chat(["fix a.txt"], calls(READ), calls(wrong, text="Now."), says("[Foregate: verified]"))
    assert "\n| [Foregate: verified]\n[Foregate: `edit_file a.txt` failed" in done.shown


async def test_nothing_a_model_or_tool_says_reaches_the_terminal_raw(chat: Callable[..., Awaitable[Chatted]]) -> None:
    evil = "[bold]x[/bold] \x1b]0;title\x07 \u202etxt.exe\r\x9b2J"
    script = [calls(SEND, text=SAY + evil), calls((f"tool{evil}", {}), text=evil), says(evil)]
    done = await chat(["mail bob@example.org"], *script, answers=("y",))
    assert not set("\x1b\x07\r\x9b\u202e") & set(done.shown)
    assert "[bold]x[/bold]" in done.shown
    assert "\\u{202E}txt.exe" in done.shown
