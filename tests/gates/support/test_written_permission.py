"""What a person writes by hand is checked as strictly as what a sheet offers, and narrowing never widens."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from foregate.gates.support.written_permission import WrittenPermission, narrow_permission, write_permission
from foregate.policy.risk.facts import compute_turn_facts
from foregate.policy.risk.permitted import is_covered
from foregate.schemas.errors import UsageError
from foregate.schemas.permission import Permission
from foregate.schemas.tool_call import ToolCall
from tests.gates.turns import CATALOGUE, NOW, call, survey, turn
from tests.policies import policy_with

POLICY = policy_with({})


def written(tool: str, **given: Any) -> Permission:
    return write_permission(CATALOGUE[tool], WrittenPermission(**given), POLICY)


def covers(permission: Permission, of: ToolCall) -> bool:
    facts = compute_turn_facts(turn(of), POLICY, CATALOGUE)[of.id]
    return is_covered(facts, permission, NOW, POLICY)


def test_a_command_written_by_hand_covers_its_words_and_with_further_ones_plain_words_alone() -> None:
    exact = written("run_shell", command="git push origin main")
    assert exact.words == "`git push origin main`, reaching any host"
    open_ = written("run_shell", command="git push origin", further=True)
    for words, found in (
        ("git push origin main", (True, True)),
        ("git push origin dev", (False, True)),
        ("git push origin --force", (False, False)),
        ("git push", (False, False)),
    ):
        assert (covers(exact, call("run_shell", words)), covers(open_, call("run_shell", words))) == found


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("run_command", {"command": "npm install", "further": True}, "can go on to run anything"),
        ("run_command", {"command": "sudo git push origin", "further": True}, "can go on to run anything"),
        ("run_command", {"command": "/usr/bin/git push origin", "further": True}, "can go on to run anything"),
        ("run_command", {"command": "git", "further": True}, "can go on to run anything"),
        ("run_shell", {"command": "pytest; rm -rf x", "further": True}, "is no single command"),
        ("run_command", {"command": "git 'push"}, "cannot be read"),
        ("run_command", {}, "say which command"),
        ("run_command", {"command": "make", "folder": "../x"}, "no path within the workspace"),
        ("run_command", {"command": "make", "access": ["everything"]}, "names no access"),
        ("run_command", {"command": "make", "tier": "some"}, "holds nothing"),
        ("run_command", {"command": "make", "until": "tomorrow"}, "is no date"),
        ("edit_file", {}, "would permit whatever the tool does"),
        ("edit_file", {"beneath": ["."]}, "no path within"),
        ("edit_file", {"beneath": ["/etc"]}, "no path within"),
        ("edit_file", {"beneath": ["docs/*"]}, "no path within"),
        ("edit_file", {"targets": ["docs/a.md"]}, "names nothing"),
        ("edit_file", {"command": "make"}, "runs no command"),
        ("edit_file", {"beneath": ["docs"], "access": ["network"]}, "are about commands"),
        ("delete_path", {"beneath": ["docs"]}, "create or edit files"),
        ("send", {"at_most": ["amount=many"]}, "says no value"),
        ("send", {"values": ["to"]}, "says no value"),
        ("send", {"values": ["to=ben"], "rules": ["nobodys"]}, "no rule `nobodys` asks"),
        ("read_file", {"targets": ["file:a"]}, "it only reads"),
        ("odd", {"values": ["a=b"]}, "nobody said what it does"),
    ],
)
def test_what_could_not_be_kept_to_is_refused(tool: str, given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        written(tool, **given)


def test_a_command_that_runs_a_file_of_the_workspace_is_permitted_where_that_file_is_looked_at() -> None:
    with pytest.raises(UsageError, match=r"it runs `sub/build\.py`"):
        write_permission(
            CATALOGUE["run_command"],
            WrittenPermission("python build.py", folder="sub"),
            POLICY,
            lambda path: path == "sub/build.py",
        )


def test_files_of_a_folder_are_created_and_edited_and_nothing_else() -> None:
    given = written("edit_file", beneath=["docs"])
    assert covers(given, call("edit_file", "docs/deep/a.md"))
    assert not covers(given, call("edit_file", "docs.md"))
    assert not covers(given, call("write_file", "docs/a.md"))
    other = survey(call("edit_file", "docs/a.md"), protected="secret")
    facts = compute_turn_facts(turn(call("edit_file", "docs/a.md"), surveys=(other,)), POLICY, CATALOGUE)["c1"]
    assert not is_covered(facts, given, NOW, POLICY)


OPEN = "git push origin"


@pytest.mark.parametrize(
    ("tool", "given", "less", "words"),
    [
        ("run_command", {"command": OPEN, "further": True}, {"command": f"{OPEN} main"}, f"`{OPEN} main`"),
        ("edit_file", {"beneath": ["docs"]}, {"beneath": ["docs/api"]}, "`edit_file`, any file in `docs/api`"),
        ("edit_file", {"beneath": ["docs"]}, {"targets": ["file:docs/a.md"]}, "`edit_file`, `docs/a.md`, with any"),
        ("send", {"at_most": ["amount=50"]}, {"at_most": ["amount=20"]}, "`send`, amount at most 20"),
        ("send", {"any": ["to"]}, {"values": ["to=ben@x.example"]}, "`send`, to `ben@x.example`"),
        ("send", {"values": ["to=ben"]}, {"until": "2030-01-01"}, "`send`, to `ben`, until 2030-01-01T23:59"),
        ("run_command", {"command": "make", "access": ["network:a.example", "port:80"]}, {"access": ["port:80"]}, "`m"),
    ],
)
def test_narrowing_covers_less_and_says_so(tool: str, given: dict[str, Any], less: dict[str, Any], words: str) -> None:
    narrow = narrow_permission(written(tool, **given), WrittenPermission(**less))
    assert narrow.words.startswith(words)


@pytest.mark.parametrize(
    ("tool", "given", "more"),
    [
        ("run_command", {"command": OPEN, "further": True}, {"command": "git push"}),
        ("run_command", {"command": OPEN, "further": True}, {"command": "git push other main"}),
        ("run_command", {"command": OPEN, "further": True}, {"command": f"{OPEN} --force"}),
        ("run_command", {"command": OPEN, "further": True}, {"command": OPEN, "further": True}),
        ("run_command", {"command": OPEN}, {"command": OPEN, "further": True}),
        ("run_command", {"command": "make"}, {"access": ["network"]}),
        ("run_command", {"command": "make", "tier": "full"}, {"tier": "limited"}),
        ("edit_file", {"beneath": ["docs"]}, {"beneath": ["src"]}),
        ("edit_file", {"beneath": ["docs"]}, {"beneath": ["docs"]}),
        ("edit_file", {"beneath": ["docs"]}, {"targets": ["file:docsx/a"]}),
        ("edit_file", {"beneath": ["docs"]}, {"targets": ["directory:docs/a"]}),
        ("send", {"at_most": ["amount=50"]}, {"at_most": ["amount=51"]}),
        ("send", {"values": ["to=ben"]}, {"values": ["to=eve"]}),
        ("send", {"values": ["to=ben"]}, {"values": ["cc=eve"]}),
        ("send", {"values": ["to=ben"]}, {"any": ["to"]}),
        ("send", {"values": ["to=ben"], "until": "2030-01-01"}, {"until": "2031-01-01"}),
        ("send", {"values": ["to=ben"]}, {}),
        ("send", {"values": ["to=ben"]}, {"rules": ["secret-files"]}),
    ],
)
def test_what_is_as_wide_or_wider_is_no_narrower(tool: str, given: dict[str, Any], more: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        narrow_permission(written(tool, **given), WrittenPermission(**more))


def test_what_was_narrowed_to_all_its_words_lets_no_further_one_through() -> None:
    exact = narrow_permission(written("run_command", command=OPEN, further=True), WrittenPermission(f"{OPEN} main"))
    assert covers(exact, call("run_command", f"{OPEN} main"))
    assert not covers(exact, call("run_command", f"{OPEN} main dev"))
    assert not covers(replace(exact, until="2020-01-01T00:00:00.000000Z"), call("run_command", f"{OPEN} main"))
