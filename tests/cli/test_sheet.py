"""The approval sheet shows what will run, and no text in it can pose as something else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from foregate.cli.columns import columns
from foregate.cli.sheet import SHOWN, cut, sheet
from foregate.cli.visible import hidden

OURS = ("approval", "effect", "target", "because", "plan", "changed", "a allows", "rules", "as sent", "call", "cut")


def request(arguments: dict[str, Any] | str, **more: Any) -> dict[str, Any]:
    """Return a request about one call."""
    call = {
        "call": "c3.1",
        "tool": "delete_path",
        "target": "logs",
        "effect": "delete",
        "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
        "why": ["it cannot be undone"],
        "rules": [],
        "reversible": False,
        "external": False,
        "risk": 620,
        "said_first": "external",
    }
    return {"question": "1 call needs your yes", "calls": [call | more], "plan": None, "grants": [], "changed": []}


def text(request: dict[str, Any], **options: Any) -> str:
    """Return the sheet as text."""
    return "\n".join(row.plain for row in sheet(request, **options))


def test_a_sheet_names_target_effect_arguments_reason_origin_and_way_back() -> None:
    shown = text(request({"path": "logs", "depth": 2}))
    for part in (
        "delete_path logs",
        "delete, CANNOT be undone, risk 620 of 1000",
        "| path: logs",
        "| depth: 2",
        "because   it cannot be undone",
        "first seen in text from outside",
    ):
        assert part in shown


def test_a_reversible_call_says_so_and_an_external_one_too() -> None:
    assert "can be undone, reaches outside" in text(request({}, reversible=True, external=True))


def test_json_escapes_are_resolved_so_that_the_bytes_that_run_are_what_is_read() -> None:
    shown = text(request('{"command": "\\u0072m -rf \\u202e."}'))
    assert "| command: rm -rf \\u{202E}." in shown


def test_arguments_that_are_no_json_are_shown_as_sent() -> None:
    assert '| arguments: {"path": oops' in text(request('{"path": oops'))


def test_further_lines_of_an_argument_cannot_pose_as_another_argument() -> None:
    shown = text(request({"content": "x\npath: elsewhere", "path: y": "z"}))
    assert "  |   path: elsewhere" in shown
    assert '  | "path: y": z' in shown
    assert "\n  | path:" not in shown


def test_a_long_argument_is_cut_until_details_are_asked_for() -> None:
    long = request({"content": "x" * SHOWN + "TAIL"})
    assert cut(long)
    assert "TAIL" not in text(long)
    assert "4 characters more" in text(long)
    assert "TAIL" in text(long, details=True).replace("\n  | ", "")
    assert not cut(request({"content": "x" * SHOWN}))


def test_what_a_would_grant_is_shown_exactly_and_the_key_only_then() -> None:
    plain = request({})
    assert "a allow" not in text(plain)
    grant = {"gate": "approval", "code": "approval_required", "effect": "delete", "kind": "file", "pattern": "logs/a"}
    assert "delete file logs/a  (gate approval, approval_required)" in text(plain | {"grants": [grant]})
    exact = {"gate": "rules", "code": "my-rule", "effect": "unknown", "digest": "ab"}
    assert "unknown by exactly this call  (gate rules, my-rule)" in text(plain | {"grants": [exact]})


def test_a_plan_is_shown_with_its_items_and_uses() -> None:
    plan = {"goal": "tidy up", "items": [{"effect": "delete", "kind": "file", "pattern": "logs/*", "uses": 3}]}
    shown = text(request({}) | {"plan": plan})
    assert "plan      tidy up" in shown
    assert "- delete file logs/*, 3 times" in shown


def test_a_command_outside_the_root_is_shown_with_its_folder_which_no_word_of_it_can_imitate() -> None:
    item = {"effect": "execute", "kind": "process", "pattern": "make", "uses": 1, "folder": "a b"}
    forged = item | {"pattern": "make\n  in        elsewhere", "folder": ""}
    plan = {"goal": "build", "items": [item, forged]}
    shown = text(request({}, folder="src\n  effect    observation") | {"plan": plan}).splitlines()
    assert shown[shown.index("            - execute process make") + 1] == "  in        a b"
    assert [line for line in shown if line.startswith("  in ")][1:] == ["  in        src\\u{A}  effect    observation"]


@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=300), max_size=3),
    st.text(max_size=200),
    st.integers(30, 100),
    st.booleans(),
)
def test_every_line_that_is_not_ours_stands_behind_a_bar_or_a_label(
    arguments: dict[str, str], why: str, width: int, details: bool
) -> None:
    spoof = {"x": " " * (width - 9) + "  effect    observation, can be undone"}
    rows = [row.plain for row in sheet(request(arguments | spoof, why=[why]), width=width, details=details)]
    assert sum(row.startswith("  effect") for row in rows) == 1
    for row in rows[:-1]:
        assert columns(row) <= width
        assert not any(hidden(character) for character in row)
        assert row.startswith(("  | ", " " * 12, "  1 ")) or row[2:].startswith(OURS)
