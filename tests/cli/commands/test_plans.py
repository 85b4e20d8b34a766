"""Plans at a terminal, on a real workspace, with the rehearsal model."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from foregate import Agent
from foregate.agent.models.rehearsal_model import RehearsalModel
from foregate.agent.models.scripted import ScriptedModel, says
from foregate.agent.planning.answering import PlanReport
from foregate.agent.planning.configuration import default_configuration
from foregate.agent.planning.planner import make_plan, record_proposal
from foregate.assembly.model_roles import ModelRoles
from foregate.assembly.open import open_session
from foregate.assembly.setting import SessionOptions
from foregate.cli.chat.conversation import ChatSession
from foregate.cli.demo import DEFECT, FILES, FLAWED, MENDED, STALE, build_workspace, run_git
from foregate.schemas.errors import UsageError
from foregate.schemas.task_plan import PlannedCall, PlanTask, TaskPlan
from foregate.views.terminal.person import PersonAtTerminal
from foregate.views.terminal.plan_finding import format_plan_file, save_plan
from foregate.views.terminal.plan_sheet import PlanPerson
from foregate.views.terminal.plan_work import PlanWork
from foregate.views.terminal.screen import Screen
from tests.cli.typist import Typed, Typist

CHORE = (
    f'Fix the typo "{DEFECT}" -> "{MENDED}" in {FLAWED}; delete the stale logs in logs; '
    f'run sh {FLAWED}; commit everything with message "Mend".'
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ws"
    made.mkdir()
    build_workspace(made)
    return made


async def at_work(
    folder: Path, answers: Sequence[Typed], *, interactive: bool = True, policy: Path | None = None
) -> PlanWork:
    """Return the work on a plan of a new session in the folder, with a person who types the answers."""
    screen = Screen(Console(file=io.StringIO(), width=100, height=200))
    terminal = Typist(answers=answers, interactive=interactive)
    opened = await open_session(
        SessionOptions(
            workspace=folder,
            policy=policy,
            model=RehearsalModel(),
            person=PersonAtTerminal(screen, terminal) if interactive else None,
            environ={"FOREGATE_HOME": str(folder.parent / "home")},
        )
    )
    person = opened.session.person
    if isinstance(person, PersonAtTerminal):
        person.plans = PlanPerson(opened.session, screen, terminal).answer
    work = PlanWork(opened, screen, terminal, default_configuration())
    await work.follow_plan()
    return work


def shown(work: PlanWork) -> str:
    """Return what was printed."""
    file = work.screen.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


async def planned(work: PlanWork, request: str = CHORE) -> None:
    """Have the rehearsal model plan."""
    planning = await make_plan(work.opened.session, request, RehearsalModel(), work.configuration)
    assert planning.plan is not None, planning.defects


async def confirmed_and_run(work: PlanWork, *, yes: bool = False, step: bool = False) -> PlanReport | None:
    """Confirm the session's plan and run it."""
    report, ran = await work.take_through(yes=yes, step=step)
    return report if ran else None


async def test_the_demonstrations_chore_is_planned_confirmed_once_and_done(folder: Path) -> None:
    work = await at_work(folder, ["y"])
    await planned(work)
    report = await confirmed_and_run(work)
    assert report is not None
    assert (report.status, report.reason) == ("completed", "")
    assert (folder / FLAWED).read_text() == FILES[FLAWED].replace(DEFECT, MENDED)
    assert not any((folder / name).exists() for name in STALE)
    assert run_git(folder, "log", "--format=%s").splitlines()[0] == "Mend"
    await work.opened.close()


async def test_a_docstring_is_planned_before_the_file_is_read_and_filled_in_afterwards(folder: Path) -> None:
    (folder / "main.py").write_text("def main() -> None:\n    print(1)\n")
    work = await at_work(folder, ["y", "y"])
    await planned(work, "Read main.py and add docstring to the main() function")
    report = await confirmed_and_run(work)
    assert report is not None
    assert (report.status, report.reason) == ("completed", "")
    assert (folder / "main.py").read_text() == 'def main() -> None:\n    """Run the program."""\n    print(1)\n'
    await work.opened.close()


@pytest.mark.parametrize("test", ["false", "true"])
async def test_a_failing_test_is_planned_and_looked_into(folder: Path, test: str) -> None:
    (folder / "Makefile").write_text(f"test:\n\techo {FLAWED}:2 && {test}\n")
    work = await at_work(folder, ["y", "y"])
    await planned(work, "Debug the failing integration test")
    report = await confirmed_and_run(work)
    assert report is not None
    assert (report.status, report.reason) == ("completed", "")
    assert report.tasks[-1].status == ("done" if test == "false" else "skipped")
    await work.opened.close()


async def test_a_commit_only_of_changes_is_planned_and_skipped_without_any(folder: Path) -> None:
    work = await at_work(folder, ["y", "y"])
    await planned(work, "Check if there are uncommitted changes, and if so, commit them")
    report = await confirmed_and_run(work)
    assert report is not None
    assert [task.status for task in report.tasks] == ["done", "skipped"]
    await work.opened.close()


