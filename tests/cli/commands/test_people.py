"""Who ran a session and who answered: in the log, from whichever side it came, and shown wherever it is looked at."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

import foregate
from foregate.agent.session.permissions import find_user
from foregate.assembly.home import open_home_log
from foregate.schemas.event import NeedAnswered
from foregate.schemas.event_body import PolicyChanged, SessionStarted
from foregate.schemas.identity import Identity, identify, name_person
from foregate.testing import ScriptedModel, calls, says
from tests.cli.commands.test_approvals import EDIT, ask, policy
from tests.cli.conftest import Cli, Piped, parse_lines

__all__ = ["policy"]
HERE = {"user": find_user(), "host": socket.gethostname(), "via": "program"}


def read_bodies(name: str) -> list[object]:
    with open_home_log() as log:
        return [event.body for event in log.events(name)]


def find_people(name: str) -> list[Identity | None]:
    """Return who began the session, and who went on with it."""
    return [body.by for body in read_bodies(name) if isinstance(body, (SessionStarted, PolicyChanged)) and body.by]


def find_answerers(name: str) -> list[Identity | None]:
    return [body.by for body in read_bodies(name) if isinstance(body, NeedAnswered)]


def test_a_session_says_the_systems_user_and_host_and_the_list_shows_them(cli: Cli, policy: Path) -> None:
    name = ask(EDIT)
    assert find_people(name) == [Identity(**HERE)]
    assert parse_lines(cli("audit", "list", "--json")[1])[0]["by"] == f"{HERE['user']}@{HERE['host']}"
    assert f"run by {Identity(**HERE)}" in cli("audit", "show", name)[1]
    assert parse_lines(cli("approvals", "list", "--json")[1])[0]["run_by"] == HERE
    assert str(Identity(**HERE)) in " ".join(cli("approvals", "show", name)[1].split())


def test_no_variable_of_the_environment_can_name_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    before = find_user()
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert find_user() == before != "somebody-else"


def test_a_session_says_whom_the_caller_has_authenticated_and_only_another_one_who_goes_on(policy: Path) -> None:
    name = ask(EDIT, user="ann@example.org")
    ann = Identity("ann@example.org", socket.gethostname(), "program")
    people = (ann, Identity("bob", "quay", "console"), Identity("bob", "quay", "console"))
    for number, user in enumerate(people):
        asks = ScriptedModel([calls(("write_file", {"path": f"{number}.txt", "content": "x"}), text="I write it.")])
        with foregate.Agent(model=asks, resume=name, user=user, person=foregate.AbsentPerson()) as agent:
            agent._get_runner().run(agent.cancel())
            assert agent.run_sync(f"write {number}.txt").status == "awaiting_approval"
    assert find_people(name) == [ann, Identity("bob", "quay", "console")]


def test_a_session_that_somebody_else_ends_counts_the_event_that_says_so(cli: Cli, policy: Path) -> None:
    name = ask(EDIT)
    with foregate.Agent(model=ScriptedModel([]), resume=name, user="bob") as agent:
        agent._get_runner().run(agent.cancel())
    code, out, _ = cli("audit", "verify", name)
    assert (code, out.startswith("verified:")) == (0, True), out


def test_a_session_that_somebody_else_goes_on_with_under_another_policy_is_sound(
    cli: Cli, policy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = ask(EDIT)
    monkeypatch.delenv("FOREGATE_POLICY")
    with foregate.Agent(model=ScriptedModel([says("fixed")]), resume=name, user="bob") as agent:
        agent._get_runner().run(agent.go_on())
    assert [one.user for one in find_people(name) if one] == [HERE["user"], "bob"]
    assert cli("audit", "verify", name)[1].startswith("verified:")


def test_who_looks_at_a_session_only_is_not_in_it(cli: Cli, policy: Path) -> None:
    name = ask(EDIT)
    before = len(read_bodies(name))
    with foregate.Agent(model=ScriptedModel([]), resume=name, user="bob", person=foregate.AbsentPerson()):
        pass
    assert [body.by for body in read_bodies(name)[before:] if isinstance(body, PolicyChanged) and body.by] == []


def test_an_answer_from_elsewhere_is_by_who_gave_it_there_and_explained_so(
    cli: Cli, policy: Path, piped: Piped
) -> None:
    name = ask(EDIT)
    assert cli("approvals", "approve", name)[0] == 0
    assert find_answerers(name) == [Identity(**HERE)]
    piped("")
    cli("resume", name)
    seq = next(row["seq"] for row in parse_lines(cli("audit", "show", name, "--json")[1]) if row["gate"] == "approval")
    assert f"{Identity(**HERE)} answered `yes`" in " ".join(
        cli("audit", "explain", f"{name}/{seq}.approval")[1].split()
    )


def test_a_session_that_goes_on_with_an_ended_one_is_by_who_goes_on(home: Path) -> None:
    with foregate.Agent(model=ScriptedModel([says("done")]), user="ann") as agent:
        agent.run_sync("say done")
        name = agent.session
    with foregate.Agent(model=ScriptedModel([says("more")]), resume=name, user="bob") as agent:
        agent.run_sync("say more")
        further = agent.session
    assert [[one.user for one in find_people(each) if one] for each in (name, further)] == [["ann"], ["bob"]]


async def test_an_answer_through_the_library_is_by_whom_it_names(home: Path, policy: Path) -> None:
    model = ScriptedModel([calls(EDIT, text="I will fix a.txt."), "fixed"])
    async with foregate.Agent(model=model, person=foregate.AbsentPerson()) as agent:
        await agent.run("fix teh in a.txt")
        name = agent.session
    with foregate.Approvals() as approvals:
        (question,) = await approvals.list()
        await approvals.answer(question, foregate.Reply("yes", by="ann@example.org"))
    assert find_answerers(name) == [Identity("ann@example.org", socket.gethostname(), "program")]


def test_a_line_of_the_stream_may_say_who_answers(cli: Cli, policy: Path, piped: Piped) -> None:
    name = ask(EDIT)
    answer_by_line(cli, piped, name, "no")
    assert find_answerers(name) == [Identity("ann", socket.gethostname(), "program")]


def test_a_permission_says_who_gave_it(cli: Cli, policy: Path, piped: Piped, home: Path) -> None:
    name = ask(EDIT)
    answer_by_line(cli, piped, name, "project")
    kept = json.loads(next(home.glob("permissions/*.json")).read_text())
    assert [one["by"] for one in kept["permissions"]] == ["ann"]


def answer_by_line(cli: Cli, piped: Piped, name: str, word: str) -> None:
    """Answer the open question of a session as a program does that has authenticated somebody."""
    asked = json.loads(cli("approvals", "show", name, "--json")[1])["request"]
    piped(json.dumps({"answer": word, "request": asked, "user": "ann"}) + "\n")
    cli("chat", "--resume", name, "--json")


def test_a_name_from_outside_is_one_short_line() -> None:
    assert name_person("ann\n\x1b[31m" + "x" * 500, "a\tb").user.startswith("ann \x1b[31m")
    assert len(name_person("x" * 500).user) == 128
    assert identify("the editor's person", None) is None
