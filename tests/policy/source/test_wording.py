"""What keys do, what uses them, and differences in words."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from foregate.policy.source.comments import explain_key
from foregate.policy.source.load import default_policy, load_policy
from foregate.policy.source.users import USERS, list_users
from foregate.policy.source.values import list_values
from foregate.policy.source.wording import describe_differences
from foregate.schemas.codes import GATES

GATE_FILES = Path(__file__).resolve().parents[3] / "gates"


@pytest.mark.parametrize(
    ("text", "way", "words"),
    [
        ("narration: {mode: shadow}", "looser", "`narration.mode` is `shadow` instead of `enforce`"),
        ("uncertainty: {threshold: 400}", "stricter", "`uncertainty.threshold` is 400 instead of 550"),
        ("http: {hosts: [a.org]}", "looser", "`http.hosts` takes in `a.org`"),
        ("files: {secret: [.env]}", "looser", "`files.secret` leaves out"),
        ("commands: {read_only: {ls: null}}", "stricter", "`commands.read_only.ls` is gone"),
        ("rules: {list: [{id: x, then: deny, tool: y}]}", "stricter", "a new rule `x` denies calls with tool `y`"),
        ("rules: {list: [{id: x, then: allow, tool: y, stands_for: approval}]}", "looser",
         "allows calls with tool `y`, as your yes"),
        ("rules: {list: [{id: x, then: deny, command: [git, push, a b]}]}", "stricter",
         "denies calls with command `git push 'a b'`"),
        ("rules: {list: [{id: secrets-leave, then: deny, secrets: true}]}", "stricter",
         "`secrets-leave` denies calls with secrets `True`; before it asks about"),
        ("rules: {list: [{id: secrets-leave, then: allow, secrets: true}]}", "looser",
         "the rule `secrets-leave` allows"),
        ("context: {max_tokens: 5}", "", "`context.max_tokens` is 5 instead of 100000"),
    ],
)  # fmt: skip
def test_a_difference_says_which_way_it_goes_and_what_the_key_does(
    tmp_path: Path, text: str, way: str, words: str
) -> None:
    (tmp_path / "a.yaml").write_text(f"{text}\n")
    before, after = default_policy(), load_policy(tmp_path / "a.yaml")
    (found,) = describe_differences(before, after)
    assert found.way == way
    assert words in found.words
    assert bool(found.does) == (found.path[-1] != "ls" and found.path[0] != "rules")
    (back,) = describe_differences(after, before)
    assert back.way == {"looser": "stricter", "stricter": "looser", "": ""}[way]
    assert list(describe_differences(before, before)) == []


def test_every_key_is_explained_and_used_by_something() -> None:
    keys = [path for path in list_values(default_policy()) if path != ("version",)]
    assert [path for path in keys if not explain_key(path)] == []
    assert [path for path in keys if not list_users(path)] == []
    assert explain_key(("postlude", "claims", "sent")).startswith("An answer that claims what no call of the task did")


def read_sections(gate: str) -> set[str]:
    """The sections of the policy that a gate's own file reads."""
    tree = ast.parse((GATE_FILES / f"{gate}.py").read_text("utf-8"))
    found = set()
    for node in ast.walk(tree):
        inner = node.value if isinstance(node, ast.Attribute) else None
        if getattr(inner, "attr", getattr(inner, "id", "")) == "policy":
            found.add(node.attr)
    return found & {key.partition(".")[0] for key in USERS}


@pytest.mark.parametrize("gate", GATES)
def test_what_a_gate_reads_is_said_to_be_used_by_it(gate: str) -> None:
    for section in read_sections(gate) - ({"limits"} if gate == "validity" else set()):  # of its words alone
        users = {user for key, users in USERS.items() if key.partition(".")[0] == section for user in users}
        assert gate in users, f"{gate} reads {section}"
