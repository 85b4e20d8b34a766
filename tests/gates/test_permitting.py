"""What a sheet offers to permit is the call it shows, in words, and nothing wider is covered by it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.permitted import find_permission, is_value_covered
from foregate.schemas import strict_json
from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import Command, Survey
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue
from tests.gates.turns import CATALOGUE, call, codes, judged, need_of, survey, turn
from tests.policies import policy_with

POLICY = policy_with({"plan.mode": "off", "critique.mode": "off", "uncertainty.mode": "off"})
SEND = call("send", "bob@example.org")


def offer(of: Turn, policy: Any = POLICY) -> Permission:
    """Return what the sheet of a turn with one call offers."""
    (offered,) = need_of(of, policy).request["permissions"]
    return strict_json.load(Permission, offered)


def command(words: str, **more: Any) -> tuple[Any, Survey]:
    run = call("run_command", words)
    looked = survey(run)
    assert looked.command is not None
    return run, replace(looked, command=replace(looked.command, **more))


def code(of: Turn, *given: Permission, policy: Any = POLICY) -> str:
    """Return what approval says of a turn in which permissions are in force."""
    return codes(judged(replace(of, permissions=given), policy))["approval"]


def test_a_call_that_only_its_arguments_tell_is_permitted_exactly() -> None:
    given = offer(turn(SEND))
    assert given.words == "`send`, `bob@example.org`, exactly this call"
    assert code(turn(SEND), given) == "approval_granted"
    for other in (call("send", "eve@example.org"), call("send", "bob@example.org", text="more")):
        assert need_of(replace(turn(other), permissions=(given,)), POLICY).who == "person"


@pytest.mark.parametrize(
    "other",
    [
        Command(("git", "push", "origin", "other")),
        Command(("git", "push", "origin", "main"), folder="sub"),
        Command(("git", "push", "origin", "main"), scripts="new"),
        Command(shell="git push origin main"),
    ],
)
def test_a_command_is_permitted_with_all_its_words_its_folder_and_its_scripts(other: Command) -> None:
    run, looked = command("git push origin main")
    given = offer(turn(run, surveys=(looked,)))
    assert given.words == "`git push origin main`"
    assert code(turn(run, surveys=(looked,)), given) == "approval_granted"
    changed = turn(run, surveys=(replace(looked, command=other),))
    assert need_of(replace(changed, permissions=(given,)), POLICY).who == "person"


def test_a_command_that_something_weaker_would_hold_asks_again() -> None:
    run, looked = command("make")
    held = replace(looked, work="limited")
    given = offer(turn(run, surveys=(held,)), policy_with({"commands.confinement.work": "full"}, POLICY))
    weaker = turn(run, surveys=(replace(held, work="none"),))
    assert need_of(replace(weaker, permissions=(given,)), POLICY).who == "person"


def test_a_file_is_permitted_with_any_content_but_no_other_file_and_no_other_effect() -> None:
    each = policy_with({"approval.mode": "each"}, POLICY)
    given = offer(turn(call("edit_file", text="one")), each)
    assert given.words == "`edit_file`, `a.txt`, with any content"
    assert code(turn(call("edit_file", text="two")), given, policy=each) == "approval_granted"
    for other in (call("edit_file", "b.txt"), call("delete_path")):
        assert need_of(replace(turn(other), permissions=(given,)), each).who == "person"


def test_a_permission_ends_when_it_says_so() -> None:
    given = replace(offer(turn(SEND)), until="2025-12-31T00:00:00.000000Z")
    assert need_of(replace(turn(SEND), permissions=(given,)), POLICY).who == "person"
    later = replace(given, until="2026-12-31T00:00:00.000000Z")
    assert code(turn(SEND), later) == "approval_granted"


def test_a_call_of_which_nobody_knows_what_it_does_is_never_offered() -> None:
    assert "permissions" not in need_of(turn(call("odd")), POLICY).request


def test_a_sheet_of_several_calls_offers_all_that_asks_or_nothing() -> None:
    both = turn(SEND, call("send", "eve@example.org", 2))
    assert len(need_of(both, POLICY).request["permissions"]) == 2
    mixed = turn(SEND, call("odd", number=2))
    assert "permissions" not in need_of(mixed, POLICY).request


def test_a_command_that_wants_more_of_the_world_outside_asks_again() -> None:
    run, looked = command("pip install x", access=(Access("network", "a.example"),))
    given = offer(turn(run, surveys=(looked,)))
    assert given.words == "`pip install x`, reaching network:a.example"
    assert code(turn(run, surveys=(command("pip install x")[1],)), given) == "approval_granted"
    for more in (
        (Access("network", "b.example"),),
        (Access("network"),),
        (Access("network", "a.example"), Access("network")),
    ):
        wider = turn(run, surveys=(command("pip install x", access=more)[1],))
        assert need_of(replace(wider, permissions=(given,)), POLICY).who == "person"


def test_a_value_is_permitted_for_its_argument_alone_and_text_that_was_read_never() -> None:
    ben, eve = (ArgumentValue(path, "target", text, text, "said") for path, text in (("to", "ben"), ("cc", "eve")))
    permitted = PermittedValue("to", "ben", "ben")
    assert is_value_covered(ben, permitted)
    assert not is_value_covered(replace(ben, path="cc"), permitted)
    assert not is_value_covered(eve, permitted)
    carried = replace(ben, path="body", role="carried", name="notes.md")
    assert "permissions" not in need_of(turn(SEND, surveys=(replace(survey(SEND), values=(carried,)),)), POLICY).request


def test_what_a_sandbox_has_changed_is_covered_by_no_permission_for_its_command() -> None:
    run, looked = command("make")
    given = offer(turn(run, surveys=(looked,)))
    facts = compute_turn_facts(replace(turn(run, surveys=(looked,)), permissions=(given,)), POLICY, CATALOGUE)[run.id]
    of = replace(turn(run), permissions=(given,))
    assert find_permission(facts, of) == given
    for changed in (replace(looked, changes="blob"), replace(looked, problem="nobody could look")):
        assert find_permission(replace(facts, survey=changed), of) is None
    lost = ArgumentValue("", "lost", "a.txt", "a.txt", "unsaid")
    assert find_permission(replace(facts, unspoken=(lost,)), of) is None
