"""Changing keys in the text of a policy file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foregate.policy.source.edit import NULL, TextChange, change_text, list_changes
from foregate.policy.source.strict_yaml import Data, Path, parse_yaml
from foregate.schemas.errors import PolicyError

FILE = """\
# head
narration:
  mode: shadow          # why
  # before it
  min_chars: 30

# about hosts
http:
  hosts: [api.example.org,   # one
     b.example.org]
rules:
  list:
    - id: no-force
      then: deny
      command: [git, push, --force]
      message: "push without it, or ask"
    # the next one
    - {id: x, then: ask, tool: 'y'}
# the end
"""


def change(*changes: tuple[str, Data], text: str = FILE) -> str:
    """The file with values at dotted keys."""
    return change_text(text, "mine.yaml", [TextChange(tuple(key.split(".")), value) for key, value in changes])


def differing(after: str) -> tuple[list[str], list[str]]:
    """The lines of the file that are gone, and those that are new."""
    old, new = FILE.splitlines(), after.splitlines()
    return [line for line in old if line not in new], [line for line in new if line not in old]


@pytest.mark.parametrize(
    ("key", "value", "gone", "new"),
    [
        ("narration.min_chars", 5, ["  min_chars: 30"], ["  min_chars: 5"]),
        ("narration.mode", "off", ["  mode: shadow          # why"], ["  mode: off          # why"]),
        ("narration.max_holds", 2, [], ["  max_holds: 2"]),
        ("narration.mode", None, ["  mode: shadow          # why"], []),
        ("http.timeout", 3, [], ["  timeout: 3"]),
        ("plan.on_unavailable.other", "ask", [], ["plan:", "  on_unavailable:", "    other: ask"]),
        ("rules.list.no-force.then", "ask", ["      then: deny"], ["      then: ask"]),
        ("rules.list.no-force.effect", ["edit"], [], ["      effect: [edit]"]),
        ("rules.list.x", None, ["    - {id: x, then: ask, tool: 'y'}"], []),
        ("commands.read_only.ls", NULL, [], ["commands:", "  read_only:", "    ls: null"]),
        (
            "sensitive.names",
            ["*_KEY", "on", "null", "a: b"],
            [],
            ["sensitive:", '  names: ["*_KEY", on, "null", "a: b"]'],
        ),
    ],
)
def test_one_change_touches_only_its_own_lines(key: str, value: Data, gone: list[str], new: list[str]) -> None:
    assert differing(change((key, value))) == (gone, new)


def test_a_rule_is_added_or_replaced_by_its_id_and_the_last_one_takes_the_list_with_it() -> None:
    rule = {"id": "new", "then": "deny", "tool": "*"}
    added = change(("rules.list.new", rule))
    assert differing(added) == ([], ["    - id: new", '      tool: "*"'])
    assert "rules" not in parse_yaml(change(("rules.list.no-force", None), ("rules.list.x", None)), "x")[0]
    replaced = change(("rules.list.x", {"id": "x", "then": "deny", "tool": "z"}))
    assert differing(replaced)[1] == ["    - {id: x, then: deny, tool: z}"]


@pytest.mark.parametrize(
    "text", ["", "# only words\n", "{}\n", "a: {b: 1}", "a: {b: 1} # why\n", "a:\n  b: |\n    x\n\n"]
)
def test_files_of_every_form_take_a_new_section(text: str) -> None:
    after = change(("rules.list.new", {"id": "new", "then": "ask"}), ("c.d", [1]), text=text)
    rule = {"rules": {"list": [{"id": "new", "then": "ask"}]}, "c": {"d": [1]}}
    assert parse_yaml(after, "x")[0] == parse_yaml(text, "x")[0] | rule


@pytest.mark.parametrize("key", ["narration.mode", "narration.new", "c.d", "rules.list.new"])
def test_lines_end_as_they_did_and_a_mark_before_the_first_stays(key: str) -> None:
    written = (key, {"id": "new", "then": "ask"} if key.startswith("rules") else 7)
    ends, mark = FILE.replace("\n", "\r\n"), "\ufeff"
    assert change(written, text=mark + ends) == mark + change(written).replace("\n", "\r\n")
    for text in (FILE.rstrip("\n"), "narration:\n  mode: enforce", "# words", mark + "# words"):
        assert change(written, text=text)[-1] != "\n"
        assert change(written, text=f"{text}\n")[-1] == "\n"
    assert change(written, text=mark).startswith(f"{mark}{key.partition('.')[0]}:")


def test_what_is_there_already_changes_nothing_and_a_rule_nobody_has_cannot_be_changed_in_part() -> None:
    assert change(("narration.mode", "shadow"), ("plan.mode", None)) == FILE
    with pytest.raises(PolicyError, match="there is no rule `other`"):
        change(("rules.list.other.then", "ask"))


WORDS = st.text(max_size=6) | st.sampled_from(["on", "null", "1", "a b", "# x", "*", "- a", "x: y"])
VALUES = st.recursive(
    WORDS | st.integers(-9, 9) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=2),
    max_leaves=4,
)
KEYS = st.sampled_from(
    ["narration.mode", "narration.new", "http.hosts", "http.x.y", "top", "a.b.c", "rules.list.x.tool"]
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(KEYS, VALUES | st.none()), min_size=1, max_size=3))
def test_whatever_is_changed_is_what_the_file_says_then_and_every_other_comment_is_still_there(
    changes: list[tuple[str, Data]],
) -> None:
    wanted: dict[Path, Data] = {tuple(key.split(".")): value for key, value in changes}
    try:
        after = change(*changes)
    except PolicyError:
        return  # a character no YAML holds, or a value that stands where a later change needs a mapping
    held, _ = parse_yaml(after, "x")
    path, value = changes[-1][0].split("."), wanted[tuple(changes[-1][0].split("."))]
    if path[0] != "rules":
        for step in path:
            held = held.get(step) if isinstance(held, dict) else None
        assert held == value
    for comment in ("# head", "# before it", "# about hosts", "# the next one", "# the end"):
        assert comment in after


def test_a_fragment_is_a_list_of_changes_with_rules_one_by_one() -> None:
    rule = {"id": "x", "then": "ask"}
    fragment = {"a": {"b": 1, "c": None}, "rules": {"mode": "off", "list": [rule]}, "tools": {}}
    assert set(map(repr, list_changes(fragment))) == {
        repr(TextChange(("a", "b"), 1)),
        repr(TextChange(("a", "c"), NULL)),
        repr(TextChange(("rules", "mode"), "off")),
        repr(TextChange(("rules", "list", "x"), rule)),
        repr(TextChange(("tools",), {})),
    }
