"""The demonstration: what it promises is asserted from its log and its workspace."""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import httpx2
import pytest
from rich.console import Console

from foregate.agent.models import rehearsal_model
from foregate.assembly.home import Home
from foregate.cli.demo import (
    ADDRESS,
    FILES,
    FLAWED,
    FOREIGN,
    MESSAGE,
    MESSAGES,
    NEWS,
    OUTBOX,
    STALE,
    BrokenPromise,
    build_workspace,
    check_log,
    check_mandate,
    check_workspace,
    collect_codes,
    read_outbox,
    run_demo,
    run_git,
    show_demo,
)
from foregate.cli.reports import format_explanation
from foregate.schemas.codes import GATES
from foregate.schemas.errors import UsageError
from foregate.schemas.event import Event, TurnJudged
from foregate.schemas.event_body import TaskEnded, UserMessage
from foregate.telemetry.log.sqlite_log import SqliteLog
from foregate.telemetry.queries.decisions import read_decisions
from foregate.tuning.explanation import explain
from foregate.views.terminal.timeline import format_decision
from tests.docs.pages import DOCS, code_of
from tests.forever import FOREVER


@dataclass(frozen=True)
class Shown:
    """A demonstration that has run: what it printed, its workspace and its events."""

    text: str
    folder: Path
    events: list[Event]


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """One run of the demonstration, kept for all tests of this module."""
    out = io.StringIO()
    place = asyncio.run(show_demo(Console(file=out, width=80, highlight=False), tmp_path_factory.mktemp("demo")))
    log = Home(place / "home").open_log()
    (session,) = asyncio.run(sessions(log))
    events = list(log.events(session))
    log.close()
    return Shown(out.getvalue(), place / "workspace", events)


async def sessions(log: SqliteLog) -> Sequence[str]:
    """The names of the sessions in a log."""
    return await log.sessions()


def test_every_gate_stepped_in_under_the_codes_it_is_known_for(shown: Shown) -> None:
    codes = collect_codes(read_decisions(shown.events))
    assert set(codes) == set(GATES)
    for gate, code in (
        ("validity", "unknown_tool"),
        ("validity", "invalid_arguments"),
        ("rules", "denied_by_rule"),
        ("narration", "narration_required"),
        ("drift", "text_only_turn_side_effecting_tool_drift"),
        ("uncertainty", "uncertainty_clarification"),
        ("evidence", "missing_pre_execution_evidence"),
        ("plan", "plan_drift"),
        ("critique", "critique_rejected"),
        ("approval", "approval_granted"),
        ("approval", "outside_mandate"),
    ):
        assert code in codes[gate]


def test_it_takes_four_messages_and_its_tasks_end_well(shown: Shown) -> None:
    said = [event.body.text for event in shown.events if isinstance(event.body, UserMessage)]
    assert said == list(MESSAGES)
    ended = [event.body for event in shown.events if isinstance(event.body, TaskEnded)]
    assert [body.status for body in ended] == ["completed"] * 3


def test_the_work_is_done_and_the_call_that_deleted_a_log_taken_back_whole(shown: Shown) -> None:
    assert "receive" in (shown.folder / FLAWED).read_text()
    assert run_git(shown.folder, "log", "-1", "--format=%s").strip() == MESSAGE
    assert run_git(shown.folder, "show", "--stat", "--format=", "HEAD").count("|") == 4
    assert (shown.folder / STALE[0]).exists() == ("undo of run_shell" in shown.text)
    assert (shown.folder / STALE[1]).read_text() == FILES[STALE[1]]
    assert sum(event.kind == "effect_undone" for event in shown.events) == 1


def test_commands_run_in_sandboxes_and_their_true_diff_is_kept_or_thrown_away(shown: Shown) -> None:
    if "This machine has no sandbox" in shown.text:
        pytest.skip("this machine has no sandboxes")
    assert "  ran     run_command sh inbox.sh: created 1\n" in shown.text
    asked = shown.text.index("  approval  this ran in a sandbox: may what it changed there be kept?\n")
    sheet = shown.text[asked:].partition("the demonstration answers: no")[0]
    assert "  | + on: push\n" in sheet
    assert "run_shell rm -f logs/*.log: deleted 2" in shown.text
    assert "== undo of run_shell rm -f logs/*.log ==" in shown.text
    assert "  | + 2024-02-11 started\n" in shown.text


def test_the_call_that_was_granted_runs_and_reaches_its_remote(shown: Shown) -> None:
    assert "  ran     run_command git push --tags\n  | Everything up-to-date\n" in shown.text
    assert "  failed  " not in shown.text


def test_the_decisions_on_what_sandboxes_changed_are_explained_in_words(shown: Shown) -> None:
    judged = [event for event in shown.events if isinstance(event.body, TurnJudged)]
    held = [event.seq for event in judged if event.body.turn.actor == "sandbox"]
    if not held:
        pytest.skip("this machine has no sandboxes")
    log = Home(shown.folder.parent / "home").open_log()
    with closing(log):
        told = "\n".join(format_explanation(explain(log, shown.events[0].session, held[0], "evidence"), 200))
    assert "UTC the sandbox held the changes of `run_shell` on `rm -f logs/*.log`, which would delete." in told
    assert "the model was shown what it would have changed" in told
    assert f"Event {held[1] - 1}: it ran in a sandbox: deleted 2." in told
    points = [point for point in read_decisions(shown.events) if point.address == f"{held[0]}.evidence"]
    assert "missing_pre_execution_evidence [sandbox]: run_shell rm" in format_decision(points[0], 0).plain


