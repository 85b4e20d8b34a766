"""`policy rehearse` at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

import foregate
from tests.cli.commands.test_what_if import EDIT, NO_EDIT, objects
from tests.cli.conftest import Cli

SENT_BACK = "narration: {scope: first_response}\n"


def rehearse(cli: Cli, policy: str, *more: str) -> tuple[int, str, str]:
    """Run `policy rehearse` over a file that says `policy`."""
    Path("new.yaml").write_text(policy)
    return cli("policy", "rehearse", "new.yaml", *more)


def test_sessions_of_the_rehearsal_model_come_to_the_same_under_their_own_policy(cli: Cli) -> None:
    cli("run", EDIT)
    cli("run", "run ls")
    before = Path("a.txt").read_bytes()
    code, out, err = rehearse(cli, "{}\n", "--json")
    assert (code, err) == (0, "")
    *sessions, summary = objects(out)
    assert [one["now"] == one["then"] and not one["stopped"] for one in sessions] == [True, True]
    assert summary["whole"]["sessions"] == 2
    assert summary["whole"]["now"]["requests"] > 2
    assert Path("a.txt").read_bytes() == before


def test_a_session_that_would_go_another_way_is_stopped_there_and_says_why(cli: Cli) -> None:
    cli("run", EDIT)
    code, out, err = rehearse(cli, NO_EDIT)
    assert (code, err) == (0, "")
    assert all(len(line) <= 80 for line in out.splitlines())
    assert "stopped before event" in out
    assert "stopped before: exact up to the stop; of the rest nothing is said." in out
    assert "(--assume model=same goes on)" in " ".join(out.split())
    supposed = rehearse(cli, NO_EDIT, "--assume", "model=same")[1]
    assert "with assumptions: 1 " in supposed
    assert "exact but for what is assumed: that the model says the same, once." in " ".join(supposed.split())
    code, out, _ = rehearse(cli, NO_EDIT, "--json", "--assume", "model=same")
    (session, summary) = objects(out)
    assert (session["stopped"], session["now"]["held"]) == ("", 1)
    assert summary["assume"] == {"model": "same"}
    assert [summary[name]["sessions"] for name in ("whole", "supposed", "stopped")] == [0, 1, 0]


@pytest.mark.parametrize("command", ["rehearse", "what-if"])
def test_what_cannot_be_assumed_is_refused_in_the_same_sentence(cli: Cli, command: str) -> None:
    Path("new.yaml").write_text("{}\n")
    code, out, err = cli("policy", command, "new.yaml", "--assume", "planner=reject")
    assert (code, out) == (2, "")
    assert "the planner cannot be assumed to say `reject`; say `accept` or `unavailable`" in err
    code, out, err = cli("policy", command, "new.yaml", "--assume", "")
    assert (code, out) == (2, "")
    assert "it was given without a value" in err


def test_a_session_that_goes_on_with_an_ended_one_is_played_after_it(cli: Cli) -> None:
    cli("run", EDIT)
    with foregate.Agent(model="rehearsal", resume="last") as agent:
        agent.run_sync("show a.txt")
    code, out, _ = rehearse(cli, "{}\n", "--json")
    *sessions, summary = objects(out)
    assert (code, summary["whole"]["sessions"], summary["stopped"]["sessions"]) == (0, 2, 0)
    assert sessions[1]["session"] == f"{sessions[0]['session']}-2"
    assert all(one["now"] == one["then"] for one in sessions)
    code, out, _ = rehearse(cli, NO_EDIT, sessions[1]["session"], "--json")
    alone, _ = objects(out)
    assert alone["stopped"] == f"it resumes session `{sessions[0]['session']}`, which was stopped before its end"


def test_an_undo_is_played_again(cli: Cli) -> None:
    cli("run", EDIT)
    assert cli("undo", "last")[0] == 0
    code, out, _ = rehearse(cli, "{}\n", "--json")
    *sessions, _ = objects(out)
    assert (code, [one["stopped"] for one in sessions]) == (0, ["", ""])


def test_of_a_session_with_erased_events_nothing_is_claimed(cli: Cli) -> None:
    cli("run", EDIT)
    assert cli("log", "erase", "last", "--kind", "tool_finished", "--yes")[0] == 0
    code, out, err = rehearse(cli, "{}\n", "--json")
    session, summary = objects(out)
    assert (code, err) == (0, "")
    assert "of its events were erased, the first of them event" in session["stopped"]
    assert (summary["whole"]["sessions"], summary["stopped"]["sessions"]) == (0, 1)
    assert not any((*session["now"].values(), *session["then"].values()))


def test_of_a_session_that_is_open_in_a_process_nothing_is_claimed(cli: Cli) -> None:
    with foregate.Agent(model="rehearsal") as agent:
        agent.run_sync("show a.txt")
        code, out, _ = rehearse(cli, "{}\n", "--json")
    session, _ = objects(out)
    assert (code, "may go on; close it there first" in session["stopped"]) == (0, True)
    assert objects(rehearse(cli, "{}\n", "--json")[1])[0]["stopped"] == ""


def test_a_plan_that_one_process_made_and_another_carried_out_is_played_again(cli: Cli) -> None:
    assert cli("plan", EDIT)[0] == 0
    assert cli("execute", "last", "--yes")[0] == 0
    code, out, _ = rehearse(cli, "{}\n", "--json")
    made, carried_out, summary = objects(out)
    assert (code, summary["whole"]["sessions"]) == (0, 2)
    assert (made["now"], carried_out["now"]) == (made["then"], carried_out["then"])
    assert (made["now"]["planner"], carried_out["now"]["ran"]) == (1, 2)
    _, refused, _ = objects(rehearse(cli, NO_EDIT, "--json")[1])
    assert refused["stopped"].startswith("the planning model is told something else than then")
    assert refused["now"]["held"] == refused["then"]["held"] + 1