async def test_the_same_plan_from_a_file_asks_once_as_well(folder: Path) -> None:
    first = await at_work(folder, [])
    await planned(first)
    text = format_plan_file(first.state.current_plan)
    await first.opened.close()
    work = await at_work(folder, ["y"])
    found = work.check_plan(text)
    assert found.is_sound
    await record_proposal(work.opened.session, found.plan, work.configuration, actor="person")
    report = await confirmed_and_run(work)
    assert report is not None
    assert (report.status, report.reason) == ("completed", "")
    await work.opened.close()


async def test_no_and_the_end_of_input_run_nothing(folder: Path) -> None:
    for answer in ("n", None):
        work = await at_work(folder, [answer])
        await planned(work)
        assert await confirmed_and_run(work) is None
        assert (folder / FLAWED).read_text() == FILES[FLAWED]
        await work.opened.close()


async def test_a_person_reads_that_results_were_left_out_and_what_the_model_thought(folder: Path) -> None:
    work = await at_work(folder, ["y"])
    changes = {"context": {"max_tokens": 1}, "formatting": {"include_reasoning": True}}
    made = {name: getattr(work.configuration, name).model_copy(update=keys) for name, keys in changes.items()}
    work.configuration = work.driver.configuration = work.configuration.model_copy(update=made)
    thinking = ScriptedModel([says("<think>Hm.</think>It is a script.")])
    work.opened.session.model = thinking
    work.driver.model = ModelRoles(work.configuration, work.opened.session.model, {}).get_model
    reading = PlanTask(1, reason="Read it", calls=(PlannedCall("read_file", {"path": FLAWED}),))
    await record_proposal(
        work.opened.session,
        TaskPlan("p", "", "look", (reading, PlanTask(2, action="analyze_error"))),
        work.configuration,
    )
    report = await confirmed_and_run(work)
    assert report is not None
    work.print_report(report, as_json=False)
    lines = [line.strip() for line in shown(work).splitlines()]
    assert "context for the model 2 older messages left out" in lines
    assert "thought   task 2: Hm." in lines
    await work.opened.close()


async def test_enter_alone_confirms_nothing(folder: Path) -> None:
    work = await at_work(folder, ["", "", "n"])
    await planned(work)
    assert await confirmed_and_run(work) is None
    await work.opened.close()


async def test_without_a_person_a_plan_needs_yes_said_beforehand(folder: Path) -> None:
    work = await at_work(folder, [], interactive=False)
    await planned(work)
    report, ran = await work.take_through()
    assert (report.status, ran, "nobody is here to confirm it" in report.reason) == ("blocked", False, True)
    assert (folder / FLAWED).read_text() == FILES[FLAWED]
    await work.opened.close()


async def test_yes_said_beforehand_is_no_leave_for_what_asks(folder: Path) -> None:
    shown = folder.parent / "shown.yaml"  # a plan made from the words alone would cover the words of the command
    shown.write_text("plan:\n  form: call\n")
    work = await at_work(folder, [], interactive=False, policy=shown)
    await planned(work, "run curl https://example.org/")
    report = await confirmed_and_run(work, yes=True)
    assert report is not None
    assert report.status == "blocked"
    assert "person" in report.reason
    await work.opened.close()


async def test_a_sheet_that_cut_an_argument_takes_no_yes_before_details(folder: Path) -> None:
    long = "x" * 2000
    work = await at_work(folder, ["y", "d", "y"])
    await planned(work, f'create long.txt with "{long}"')
    report = await confirmed_and_run(work)
    assert report is not None
    assert report.status == "completed"
    assert "not everything has been shown yet" in shown(work)
    assert isinstance(work.terminal, Typist)
    work.terminal.finish()
    await work.opened.close()


async def test_step_by_step_a_no_pauses_the_plan(folder: Path) -> None:
    work = await at_work(folder, ["s", "y", "n"])
    await planned(work, f'fix the typo "{DEFECT}" -> "{MENDED}" in {FLAWED}')
    report = await confirmed_and_run(work)
    assert report is not None
    assert [task.status for task in report.tasks] == ["done", "pending"]
    assert report.status == "paused"
    await work.opened.close()


async def test_an_edited_plan_is_checked_again_and_shown_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\nsed -i 's/{MENDED}/changed/' \"$1\"\n")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    work = await at_work(folder, ["e", "y"])
    await planned(work, f'fix the typo "{DEFECT}" -> "{MENDED}" in {FLAWED}')
    report = await confirmed_and_run(work)
    assert report is not None
    assert report.status == "completed", report
    assert "changed" in (folder / FLAWED).read_text()
    await work.opened.close()


