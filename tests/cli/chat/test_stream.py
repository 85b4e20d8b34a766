"""`foregate chat --json`, driven by a program in a process of its own: what it reads, and what it can decide."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from foregate.assembly.home import Home
from tests.forever import FOREVER

Talking = Callable[..., "Talk"]


class Talk:
    """A chat with a program, which is this test."""

    def __init__(self, folder: Path, environ: dict[str, str], *arguments: str) -> None:
        command = [sys.executable, "-Im", "foregate", "chat", "--json", "--model", "rehearsal", *arguments]
        self.process = subprocess.Popen(
            command, cwd=folder, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.lines: list[dict[str, Any]] = []
        self.watchdog = threading.Timer(FOREVER, self.process.kill)
        self.watchdog.start()

    def close(self) -> None:
        """Leave nothing behind, whatever the test has come to."""
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def say(self, *lines: str | dict[str, Any]) -> None:
        """Send lines at once."""
        assert self.process.stdin is not None
        self.process.stdin.write("".join(f"{x if isinstance(x, str) else json.dumps(x)}\n" for x in lines))
        self.process.stdin.flush()

    def until(self, key: str, value: str = "") -> dict[str, Any]:
        """Return the next line with `key`, and `value` there unless that is empty."""
        assert self.process.stdout is not None
        for text in self.process.stdout:
            self.lines.append(json.loads(text))
            if key in self.lines[-1] and value in ("", self.lines[-1][key]):
                return self.lines[-1]
        raise AssertionError(f"{key} {value} was never said: {self.lines}")

    def leave(self) -> int:
        """End the input, read what is left and return the exit code."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        self.lines += [json.loads(line) for line in self.process.stdout]
        return self.process.wait(FOREVER)

    @property
    def kinds(self) -> list[str]:
        """The kinds of the events so far."""
        return [line["kind"] for line in self.lines if "kind" in line]

    @property
    def errors(self) -> list[str]:
        """What was said to be wrong so far."""
        return [line["error"] for line in self.lines if "error" in line]


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """An environment with a home of its own and no endpoint."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "FOREGATE_"))}
    return kept | {"FOREGATE_HOME": str(tmp_path / "home")}


@pytest.fixture
def talk(folder: Path, tmp_path: Path, environ: dict[str, str]) -> Iterator[Talking]:
    """Starts chats over a workspace with two files, under a policy that asks about every change."""
    (folder / "a.txt").write_text("teh cat\n")
    (folder / "b.txt").write_text("b\n")
    policy = tmp_path / "policy.yaml"
    policy.write_text("approval:\n  mode: each\n")
    talks: list[Talk] = []

    def start(*arguments: str) -> Talk:
        talks.append(Talk(folder, environ, "--policy", str(policy), *arguments))
        talks[-1].until("opened")
        return talks[-1]

    yield start
    for one in talks:
        one.close()


FIX = {"message": "in a.txt replace teh with the"}


def test_a_program_reads_the_log_as_it_grows_and_decides_on_what_it_was_shown(
    talk: Talking, folder: Path, environ: dict[str, str]
) -> None:
    chat = talk()
    chat.say(FIX)
    asked = chat.until("asks")
    assert (asked["asks"], asked["answers"]) == ("approval", ["yes", "grant", "project", "no"])
    ((call, prospect),) = asked["prospects"].items()
    assert call == asked["sheet"]["calls"][0]["call"]
    (change,) = prospect["changes"]
    assert change == {"path": "a.txt", "new": False, "diff": "@@ -1,1 +1,1 @@\n-teh cat\n+the cat\n"}
    assert prospect["kept"] == ["a.txt"]
    assert chat.lines[-2]["body"]["request"] == asked["request"]
    chat.say({"answer": "yes", "request": asked["request"]})
    chat.until("kind", "task_ended")
    assert (folder / "a.txt").read_text() == "the cat\n"
    chat.say("/undo")
    chat.until("kind", "effect_undone")
    assert (folder / "a.txt").read_text() == "teh cat\n"
    assert chat.leave() == 0
    log = Home(Path(environ["FOREGATE_HOME"])).open_log()
    try:
        recorded = [{**json.loads(text), "hash": hash_} for _, text, hash_ in log.lines(chat.lines[0]["session"])]
    finally:
        log.close()
    assert [line for line in chat.lines if "kind" in line] == recorded
    answers = [event["body"]["answer"] for event in recorded if event["kind"] == "need_answered"]
    assert [answer["value"]["by"] for answer in answers] == ["program"]
    assert chat.errors == []


def test_only_a_clear_answer_to_the_question_that_is_open_decides_it(talk: Talking, folder: Path) -> None:
    chat = talk()
    chat.say(FIX)
    asked = chat.until("asks")
    bad = [
        {"answer": "yes", "request": "0" * 64},
        {"answer": "Yes"},
        {"answer": "anyway"},
        {"answer": "yes", "sure": True},
        "yes!",
        "{",
        "/undo",
    ]
    for line in bad:
        chat.say(line)
        chat.until("error")
    assert "need_answered" not in chat.kinds
    assert (folder / "a.txt").read_text() == "teh cat\n"
    chat.say("", "n not today")
    chat.until("kind", "task_ended")
    assert "not today" in json.dumps([line for line in chat.lines if line.get("kind") == "call_answered"][-1])
    chat.say({"answer": "yes", "request": asked["request"]})
    assert "no question is open" in chat.until("error")["error"]
    assert chat.leave() == 0
    assert (folder / "a.txt").read_text() == "teh cat\n"


def test_a_program_answers_each_call_by_its_id_and_the_log_keeps_what_it_named(talk: Talking, folder: Path) -> None:
    chat = talk()
    chat.say(FIX)
    (call,) = chat.until("asks")["sheet"]["calls"]
    chat.say({"answer": "yes", "calls": {"c9.9": "no"}})
    assert "`c9.9` is no call of this question" in chat.until("error")["error"]
    chat.say({"answer": "yes", "calls": {call["call"]: "no"}, "named": {call["call"]: ["a.txt"]}, "text": "not now"})
    value = chat.until("kind", "need_answered")["body"]["answer"]["value"]
    assert (value["calls"], value["named"]) == ({call["call"]: "no"}, {call["call"]: ["a.txt"]})
    assert "not now" in chat.until("kind", "call_answered")["body"]["message"]
    chat.until("kind", "task_ended")
    assert chat.leave() == 0
    assert (folder / "a.txt").read_text() == "teh cat\n"


def test_an_answer_sent_before_its_question_decides_nothing_and_the_question_stays_open(
    talk: Talking, folder: Path
) -> None:
    chat = talk()
    chat.say(FIX, {"answer": "yes"}, "y")
    chat.until("error")
    assert chat.leave() == 7
    assert [error for error in chat.errors if "came before the question" not in error] == []
    assert len(chat.errors) == 2
    assert chat.kinds[-1] == "task_paused"
    assert (folder / "a.txt").read_text() == "teh cat\n"
    again = talk("--resume", "last")
    asked = again.until("asks")
    assert asked["request"] == next(line["request"] for line in chat.lines if "asks" in line)
    again.say({"answer": "yes", "request": asked["request"]})
    again.until("kind", "task_ended")
    assert again.leave() == 0
    assert (folder / "a.txt").read_text() == "the cat\n"


def test_a_message_while_a_question_is_open_answers_nothing_and_a_cancel_gives_the_task_up(
    talk: Talking, folder: Path
) -> None:
    chat = talk()
    chat.say(FIX)
    chat.until("asks")
    chat.say({"message": "read b.txt"})
    assert "a question is open: answer it, or give its task up" in chat.until("error")["error"]
    chat.say({"command": "/cancel"})
    assert chat.until("kind", "task_ended")["body"]["status"] == "cancelled"
    assert not [line for line in chat.lines if line.get("kind") == "need_answered"]
    chat.say({"message": "read b.txt"})
    assert chat.until("kind", "task_ended")["body"]["status"] == "completed"
    assert chat.leave() == 0
    assert (folder / "a.txt").read_text() == "teh cat\n"


def test_a_question_answered_elsewhere_while_it_is_shown_is_taken_and_goes_on(
    talk: Talking, folder: Path, environ: dict[str, str]
) -> None:
    chat = talk()
    chat.say(FIX)
    chat.until("asks")
    name = next(line["opened"] for line in chat.lines if "opened" in line)
    command = [sys.executable, "-Im", "foregate", "approvals", "approve", name, "--json"]
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["delivery"] == "taken"
    assert chat.until("kind", "need_answered")["body"]["elsewhere"] is True
    assert chat.until("kind", "task_ended")["body"]["status"] == "completed"
    chat.say({"answer": "no"})
    assert "no question is open" in chat.until("error")["error"]
    assert chat.leave() == 0
    assert (folder / "a.txt").read_text() == "the cat\n"


def test_commands_that_only_show_something_are_refused_and_switches_are_recorded(talk: Talking) -> None:
    chat = talk()
    chat.say("/help", "/auto", "/nothing", "/quit now", "/execute", "/undo", {"command": "undo"})
    for _ in range(7):
        chat.until("error")
    chat.say("/decisions", "/hlep")
    for _ in range(2):
        chat.until("error")
    assert chat.errors == [
        "`/help` is for a person at a terminal; a program reads the events",
        "say `/auto on|off`",
        "there is no command `/nothing`; /help lists them",
        "say `/quit`",
        "nothing waits for an answer",
        *chat.errors[5:7],
        "`/decisions` is for a person at a terminal; a program reads the events",
        "there is no command `/hlep`; did you mean `/help`?",
    ]
    chat.say({"command": "/auto on"})
    assert chat.until("kind", "policy_changed")["body"] == {"auto": True}
    chat.say("clean this up")
    assert chat.until("kind", "task_paused")["body"]["reason"] == "needs_input"
    chat.say("/quit", "never read")
    assert chat.leave() == 6
    assert "never read" not in json.dumps(chat.lines)


def test_an_interrupt_at_a_question_cancels_the_task_and_the_chat_goes_on(talk: Talking, folder: Path) -> None:
    chat = talk()
    chat.say(FIX)
    asked = chat.until("asks")
    chat.process.send_signal(signal.SIGINT)
    assert chat.until("kind", "task_ended")["body"]["status"] == "cancelled"
    chat.say({"answer": "yes", "request": asked["request"]})
    chat.until("error")
    chat.say("read b.txt")
    assert chat.until("kind", "task_ended")["body"]["status"] == "completed"
    assert chat.leave() == 0
    assert (folder / "a.txt").read_text() == "teh cat\n"


def test_what_cannot_be_opened_is_one_sentence_on_standard_error(environ: dict[str, str], folder: Path) -> None:
    command = [sys.executable, "-Im", "foregate", "chat", "--json", "--resume", "nothing"]
    done = subprocess.run(
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=FOREVER
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.parametrize("line", ["/cancel", {"command": "/cancel"}])
def test_a_line_that_cancels_ends_the_task_at_a_question_and_the_chat_goes_on(
    talk: Talking, folder: Path, line: str | dict[str, str]
) -> None:
    chat = talk()
    chat.say(FIX)
    chat.until("asks")
    chat.say(line)
    assert chat.until("kind", "task_ended")["body"]["status"] == "cancelled"
    chat.say("/nothing")
    chat.until("error")
    chat.say(line)
    assert chat.until("error")["error"] == "no task is open here, so there is nothing to cancel"
    chat.say("read b.txt")
    assert chat.until("kind", "task_ended")["body"]["status"] == "completed"
    assert chat.leave() == 0
    assert (folder / "a.txt").read_text() == "teh cat\n"


def test_a_line_that_cancels_stops_what_runs(talk: Talking, folder: Path) -> None:
    chat = talk("--policy", str(unasked(folder)))
    chat.say("run sleep 600")
    chat.until("kind", "tool_started")
    chat.say("/cancel")
    assert chat.until("kind", "task_ended")["body"]["status"] == "cancelled"
    assert chat.leave() == 0


def test_a_program_is_told_which_outcomes_are_unknown_and_says_what_it_knows(talk: Talking) -> None:
    chat = talk()
    chat.say("/resolve", "/resolve c9.9 done", "/resolve c9.9")
    assert chat.until("unknown")["unknown"] == {}
    for _ in range(2):
        chat.until("error")
    assert chat.errors[-1] == "say `/resolve CALL done|not-done`"
    assert "c9.9" in chat.errors[0]
    assert chat.leave() == 0


def unasked(folder: Path) -> Path:
    """Return a policy file under which `sleep` runs unasked."""
    file = folder.parent / "policy.yaml"
    file.write_text("plan:\n  mode: 'off'\ncommands:\n  read_only:\n    sleep: {options: []}\n")
    return file