@pytest.mark.usefixtures("no_sandboxes")
def test_without_sandboxes_it_says_so_and_shows_the_rest(tmp_path: Path) -> None:
    out = io.StringIO()
    asyncio.run(run_demo(Console(file=out, width=80, highlight=False), tmp_path))
    shown = " ".join(out.getvalue().split())
    assert "No sandbox holds this command: it runs as you do. `foregate doctor` says why." in shown
    assert "verified: " in shown


def test_what_the_person_said_goes_out_unasked_and_what_a_letter_said_not_for_a_yes(shown: Shown) -> None:
    post = shown.text.partition("read the mail.")[2].partition("\n==")[0]
    before, _, after = post.partition(f"  ran     send_message {ADDRESS}\n")
    assert "plan: plan_not_required" in before
    assert "approval" not in before
    sheet = after.partition("the demonstration answers: yes, and types nothing")[0]
    assert f"value     to: {FOREIGN}\n  who said  not you: read_mail" in sheet
    assert f"`send_message {FOREIGN}` was not done (outside_mandate)" in post
    assert read_outbox(shown.folder.parent / OUTBOX) == [(ADDRESS, NEWS)]


def test_the_page_of_the_mandate_shows_what_the_demonstration_prints(shown: Shown) -> None:
    (printed,) = (text for text in code_of(DOCS / "explanation" / "mandate.md", "") if text.startswith("you> "))
    place = 0
    for part in printed.split("  ...\n"):
        place = shown.text.index(part.rstrip("\n"), place)


def test_a_message_that_went_wrong_breaks_the_promise(shown: Shown) -> None:
    points, good = list(read_decisions(shown.events)), [(ADDRESS, NEWS)]
    check_mandate(points, good)
    for sent, why in (([*good, (FOREIGN, NEWS)], "only a letter named"), ([], "did not go out"), (good * 2, "once")):
        with pytest.raises(BrokenPromise, match=why):
            check_mandate(points, sent)
    for code, why in (("plan_not_required", "more than the words"), ("outside_mandate", "nobody was asked")):
        with pytest.raises(BrokenPromise, match=why):
            check_mandate([point for point in points if point.code != code], good)


def test_what_is_printed_ends_with_the_number_of_events_in_the_log(shown: Shown) -> None:
    assert f"verified: {len(shown.events)} events" in shown.text
    for heading in ("timeline of decision points", "replay notes", "undo", "every gate stepped in"):
        assert f"== {heading}" in shown.text
    assert "the demonstration answers: yes" in shown.text


def test_every_line_fits_eighty_columns_without_colour_codes(shown: Shown) -> None:
    *lines, opens = shown.text.splitlines()
    assert max(map(len, lines)) <= 80
    assert opens.startswith("FOREGATE_HOME=")  # a folder may be longer
    assert "\x1b" not in shown.text


def test_the_last_line_opens_the_console_on_its_own_session(shown: Shown) -> None:
    variable, program, *words = shlex.split(shown.text.splitlines()[-1])
    assert (program, words) == ("foregate", ["console", "last"])
    environ = {**os.environ, **dict([variable.split("=", 1)])}
    command = [sys.executable, "-P", "-m", "foregate", *words, "--port", "0", "--no-open"]
    with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            entrance = process.stdout.readline().split()[-1]
            with httpx2.Client(timeout=FOREVER) as browser:
                leads = re.search(r'href="(/sessions/[^"]*)">Go on', browser.get(entrance).text)
                assert leads is not None
                page = browser.get(f"{entrance.partition('/enter')[0]}{leads[1]}").text
        finally:
            process.send_signal(signal.SIGINT)
    assert process.returncode == 0
    assert MESSAGE in unescape(page)


def test_after_an_error_no_folder_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="needs git"):
        asyncio.run(show_demo(Console(file=io.StringIO()), tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_each_gate_that_did_not_step_in_breaks_the_promise(shown: Shown) -> None:
    check_log(shown.events)
    for gate in GATES:
        without = [event for event in shown.events if not mentions(event, gate)]
        with pytest.raises(BrokenPromise, match=f"`{gate}` never stepped in"):
            check_log(without)


def mentions(event: Event, gate: str) -> bool:
    """Whether a gate stepped in at this event."""
    return bool(collect_codes(read_decisions([event])).get(gate))


def test_a_model_that_behaves_well_breaks_the_promise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    careful = rehearsal_model.RehearsalModel(stumbles=False)
    monkeypatch.setattr(rehearsal_model, "RehearsalModel", lambda stumbles: careful)
    with pytest.raises(BrokenPromise, match="never stepped in"):
        asyncio.run(run_demo(Console(file=io.StringIO(), width=80), tmp_path))


def test_a_workspace_in_which_nothing_was_done_breaks_the_promise(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    build_workspace(folder)
    with pytest.raises(BrokenPromise, match="was not mended"):
        check_workspace(folder, (folder / ".git" / "config").read_text())


def test_without_git_it_says_so_in_one_sentence_and_fails(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "foregate", "demo"]
    environ = {**os.environ, "PATH": str(tmp_path), "FOREGATE_HOME": str(tmp_path / "home")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode != 0
    assert done.stderr.count("\n") == 1
    assert "needs git" in done.stderr