async def test_what_is_odd_or_wrong_with_an_edited_plan_is_shown_before_the_sheet_is_shown_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "editor"
    missing = f'grep -q {FLAWED} "$1" && exec sed -i s/{FLAWED}/nothing.sh/ "$1"'
    editor.write_text(f'#!/bin/sh\n{missing}\nexec sed -i s/read_file/look/ "$1"\n')
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    work = await at_work(folder, ["e", "e", "n"])
    await record_proposal(
        work.opened.session,
        TaskPlan("p", "", "look", (PlanTask(1, reason="Look", calls=(PlannedCall("read_file", {"path": FLAWED}),)),)),
        work.configuration,
    )
    assert await confirmed_and_run(work) is None
    said = " ".join(shown(work).split())
    assert "warning task 1, calls.1.arguments.path: there is nothing at `nothing.sh`" in said
    assert "defect task 1, calls.1.tool: there is no tool `look`" in said
    assert said.index("warning task 1") < said.index("defect task 1") < said.rindex("plan look")
    await work.opened.close()


async def test_a_request_nobody_understands_ends_with_a_question(folder: Path) -> None:
    work = await at_work(folder, [])
    planning = await make_plan(work.opened.session, "frobnicate it", RehearsalModel(), work.configuration)
    assert planning.plan is None
    assert planning.tries == work.configuration.planning.planning_tries
    assert work.opened.session.state.task is not None
    assert work.opened.session.state.task.paused == "needs_input"
    kinds = [event.kind for event in await work.opened.session.log.read()]
    assert kinds.count("need_raised") == kinds.count("need_answered") == planning.tries
    await work.opened.close()


def test_a_file_made_while_the_plan_was_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text("mine")
    with pytest.raises(UsageError, match="name a new file"):
        save_plan(TaskPlan("p", "q", "g", (PlanTask(1),)), file)
    assert file.read_text() == "mine"


def test_a_written_plan_is_json() -> None:
    assert json.loads(format_plan_file(TaskPlan("p", "q", "g", (PlanTask(1),))))["goal"] == "g"


async def test_a_chat_plans_confirms_and_runs_in_its_own_session(folder: Path) -> None:
    screen = Screen(Console(file=io.StringIO(), width=100, height=200))
    request = f'fix the typo "{DEFECT}" -> "{MENDED}" in {FLAWED}'
    terminal = Typist([f"/plan {request}", "/plan frobnicate it", f"read {FLAWED}"], ["y", "y"])
    person = PersonAtTerminal(screen, terminal)
    opened = await open_session(
        SessionOptions(
            workspace=folder,
            model=RehearsalModel(),
            person=person,
            environ={"FOREGATE_HOME": str(folder.parent / "home")},
        )
    )
    chat = ChatSession(opened, terminal, screen, person)
    await chat.run_chat()
    assert MENDED in (folder / FLAWED).read_text()
    assert chat.outcome is not None
    assert chat.outcome.status == "completed"
    terminal.finish()
    await opened.close()


async def test_a_program_plans_and_executes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREGATE_HOME", str(folder.parent / "home"))
    async with Agent(model=RehearsalModel(), workspace=folder) as agent:
        planning = await agent.plan(f'fix the typo "{DEFECT}" -> "{MENDED}" in {FLAWED}')
        assert planning.plan is not None
        with pytest.raises(UsageError, match="confirmed=True"):
            await agent.execute(planning.plan)
        assert (folder / FLAWED).read_text() == FILES[FLAWED]
        report = await agent.execute(planning.plan, confirmed=True)
    assert report.status == "completed", report
    assert MENDED in (folder / FLAWED).read_text()


async def test_the_sheet_shows_what_a_yes_covers_of_a_task_that_is_filled_in(folder: Path) -> None:
    work = await at_work(folder, ["n"])
    tasks = (PlanTask(1, action="write_file", target=FLAWED), PlanTask(2, action="write_file", target="*.sh"))
    await record_proposal(work.opened.session, TaskPlan("p", "mend it", "mend it", tasks), work.configuration)
    assert await confirmed_and_run(work) is None
    assert shown(work).count("is leave to") == 1
    assert f"is leave to edit file {FLAWED} with write_file, 3 times at most" in " ".join(shown(work).split())
    await work.opened.close()


@pytest.mark.parametrize(
    ("answers", "status"), [(["", "x", "g"], "failed"), (["s"], "blocked"), (["b"], "blocked"), ([None], "paused")]
)
async def test_after_a_failure_the_person_sees_what_failed_and_chooses(
    folder: Path, answers: list[Typed], status: str
) -> None:
    work = await at_work(folder, ["y", *answers])
    wrong = PlannedCall("edit_file", {"path": FLAWED, "old": "not there", "new": "x"})
    tasks = (PlanTask(1, calls=(wrong,)), PlanTask(2, calls=(PlannedCall("read_file", {"path": FLAWED}),)))
    await record_proposal(
        work.opened.session,
        TaskPlan("p", f"edit {FLAWED}", f"edit {FLAWED}", tasks, on_failure="ask"),
        work.configuration,
    )
    report = await confirmed_and_run(work)
    assert report is not None
    assert report.status == status
    assert f"edit_file {FLAWED}: " in shown(work)
    assert isinstance(work.terminal, Typist)
    work.terminal.finish()
    await work.opened.close()
