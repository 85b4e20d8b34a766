"""What a person is told that a call could lose."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.losses import describe_access, describe_stakes
from foregate.policy.source.load import default_policy
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import CallFacts, Command, Survey
from foregate.schemas.tool_spec import Effect
from tests.gates.turns import CATALOGUE, call, seen, survey, turn


def facts(name: str, path: str = "a.txt", work: str = "", access: tuple[Access, ...] = (), **more: Any) -> CallFacts:
    """Return the facts of one call, its program in a sandbox where `work` names a tier."""
    one = call(name, path)
    looked: Survey = replace(survey(one, seen(), **more), work=work)
    if looked.command is not None and access:
        looked = replace(looked, command=replace(looked.command, access=access))
    return compute_turn_facts(turn(one, surveys=(looked,)), default_policy(), CATALOGUE)[one.id]


def stakes(of: CallFacts) -> list[str]:
    return describe_stakes(of, default_policy())


@pytest.mark.parametrize(
    ("of", "says"),
    [
        (facts("read_file"), "nothing: it only reads"),
        (facts("edit_file"), "nothing: it can be undone"),
        (facts("delete_path"), "nothing: it can be undone"),
        (facts("delete_path", restorable=False), "`a.txt`, and no copy is kept"),
        (facts("delete_path", loses="all"), "`a.txt`, which git cannot bring back and an undo here can"),
        (facts("send", "bob@example.org"), "what is sent to `bob@example.org` cannot be taken back"),
        (facts("run_shell", "make"), "whatever your account can read, change, delete or send: no sandbox holds this"),
        (facts("run_shell", "make", work="full"), "nothing: it can be undone"),
        (facts("odd"), "whatever the tool can do: nobody here can say what that is"),
        (facts("edit_file", protected="runs_by_itself"), "whatever your account can do, once a program runs `a.txt`"),
        (facts("read_file", protected="secret"), "what `a.txt` holds: the model is shown all of it but what is masked"),
    ],
)
def test_what_is_at_stake_is_said_in_words(of: CallFacts, says: str) -> None:
    (found,) = stakes(of)
    assert found.startswith(says)


def test_access_to_the_world_outside_is_told_each_thing_once() -> None:
    asked = (
        Access("network", "packages.example"),
        Access("network", "packages.example"),
        Access("folder", "/srv/data"),
    )
    assert stakes(facts("run_shell", "make", "full", asked)) == [
        "anything in `/srv/data` could be read, changed or deleted",
        "anything in the workspace could be sent to any account at packages.example",
    ]


@pytest.mark.parametrize("kind", ["network", "port", "socket", "device", "folder"])
def test_every_kind_of_access_has_its_words(kind: Any) -> None:
    assert "workspace" in describe_access(Access(kind)) or "`" in describe_access(Access(kind)) or kind == "port"


def test_many_things_are_counted() -> None:
    one = facts("delete_path", restorable=False)
    (gone,) = one.resources
    many = tuple(replace(gone, id=f"logs/{number}") for number in range(5))
    lost = replace(one, survey=replace(one.survey, resources=many))
    assert stakes(lost) == ["`logs/0`, `logs/1`, `logs/2` and 2 more, and no copy is kept"]


def test_a_secret_that_would_leave_is_named() -> None:
    one = facts("send", "bob@example.org")
    leaking = replace(one, survey=replace(one.survey, secrets=("the call matches sensitive.patterns[0]",)))
    assert stakes(leaking)[0] == "a secret would leave: the call matches sensitive.patterns[0]"


def test_the_effect_of_a_command_that_only_reads_puts_nothing_at_stake() -> None:
    one = facts("run_command", "ls")
    read = replace(one, effect=Effect.OBSERVATION, survey=replace(one.survey, command=Command(("ls",))))
    assert stakes(read) == ["nothing: it only reads"]
