"""`foregate permissions`: written by hand, narrowed, suggested from the log, and looked at in the chat."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import foregate
from foregate import Agent
from foregate.testing import ScriptedModel, ScriptedPerson, calls, says
from tests.cli.conftest import Cli, Piped, parse_lines
from tests.policies import policy_with

QUIET = policy_with({f"{gate}.mode": "off" for gate in ("narration", "uncertainty", "critique", "plan")})
OPEN = ("run_command", "--command", "git push origin", "--further")


@foregate.tool(effect="send", targets={"to": "message"}, texts=["body"], external=True, needs_approval=False)
def tell(to: str, body: str = "") -> str:
    """Tell somebody something."""
    return "told"


def told(*replies: Any, to: str = "ben@x.example", body: str = "") -> None:
    """Have somebody told something in a session of its own, asked as often as there are replies."""
    step = calls(("tell", {"to": to, "body": body}))
    person = ScriptedPerson(replies)
    agent = Agent(model=ScriptedModel([step, says("done")]), tools=[tell], person=person, policy=QUIET)
    with agent:
        agent.run_sync("Go on.")
    person.finish()


def list_words(cli: Cli) -> list[str]:
    return [one["words"] for one in parse_lines(cli("permissions", "list", "--json")[1])]


def test_what_is_written_by_hand_is_shown_in_words_and_kept_only_with_a_yes(cli: Cli) -> None:
    code, out, err = cli("permissions", "add", *OPEN)
    assert (code, "permits   `git push origin`, with any further plain words" in out) == (2, True)
    assert "keep it with --yes" in err
    assert list_words(cli) == []
    code, out, _ = cli("permissions", "add", *OPEN, "--yes")
    assert code == 0
    (words,) = list_words(cli)
    assert words.endswith("reaching any host")
    name = out.splitlines()[-1].removeprefix("kept as ")
    shown = [line.split(maxsplit=1) for line in cli("permissions", "show", name)[1].splitlines()]
    assert {"decision": "written by hand", "in": "the workspace's root", "reaches": "any host"}.items() <= dict(
        shown
    ).items()
    assert cli("permissions", "add", "run_command", "--command", "npm install", "--further", "--yes")[0] == 2
    assert cli("permissions", "add", "nothing", "--yes")[0] == 2


def test_a_narrower_one_takes_the_place_of_what_was_permitted(cli: Cli) -> None:
    name = cli("permissions", "add", *OPEN, "--yes")[1].splitlines()[-1].removeprefix("kept as ")
    code, _, err = cli("permissions", "narrow", name, "--command", "git push other", "--yes")
    assert (code, "can only go on behind" in err) == (2, True)
    assert cli("permissions", "narrow", name, "--command", "git push origin main", "--yes")[0] == 0
    assert list_words(cli) == ["`git push origin main`, reaching any host"]


def test_what_was_asked_again_and_again_is_suggested_with_the_calls_it_would_have_let_through(cli: Cli) -> None:
    for body in ("one", "two", "three"):
        told("yes", body=body)
    told("yes", to="eve@x.example")
    code, out, _ = cli("permissions", "suggest")
    assert code == 0
    assert "1  `tell`, to `ben@x.example`" in out
    assert "asked 3 times, 3 times yes" in out
    assert "eve" not in out
    (row,) = parse_lines(cli("permissions", "suggest", "--json")[1])
    assert (row["suggested"], [one["answer"] for one in row["calls"]]) == (True, ["yes"] * 3)
    assert cli("permissions", "suggest", "--add", "2", "--yes")[0] == 2
    assert cli("permissions", "suggest", "--add", "1", "--yes")[0] == 0
    told(body="four")  # nobody is asked any more
    assert "nobody was asked" in cli("permissions", "suggest")[2]


def test_what_would_have_let_a_refused_call_through_is_not_suggested_and_said_loudly(cli: Cli) -> None:
    for answer in ("yes", "yes", "no"):
        told(answer)
    code, out, _ = cli("permissions", "suggest")
    assert code == 0
    assert "NOT suggested: `tell`, to `ben@x.example`" in out
    assert "1 of 3 calls to which you said NO" in out
    assert cli("permissions", "suggest", "--add", "1", "--yes")[0] == 2


def test_the_log_of_another_workspace_suggests_nothing_here(cli: Cli, folder: Path) -> None:
    for body in ("one", "two"):
        told("yes", body=body)
    (folder / "other").mkdir()
    assert cli("permissions", "suggest", "--workspace", "other")[1] == ""


def test_the_chat_lists_shows_and_revokes(cli: Cli, piped: Piped) -> None:
    name = cli("permissions", "add", *OPEN, "--yes")[1].splitlines()[-1].removeprefix("kept as ")
    piped(f"/permissions\n/permissions {name}\n/permissions p0\n/permissions revoke {name}\n/permissions\n")
    code, out, err = cli("chat", "--model", "rehearsal")
    assert code == 0
    assert f"{name}  " in out
    assert "while its definition stays" in out
    assert "there is no permission `p0`" in out + err
    assert "nothing is permitted here" in out
    assert list_words(cli) == []


def test_nothing_permitted_is_no_session(cli: Cli) -> None:
    assert asyncio.run(foregate.run("hello", model=ScriptedModel([says("hi")]))).text == "hi"
    assert cli("permissions", "suggest")[0] == 0
