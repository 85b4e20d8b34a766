"""Commands through the whole loop where no sandbox holds them: what no person said yes to leaves no trace."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.loop.runner import run
from foregate.agent.models.scripted import ScriptedPerson, answers, calls, says
from foregate.agent.tools.commands import run_command
from foregate.agent.workspace.workspace import Workspace
from foregate.schemas.judgement import Need
from foregate.schemas.protocols import Reply
from tests.agent.world import ACCEPT, plan_json
from tests.conftest import OpenSession
from tests.gates.blind import blind_plan, blind_step
from tests.policies import policy_with

pytestmark = pytest.mark.usefixtures("no_sandboxes")
TALK = "I understand what is wanted, and run this now."
POLICY = policy_with({"critique.level": "plan", "commands.about": [], "commands.reads": {}})
"""Nothing goes unasked but the short list."""


def command(*argv: str) -> tuple[str, dict[str, Any]]:
    return "run_command", {"argv": list(argv)}


@pytest.mark.parametrize(
    "argv",
    [
        ("find", "--", ".", "-maxdepth", "0", "-exec", "touch", "MARK", "{}", "+"),
        ("find", "--", ".", "-name", "a.txt", "-delete"),
    ],
)
async def test_with_nobody_present_a_search_that_runs_or_deletes_does_not_run(
    argv: tuple[str, ...], open_session: OpenSession, workspace: Workspace, folder: Path
) -> None:
    (folder / "a.txt").write_text("kept")
    planner = answers(blind_plan(blind_step("run_command", "the files")))
    session = await open_session(
        calls(command(*argv), text=TALK), planner, says("it was refused"), tools=[run_command(workspace, POLICY)]
    )
    await run(session, "look at the files")
    assert [path.name for path in folder.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("item", "first", "later"),
    [
        ("python3", ("python3", "--version"), ("python3", "-c", "open('MARK', 'w')")),
        ("env", ("env", "true"), ("env", "sh", "-c", "touch MARK")),
        ("git", ("git", "--version"), ("git", "-c", "alias.x=!touch MARK", "x")),
    ],
)
async def test_one_yes_to_a_tame_command_of_an_interpreter_is_none_to_what_another_runs(
    item: str,
    first: tuple[str, ...],
    later: tuple[str, ...],
    open_session: OpenSession,
    workspace: Workspace,
    folder: Path,
) -> None:
    wide = {"tool": "run_command", "target": item, "description": "and so on", "effect": "execute", "uses": 50}
    target = " ".join(first)
    person = ScriptedPerson(["yes", "no"])
    session = await open_session(
        calls(command(*first), text=TALK),
        answers(plan_json("run_command", target, wide)),
        answers(ACCEPT),
        calls(command(*later), text=TALK),
        answers(plan_json("run_command", " ".join(later[:1]), wide)),
        says("the person said no"),
        tools=[run_command(workspace, POLICY)],
        policy=POLICY,
        person=person,
    )
    await run(session, f"run {target}")
    person.finish()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "line", [("sh", "build.sh"), ("./build.sh",), ("env", "bash", "-x", "./build.sh")], ids=" ".join
)
async def test_what_was_allowed_for_the_session_is_asked_about_again_once_the_script_it_runs_is_another(
    line: tuple[str, ...], open_session: OpenSession, workspace: Workspace, folder: Path
) -> None:
    policy = policy_with({"plan.mode": "off", "critique.mode": "off"}, POLICY)
    (folder / "build.sh").write_text("#!/bin/sh\necho built >> OUT\n")
    (folder / "build.sh").chmod(0o755)
    person = ScriptedPerson(["grant", "no"])
    change = ("edit_file", {"path": "build.sh", "old": "built", "new": "harm"})
    steps = [command(*line), command(*line), ("read_file", {"path": "build.sh"}), change, command(*line)]
    session = await open_session(
        *(calls(step, text=TALK) for step in steps),
        says("the person said no"),
        tools=[run_command(workspace, policy)],
        policy=policy,
        person=person,
    )
    await run(session, "run build.sh, fix it, and run it again")
    person.finish()
    assert (folder / "OUT").read_text() == "built\nbuilt\n"


async def test_what_was_allowed_for_the_session_does_not_run_after_the_same_response_changed_the_script(
    open_session: OpenSession, workspace: Workspace, folder: Path
) -> None:
    policy = policy_with({"plan.mode": "off", "critique.mode": "off"}, POLICY)
    (folder / "build.sh").write_text("echo built >> OUT\n")
    build, change = command("sh", "build.sh"), ("edit_file", {"path": "build.sh", "old": "built", "new": "harm"})
    session = await open_session(
        calls(build, text=TALK),
        calls(("read_file", {"path": "build.sh"})),
        calls(change, build, text=TALK),
        says("it is another"),
        tools=[run_command(workspace, policy)],
        policy=policy,
        person=ScriptedPerson(["grant"]),
    )
    await run(session, "run build.sh, fix build.sh, and run build.sh again")
    assert "harm" in (folder / "build.sh").read_text()
    assert (folder / "OUT").read_text() == "built\n"


async def test_a_script_that_somebody_saves_while_a_person_is_asked_about_it_is_asked_about_again(
    open_session: OpenSession, workspace: Workspace, folder: Path
) -> None:
    policy = policy_with({"plan.mode": "off", "critique.mode": "off"}, POLICY)
    script = folder / "build.sh"
    script.write_text("echo built >> OUT\n")

    def save_and_say_yes(need: Need) -> Reply:
        script.write_text("echo harm >> OUT\n")
        return Reply("yes")

    person = ScriptedPerson([save_and_say_yes, "no"])
    session = await open_session(
        calls(command("sh", "build.sh"), text=TALK),
        says("the person said no"),
        tools=[run_command(workspace, policy)],
        policy=policy,
        person=person,
    )
    await run(session, "run build.sh")
    person.finish()
    assert not (folder / "OUT").exists()


async def test_what_a_plan_allows_several_times_is_asked_about_again_once_the_script_it_runs_is_another(
    open_session: OpenSession, workspace: Workspace, folder: Path
) -> None:
    (folder / "build.sh").write_text("echo built >> OUT\n")
    item = {"tool": "run_command", "target": "sh build.sh", "description": "again", "effect": "execute", "uses": 5}
    change = ("edit_file", {"path": "build.sh", "old": "built", "new": "harm"})
    again = calls(command("sh", "build.sh"), text=TALK)
    person = ScriptedPerson(["yes", "no"])
    session = await open_session(
        again,
        answers(plan_json("run_command", "sh build.sh", item)),
        answers(ACCEPT),
        again,
        calls(("read_file", {"path": "build.sh"})),
        calls(change, text=TALK),
        again,
        answers(plan_json("run_command", "sh build.sh", item)),
        says("the person said no"),
        tools=[run_command(workspace, POLICY)],
        policy=POLICY,
        person=person,
    )
    await run(session, "run build.sh, fix build.sh, and run build.sh again")
    person.finish()
    assert (folder / "OUT").read_text() == "built\nbuilt\n"


@pytest.mark.parametrize("key", ["core.fsmonitor", "diff.external", "diff.x.textconv", "filter.x.clean"])
async def test_git_that_somebody_lists_as_a_read_runs_nothing_a_repository_names(
    key: str, open_session: OpenSession, workspace: Workspace, folder: Path
) -> None:
    listed = {"options": [], "subcommands": ["diff"]}
    policy = policy_with({"commands.reads": {}, "commands.read_only": {"git": listed}})
    (folder / ".gitattributes").write_text("* filter=x diff=x\n")
    named = ("-c", "user.name=a", "-c", "user.email=a@b.c")
    for words in (("init", "-q"), ("add", "."), (*named, "commit", "-qm", "x"), ("config", key, "touch MARK; cat")):
        await asyncio.to_thread(subprocess.run, ["git", *words], cwd=folder, check=True)
    (folder / ".gitattributes").write_text("* filter=x diff=x\n# changed\n")
    tools = [run_command(workspace, policy)]
    await run(await open_session(calls(command("git", "diff")), says("seen"), tools=tools, policy=policy), "look at it")
    assert not (folder / "MARK").exists()
