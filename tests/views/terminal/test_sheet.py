"""The approval sheet shows what will run, and no text in it can pose as something else."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.loop.undo import Preview
from foregate.schemas.protocols import FileChange
from foregate.schemas.tool_call import SurveyedResource
from foregate.schemas.tool_spec import Effect, ResourceKind
from foregate.views.terminal.diff import LINES
from foregate.views.terminal.layout import count_columns, is_hidden
from foregate.views.terminal.sheet import FILES, PATHS, ROWS, SHOWN, build_sheet, format_details, split_pages

OURS = ("approval", "effect", "target", "because", "plan", "changed", "s allows", "rules", "as sent", "call", "cut")
OURS += (
    "covered",
    "changes",
    "fails",
    "kept",
    "lost",
    "did",
    "file",
    "at stake",
    "note",
    "risk",
    "value",
    "who said",
    "critic",
)
KEYS = ("  y yes", "  n no", "  d details", "  s allow as")


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
        "at_stake": ["what is there now: the tool keeps no copy of it"],
        "said_first": "external",
    }
    return {"question": "1 call needs your yes", "calls": [call | more], "plan": None, "grants": [], "changed": []}


def text(request: dict[str, Any], *prospect: Preview, details: bool = False, width: int = 80, height: int = 0) -> str:
    """Return the sheet as text, with the prospect of its one call."""
    prospects = seen(*prospect)
    if details:
        rows = format_details(request, prospects, width=width)
    else:
        rows = build_sheet(request, prospects, width=width, height=height).rows
    return "\n".join(row.plain for row in rows)


def is_approval_cut(request: dict[str, Any], prospects: dict[str, Preview] | None = None) -> bool:
    """Return whether the first view leaves anything out."""
    return build_sheet(request, prospects or {}).is_cut


def seen(*prospect: Preview) -> dict[str, Preview]:
    """Return the prospects of a sheet with one call."""
    return dict.fromkeys(("c3.1",) * len(prospect), *prospect)


def prospect(before: bytes | None, after: bytes, *shown_by: str) -> Preview:
    """Return the prospect of a call that makes `after` of the file `a.txt`."""
    there = SurveyedResource(ResourceKind.FILE, "a.txt", Effect.EDIT, exists=before is not None)
    return Preview((FileChange("a.txt", before, after, shown_by),), "", (there,))


def test_a_sheet_names_target_effect_arguments_reason_origin_and_way_back() -> None:
    shown = text(request({"path": "logs", "depth": 2}))
    for part in (
        "delete_path logs",
        "delete, CANNOT be undone",
        "at stake  what is there now: the tool keeps no copy of it",
        "| path: logs",
        "| depth: 2",
        "because   it cannot be undone",
        "first seen in text from outside",
    ):
        assert part in shown


def test_what_a_critic_said_stands_behind_its_label_and_poses_as_nothing_else() -> None:
    shown = text(request({"path": "logs"}, critic=["all is well\n  y yes, once", "it is a new address"]))
    assert "critic    \u201call is well" in shown
    assert "\u201cit is a new address\u201d" in shown
    assert sum(line.startswith("  y yes") for line in shown.splitlines()) == 1


def test_what_a_command_has_changed_in_its_sandbox_is_named_path_by_path_with_the_diff() -> None:
    changed = Preview((FileChange("new/a.txt", None, b"x\n"),), paths=("create new/", "create new/a.txt"))
    shown = text(request({"command": "make"}, tool="run_shell", target="make", said_first=""), changed)
    assert "  did       create new/\n            create new/a.txt\n" in shown
    assert "  file      new/a.txt\n  changes   a new file, 1 line added\n" in shown
    assert "nobody can say" not in shown


def test_of_many_changed_paths_the_first_stand_on_the_sheet_and_details_show_all() -> None:
    many = Preview(paths=tuple(f"create a{number}" for number in range(PATHS + 1)))
    assert is_approval_cut(request({}), seen(many))
    assert "2 rows more; d shows them, and only then y counts" in text(request({}), many)
    middle = f"create a{PATHS * 2 // 3}\n"
    assert middle not in text(request({}), many)
    assert middle in text(request({}), many, details=True)


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
    long = request({"content": f"HEAD{'x' * SHOWN}TAIL"})
    assert is_approval_cut(long)
    assert ("HEAD" in text(long), "TAIL" in text(long)) == (True, True)
    assert "2 rows more; d shows them, and only then y counts" in text(long)
    assert f"HEAD{'x' * SHOWN}TAIL" in text(long, details=True).replace("\n  |   ", "")
    assert not is_approval_cut(request({"content": "x" * SHOWN}))
    assert not is_approval_cut(request({"content": "\n" * (ROWS - 1)}))
    assert is_approval_cut(request({"content": "\n" * ROWS}))


def test_what_a_would_grant_is_shown_exactly_and_the_key_only_then() -> None:
    plain = request({})
    assert "s allow" not in text(plain)
    grant = {"gate": "approval", "code": "approval_required", "effect": "delete", "kind": "file", "pattern": "logs/a"}
    assert "delete file logs/a  (gate approval, approval_required)" in text(plain | {"grants": [grant]})
    exact = {"gate": "rules", "code": "my-rule", "effect": "unknown", "digest": "ab"}
    assert "unknown by exactly this call  (gate rules, my-rule)" in text(plain | {"grants": [exact]})


def test_a_plan_is_shown_with_its_items_and_uses() -> None:
    plan = {"goal": "tidy up", "items": [{"effect": "delete", "kind": "file", "pattern": "logs/*", "uses": 3}]}
    shown = text(request({}) | {"plan": plan})
    assert "plan      tidy up" in shown
    assert "            1 delete file logs/*, 3 times" in shown


def test_an_edit_is_shown_as_what_it_changes_and_not_as_arguments_until_details_are_asked_for() -> None:
    asked = request({"path": "a.txt", "old": "teh", "new": "the"}, target="a.txt", reversible=True)
    edit = prospect(b"one\nteh cat\n", b"one\nthe cat\n", "old", "new")
    first = text(asked, edit)
    for part in (
        "  effect    delete, can be undone (a before-image is kept)",
        "  target    a.txt (file), first seen in text from outside",
        "  | path: a.txt",
        "  changes   1 line removed, 1 line added",
        "  |   one\n  | - teh cat\n  | + the cat",
    ):
        assert part in first
    assert "old: teh" not in first
    assert "  | old: teh" in text(asked, edit, details=True)
    assert not is_approval_cut(asked, seen(edit))


def test_what_stands_for_an_argument_hides_no_other_and_a_change_that_is_cut_asks_for_details() -> None:
    long = {"path": "a.txt", "content": "x\n" * SHOWN}
    whole = prospect(None, b"x\n", "content")
    assert not is_approval_cut(request(long), seen(whole))
    assert is_approval_cut(request(long | {"note": "y" * (SHOWN + 1)}), seen(whole))
    assert is_approval_cut(request(long))
    many = prospect(None, b"x\n" * LINES, "content")
    assert is_approval_cut(request(long), seen(many))
    shown = text(request(long, target="a.txt"), many)
    assert "a.txt (nothing there yet)" in shown
    assert f"a new file, {LINES} lines added" in shown
    assert "2 rows more; d shows them" in shown
    assert "more; d shows" not in text(request(long), many, details=True)


def test_the_changes_of_several_files_stand_under_their_names_and_take_the_room_of_one() -> None:
    asked = request({"paths": ["a.txt", "b.txt"], "pattern": "teh", "replacement": "the"})
    two = [FileChange(name, b"teh\n", b"the\n", ("replacement",)) for name in ("a.txt", "b.txt")]
    first = text(asked, Preview(tuple(two)))
    for part in (
        "  file      a.txt\n  changes   1 line removed",
        "  file      b.txt\n  changes   1 line",
        "pattern: teh",
    ):
        assert part in first
    assert "replacement: the" not in first
    assert not is_approval_cut(asked, seen(Preview(tuple(two))))
    long = tuple(FileChange(name, b"", b"x\n" * (LINES - 1)) for name in ("a.txt", "b.txt"))
    assert is_approval_cut(asked, seen(Preview(long)))
    cut = text(asked, Preview(long))
    assert cut.count("rows more; d shows them") == 1
    assert cut.index("file      b.txt") < cut.index("rows more")
    many = tuple(FileChange(f"{n}.txt", b"", b"") for n in range(FILES + 1))
    assert is_approval_cut(asked, seen(Preview(many)))
    assert "1 file more; d shows them" in text(asked, Preview(many))
    assert f"  file      {FILES}.txt" in text(asked, Preview(many), details=True)


def test_a_call_that_would_fail_as_things_are_says_so_and_shows_its_arguments() -> None:
    shown = text(request({"old": "teh"}), Preview((), "`old` does not occur in `a.txt`"))
    assert "  fails     as things are: `old` does not occur in `a.txt`" in shown
    assert "  | old: teh" in shown


def test_what_a_file_would_lose_is_said_before_it_is_lost() -> None:
    shown = text(request({}), Preview(unkept={"a.txt": ("owner", "hard links")}))
    assert "  loses     a.txt: its owner, hard links" in shown


def test_the_way_back_is_said_as_it_was_found() -> None:
    there = SurveyedResource(ResourceKind.FILE, "logs", Effect.DELETE, exists=True)
    other = SurveyedResource(ResourceKind.DIRECTORY, "big", Effect.DELETE, exists=True, entries=9)
    assert "CANNOT be undone (no before-image is kept)" in text(request({}), Preview(lost=(other,)))
    both = text(request({}), Preview(kept=(there,), lost=(other,)))
    assert "CANNOT be undone as a whole" in both
    assert "  kept      logs (file)\n  lost      big (directory, 9 in it)" in both
    assert "says its tool; no before-image is kept" in text(request({}, reversible=True), Preview())


def test_the_item_of_the_plan_that_covers_a_call_is_named_or_that_there_is_none() -> None:
    assert "covered   by items 1, 2 of the plan" in text(request({}, plan_items=[1, 2]))
    assert "covered   by no item of the plan" in text(request({}, plan_items=[]))
    assert "covered   by no plan" in text(request({}, plan_items=None))
    assert "covered" not in text(request({}))


def test_a_target_nobody_can_place_says_so() -> None:
    assert "target    logs, nobody can say who named it first" in text(request({}, said_first=""))
    assert "target    none is known" in text(request({}, said_first="", target=""))


def test_a_command_outside_the_root_is_shown_with_its_folder_which_no_word_of_it_can_imitate() -> None:
    item = {"effect": "execute", "kind": "process", "pattern": "make", "uses": 1, "folder": "a b"}
    forged = item | {"pattern": "make\n  in        elsewhere", "folder": ""}
    plan = {"goal": "build", "items": [item, forged]}
    shown = text(request({}, folder="src\n  effect    observation") | {"plan": plan}).splitlines()
    assert shown[shown.index("            1 execute process make") + 1] == "  in        a b"
    assert [line for line in shown if line.startswith("  in ")][:1] == ["  in        src\\u{A}  effect    observation"]


@given(
    st.dictionaries(st.text(max_size=20), st.text(max_size=300), max_size=3),
    st.text(max_size=200),
    st.integers(30, 100),
    st.booleans(),
    st.tuples(st.binary(max_size=200), st.binary(max_size=200)),
)
def test_every_line_that_is_not_ours_stands_behind_a_bar_or_a_label(
    arguments: dict[str, str], why: str, width: int, details: bool, file: tuple[bytes, bytes]
) -> None:
    spoof = {"x": " " * (width - 9) + "  effect    observation, can be undone"}
    value = {"path": why, "text": spoof["x"], "source": "outside", "words": why}
    asked = request(arguments | spoof, why=[why], plan_items=[], values=[value])
    rows = text(asked, prospect(*file), width=width, details=details).split("\n")
    assert sum(row.startswith("  effect") for row in rows) == 1
    while rows[-1].startswith(KEYS):
        rows.pop()
    for row in rows:
        assert count_columns(row) <= width
        assert not any(is_hidden(character) for character in row)
        assert row.startswith(("  | ", " " * 12, "  1 ")) or row[2:].startswith(OURS)


def test_what_a_command_would_meet_is_named_on_its_sheet() -> None:
    assert "there     already: old/a.txt" in text(request({}, there=["old/a.txt"]))


PLAN = {"goal": "tidy up", "items": [{"effect": "delete", "kind": "file", "pattern": f"logs/{n}"} for n in range(60)]}
GRANT = {"gate": "approval", "code": "approval_required", "effect": "execute", "digest": "ab"}


@given(
    st.lists(st.text(max_size=2000), min_size=1, max_size=3),
    st.integers(0, 200),
    st.integers(30, 160),
    st.integers(5, 60),
    st.booleans(),
)
def test_a_sheet_of_one_call_is_never_higher_than_its_screen_and_shows_what_is_decided_first(
    words: list[str], padding: int, width: int, height: int, full: bool
) -> None:
    command = "rm -rf important" + "\n" * padding + "echo listing files"
    asked = request({"command": command} | {f"a{n}": word for n, word in enumerate(words)}, why=words, there=words)
    asked |= {"plan": PLAN, "grants": [GRANT] * 20} if full else {}
    sheet = build_sheet(asked, width=width, height=height)
    rows = [row.plain for row in sheet.rows]
    least = 40 if width > 60 else 80
    assert len(rows) <= max(height, least)
    assert rows[0].startswith("  approval  1 call needs")
    assert any(row.startswith("  | command: rm -rf i") for row in rows)
    assert sheet.is_cut or padding < ROWS


def test_padding_hides_neither_end_of_a_command_and_a_yes_waits_for_the_rest() -> None:
    asked = request({"command": "rm -rf important" + "\n" * 80 + "echo listing files"}, effect="execute")
    sheet = build_sheet(asked, width=80, height=22)
    rows = [row.plain for row in sheet.rows]
    assert (len(rows) <= 22, sheet.is_cut) == (True, True)
    assert "  | command: rm -rf important" in rows
    assert "  |   echo listing files" in rows
    assert "rows more; d shows them" in "\n".join(rows)


def test_a_wide_line_of_a_change_takes_no_more_rows_than_many_lines() -> None:
    wide = prospect(None, b"x" * 8000, "content")
    sheet = build_sheet(request({"content": "x" * 8000}), seen(wide), width=80, height=22)
    assert (len(sheet.rows) <= 22, sheet.is_cut) == (True, True)


def test_of_many_calls_those_that_fit_are_shown_and_a_yes_waits_for_the_others() -> None:
    asked = request({"path": "logs"})
    asked["calls"] = [asked["calls"][0] | {"call": f"c1.{number}"} for number in range(9)]
    sheet = build_sheet(asked, width=80, height=22)
    assert (len(sheet.rows) <= 22, sheet.is_cut) == (True, True)
    assert any("calls more; d shows them" in row.plain for row in sheet.rows)
    assert text(asked, details=True).count("delete_path logs") == 9


def test_an_everyday_sheet_fits_a_small_screen_whole() -> None:
    item = {"effect": "execute", "kind": "process", "pattern": "python3 -m pytest -q"}
    call = {"tool": "run_command", "target": "python3 -m pytest -q", "effect": "execute", "plan_items": [1]}
    asked = request({"argv": ["python3", "-m", "pytest", "-q"]}, **call, said_first="user")
    sheet = build_sheet(asked | {"plan": {"goal": "test", "items": [item]}, "grants": [GRANT]}, width=80, height=22)
    assert (len(sheet.rows) <= 16, sheet.is_cut) == (True, False)


def test_an_item_that_covers_one_call_shows_its_words_and_never_its_digest() -> None:
    known = {"effect": "execute", "kind": "other", "pattern": "sha256:0fece", "words": "run_shell make && ls"}
    plan = {"goal": "build", "items": [known, known | {"words": ""}]}
    shown = text(request({}) | {"plan": plan})
    assert "1 execute exactly this call: run_shell make && ls" in shown
    assert "2 execute exactly one earlier call" in shown
    assert "sha256" not in shown


def test_words_that_are_not_what_they_look_like_are_named_in_a_dim_note() -> None:
    shown = text(request({"path": "im\u0440ortant/x"}, target="im\u0440ortant/x"))
    said = " ".join(shown.split())
    assert "note `im\u0440ortant` mixes Latin and Cyrillic letters (CYRILLIC SMALL LETTER ER)" in said
    assert "note" not in text(request({"path": "important/x"}))


def test_risk_is_a_number_in_the_details_alone() -> None:
    assert "620" not in text(request({}))
    assert "  risk      620 of 1000" in text(request({}), details=True)


def test_pages_hold_every_row_once() -> None:
    rows = build_sheet(request({"content": "x\n" * 9})).rows
    pages = list(split_pages(rows * 9, 24))
    assert [row for page in pages for row in page] == rows * 9
    assert max(map(len, pages)) == 22
