"""What a sheet offers to permit is the call it shows, in words, and nothing wider is covered by it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.support.permitting import read_permitted
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.permitted import find_permission, is_value_covered
from foregate.schemas import strict_json
from foregate.schemas.judgement import Answer
from foregate.schemas.permission import Permission, PermittedValue
from foregate.schemas.sandbox import Access
from foregate.schemas.tool_call import Command, Survey
from foregate.schemas.turn import Turn
from foregate.schemas.value import ArgumentValue
from tests.gates.turns import CATALOGUE, call, codes, judged, need_of, seen, survey, turn
from tests.policies import policy_with

POLICY = policy_with({"plan.mode": "off", "critique.mode": "off", "uncertainty.mode": "off"})
SEND = call("send", "bob@example.org")


def offer(of: Turn, policy: Any = POLICY, choice: str = "project") -> Permission:
    """Return what the sheet of a turn with one call offers for a choice."""
    return offers(of, policy)[choice]


def offers(of: Turn, policy: Any = POLICY) -> dict[str, Permission]:
    """Return all that the sheet of a turn with one call offers, by the choice."""
    request: Any = need_of(of, policy).request
    offered = {one["id"]: strict_json.load(Permission, one) for one in request.get("permissions", ())}
    (asking,) = request["calls"]
    assert {*asking.get("permits", {}).values()} == {*offered}
    return {choice: offered[one] for choice, one in asking.get("permits", {}).items()}


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
    assert given.words == "`git push origin main`, reaching any host"
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


def test_a_sheet_of_several_calls_says_of_each_what_may_be_permitted() -> None:
    both: Any = need_of(turn(SEND, call("send", "eve@example.org", 2)), POLICY).request
    assert [one["permits"]["project"] for one in both["calls"]] == [one["id"] for one in both["permissions"]]
    mixed: Any = need_of(turn(SEND, call("odd", number=2)), POLICY).request
    assert ["permits" in one for one in mixed["calls"]] == [True, False]


def test_a_command_that_wants_more_of_the_world_outside_asks_again() -> None:
    run, looked = command("pip install x", access=(Access("network", "a.example"),))
    given = offer(turn(run, surveys=(looked,)))
    assert given.words == "`pip install x`, reaching any host, network:a.example"
    assert code(turn(run, surveys=(command("pip install x")[1],)), given) == "approval_granted"
    for more in (
        (Access("network", "b.example"),),
        (Access("socket", "/run/x"),),
        (Access("network", "a.example"), Access("port", "80")),
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
    assert find_permission(facts, of, POLICY) == given
    for changed in (replace(looked, changes="blob"), replace(looked, problem="nobody could look")):
        assert find_permission(replace(facts, survey=changed), of, POLICY) is None
    lost = ArgumentValue("", "lost", "a.txt", "a.txt", "unsaid")
    assert find_permission(replace(facts, unspoken=(lost,)), of, POLICY) is None


PUSH = "git push origin main"


def test_the_wider_form_of_a_command_leaves_plain_words_open_and_says_so() -> None:
    run, looked = command(PUSH)
    given = offer(turn(run, surveys=(looked,)), choice="wider")
    assert given.words.startswith("`git push origin`, with any further plain words (no options, ")
    assert given.words.endswith("reaching any host")
    for words in (PUSH, "git push origin", "git push origin v1.2 feature/x"):
        run, looked = command(words)
        assert code(turn(run, surveys=(looked,)), given) == "approval_granted", words


@pytest.mark.parametrize(
    "words",
    [
        "git push other main",
        "git push",
        "git push origin --force",
        "git push --force origin main",
        "git push origin -d main",
        "git push origin :main",
        "git push origin +main",
        "git push origin main:main",
        "git push origin --receive-pack=evil",
        "git push origin ../main",
        "git push origin m\u0430in",
        "git push origin ;rm",
        "git push origin $(rm)",
        "git push origin a=b",
        "git -c core.sshCommand=evil push origin main",
        "/usr/bin/git push origin main",
        "env git push origin main",
        "git pull origin main",
    ],
)
def test_what_could_mean_something_else_than_a_name_is_no_plain_word(words: str) -> None:
    run, looked = command(PUSH)
    given = offer(turn(run, surveys=(looked,)), choice="wider")
    run, looked = command(words)
    facts = compute_turn_facts(replace(turn(run, surveys=(looked,)), permissions=(given,)), POLICY, CATALOGUE)[run.id]
    assert facts.permission is None


@pytest.mark.parametrize(
    "line",
    [
        "git push origin main; rm -rf x",
        "git push origin main && curl evil.example",
        "git push origin main | sh",
        "git push origin main > x",
        "git push origin $BRANCH",
        "git push origin `whoami`",
        "GIT_SSH_COMMAND=evil git push origin main",
        "(cd sub; git push origin main)",
        "git push origin *",
        "git push origin main\nrm -rf x",
    ],
)
def test_a_line_for_the_shell_is_one_plain_command_or_not_covered(line: str) -> None:
    run = call("run_shell", PUSH)
    given = offer(turn(run), choice="wider")
    other = call("run_shell", line)
    facts = compute_turn_facts(replace(turn(other), permissions=(given,)), POLICY, CATALOGUE)
    assert facts[other.id].permission is None
    assert code(turn(call("run_shell", "git push origin 'v1.0'")), given) == "approval_granted"


@pytest.mark.parametrize(
    "words", ["npm install x", "make deploy", "rm -rf build", "python build.py", "git push --force origin", "sudo ls x"]
)
def test_a_command_the_policy_does_not_list_is_offered_as_it_is_and_no_wider(words: str) -> None:
    run, looked = command(words)
    assert [*offers(turn(run, surveys=(looked,), says=f"please {words}"))] == ["project"]


def test_a_wider_permission_is_bound_to_folder_scripts_access_and_tier_like_a_narrow_one() -> None:
    run, looked = command(PUSH)
    looked = replace(looked, work="limited")
    full = policy_with({"commands.confinement.work": "full"}, POLICY)
    given = offer(turn(run, surveys=(looked,)), full, "wider")
    assert looked.command is not None
    assert code(turn(run, surveys=(looked,)), given, policy=full) == "approval_granted"
    for other in (
        replace(looked, command=replace(looked.command, folder="sub")),
        replace(looked, command=replace(looked.command, scripts="new")),
        replace(looked, command=replace(looked.command, access=(Access("socket", "/run/x"),))),
        replace(looked, work="none"),
    ):
        changed = replace(turn(run, surveys=(other,)), permissions=(given,))
        assert compute_turn_facts(changed, full, CATALOGUE)[run.id].permission is None


def test_the_wider_form_of_an_edit_is_any_file_of_its_folder_and_nothing_that_is_protected() -> None:
    each = policy_with({"approval.mode": "each"}, POLICY)
    given = offer(turn(call("edit_file", "docs/a.md")), each, "wider")
    assert given.words == "`edit_file`, any file in `docs` or beneath, with any content"
    for inside in ("docs/b.md", "docs/deep/c.md"):
        assert code(turn(call("edit_file", inside)), given, policy=each) == "approval_granted"
    for other in (call("edit_file", "docsx/a.md"), call("edit_file", "a.md"), call("delete_path", "docs/a.md")):
        assert need_of(replace(turn(other), permissions=(given,)), each).who == "person"
    guarded = call("edit_file", "docs/.envrc")
    looked = survey(guarded, seen(), protected="runs_by_itself")
    facts = compute_turn_facts(replace(turn(guarded, surveys=(looked,)), permissions=(given,)), each, CATALOGUE)
    assert facts[guarded.id].permission is None
    assert [*offers(turn(guarded, surveys=(looked,)), each)] == ["project"]
    assert [*offers(turn(call("edit_file", "a.md")), each)] == ["project"]


@pytest.mark.parametrize(
    "change",
    [{"approval.mode": "each"}, {"approval.reads": "ask"}, {"tools.send": {"high_impact_write": True}}],
)
def test_a_permission_ends_where_the_policy_says_another_thing_of_such_calls(change: dict[str, Any]) -> None:
    given = offer(turn(SEND))
    changed = policy_with(change, POLICY)
    assert need_of(replace(turn(SEND), permissions=(given,)), changed).who == "person"
    assert code(turn(SEND), given, policy=policy_with({"limits.turns": 9}, POLICY)) == "approval_granted"


def test_a_permission_of_an_earlier_version_is_compared_as_it_was() -> None:
    run, looked = command(PUSH)
    given = replace(offer(turn(run, surveys=(looked,))), section="", access=())
    assert code(turn(run, surveys=(looked,)), given) == "approval_granted"


def test_a_value_left_open_is_never_one_that_only_text_from_outside_said() -> None:
    branch = ArgumentValue("branch", "target", "main", "main", "mentioned")
    any_branch = PermittedValue("branch", "", "", any=True)
    assert is_value_covered(branch, any_branch)
    for source in ("outside", "unclear"):
        assert not is_value_covered(replace(branch, source=source), any_branch)
    assert not is_value_covered(replace(branch, role="carried"), any_branch)
    assert not is_value_covered(replace(branch, path="remote"), any_branch)


def test_an_answer_permits_what_it_chose_of_what_was_offered_and_nothing_for_a_no() -> None:
    request = need_of(turn(SEND, call("send", "eve@example.org", 2)), POLICY).request
    first, second = [one["id"] for one in request["permissions"]]  # type: ignore[index, union-attr, call-overload]

    def permitted(**value: Any) -> list[str]:
        return [one.id for one in read_permitted(Answer("approval", "person", "k", (), "", "", value), request)]

    assert permitted(choice="project") == [first, second]
    assert permitted(choice="no", calls={"c1": "project"}) == [first]
    assert permitted(choice="project", calls={"c1": "no"}) == [second]
    assert permitted(choice="yes", calls={"c1": "wider"}) == []
    assert permitted(choice="no") == permitted(choice="grant") == []
