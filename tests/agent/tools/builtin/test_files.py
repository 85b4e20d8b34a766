"""The file and folder tools on a real folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.folders import GONE
from foregate.agent.tools.tool import Tool, Toolbox
from foregate.agent.workspace import directory
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Change, EvidenceKind, Survey, SurveyedResource, ToolCall, ToolResult, Trust
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind
from tests.agent.running import Bench, run_alone
from tests.policies import policy_with


@pytest.fixture
def tools(workspace: Workspace, policy: Policy, tmp_path: Path) -> Toolbox:
    return Bench(workspace, builtin_tools(workspace, policy, memory=tmp_path / "memory.json"))


async def call(tools: Toolbox, name: str, **arguments: Json) -> ToolResult:
    return await run_alone(tools, ToolCall.of(name, arguments))


def sha(text: str) -> str:
    return strict_json.sha256(text.encode())


def test_every_builtin_tool_has_a_closed_schema_that_describes_each_parameter(tools: Toolbox) -> None:
    names = [spec.name for spec in tools.specs()]
    assert len(names) == len(set(names)) == 25
    for spec in tools.specs():
        assert spec.parameters["additionalProperties"] is False
        assert not {"oneOf", "anyOf", "allOf", "not", "enum"} & set(spec.parameters)
        assert all("description" in schema for schema in spec.parameters["properties"].values()), spec.name
        assert set(spec.parameters.get("required", ())) <= set(spec.parameters["properties"])
        assert {target.parameter for target in spec.targets} <= set(spec.parameters["properties"])
        assert spec.capabilities is not None
        assert spec.capabilities.read_only == (spec.effect is Effect.OBSERVATION and spec.name != "http_request")


async def test_a_write_reports_what_was_there_and_what_is_there_now(folder: Path, tools: Toolbox) -> None:
    made = await call(tools, "write_file", path="deep/a.txt", content="one")
    file = Resource(ResourceKind.FILE, "deep/a.txt")
    assert made.changes == (Change(file, "", sha("one"), 0o644),)
    again = await call(tools, "write_file", path="deep/a.txt", content="two")
    assert again.changes[0].before == sha("one")
    record = again.evidence[0]
    assert (record.kind, record.hash, record.own_change) == (EvidenceKind.VERIFICATION_RESULT, sha("two"), True)


@pytest.mark.parametrize(
    "arguments", [{"old": "a"}, {"old": "a", "new": "b", "diff": "x"}, {"old": "a", "diff": "x"}, {}]
)
async def test_an_edit_takes_a_passage_or_a_diff_and_not_both(folder: Path, tools: Toolbox, arguments: Json) -> None:
    (folder / "a.txt").write_text("a")
    assert (await call(tools, "edit_file", path="a.txt", **arguments)).error == "arguments"


async def test_an_edit_by_passage_needs_it_exactly_once_overlaps_included(folder: Path, tools: Toolbox) -> None:
    (folder / "a.txt").write_text("aaa b")
    for old, why in (("aa", "more than once"), ("c", "does not occur")):
        assert why in (await call(tools, "edit_file", path="a.txt", old=old, new="x")).content
    assert (await call(tools, "edit_file", path="a.txt", old="b", new="ü")).ok
    diff = "@@ -1 +1 @@\n-aaa ü\n\\ No newline at end of file\n+done\n"
    assert (await call(tools, "edit_file", path="a.txt", diff=diff)).ok
    assert (folder / "a.txt").read_text() == "done\n"


async def test_a_part_of_a_file_is_whole_characters_and_no_direct_evidence(folder: Path, tools: Toolbox) -> None:
    (folder / "a.txt").write_text("aü" * 10)
    part = await call(tools, "read_file", path="a.txt", offset=2, max_bytes=6)
    assert part.content == "aüaü"[:3] or "\ufffd" not in part.content
    assert (part.evidence[0].trust, part.dropped) == (Trust.INFERRED, 30 - len(part.content.encode()))


async def test_an_integer_may_be_written_with_a_point_as_json_schema_takes_it(folder: Path, tools: Toolbox) -> None:
    (folder / "a.txt").write_text("abcdef")
    assert (await call(tools, "read_file", path="a.txt", offset=2.0, max_bytes=3.0)).content == "cde"
    assert (await call(tools, "run_command", argv=["true"], timeout_ms=5000.0)).ok
    refused = await call(tools, "read_file", path="a.txt", offset=2.5)
    assert (refused.ok, refused.content) == (False, "`offset` is not an integer")


async def test_a_listing_hides_dots_follows_no_link_and_never_enters_git(folder: Path, tools: Toolbox) -> None:
    for path in (".git/config", ".hidden/x", "src/deep/a.py", "src/b.txt"):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("xy")
    (folder / "out").symlink_to("/etc")
    flat = await call(tools, "list_files")
    assert flat.content.split("\n") == ["out  (link)", "src/", ""]
    deep = await call(tools, "list_files", recursive=True, hidden=True)
    assert ".git/" in deep.content
    assert "config" not in deep.content
    assert "passwd" not in deep.content
    assert (await call(tools, "list_files", recursive=True, glob="*.py")).content.strip() == "src/deep/a.py  2"
    assert (
        await call(tools, "list_files", path="src", recursive=True, glob="deep/*")
    ).content.strip() == "src/deep/a.py  2"
    assert {record.hash for record in flat.evidence} == {""}
    assert Resource(ResourceKind.DIRECTORY, "src") in [record.resource for record in flat.evidence]


async def test_a_call_may_want_less_than_the_policy_allows_and_any_case(folder: Path, tools: Toolbox) -> None:
    for name in "abc":
        (folder / name).write_text("Word\n")
    assert "only 2 entries are listed" in (await call(tools, "list_files", max_results=2)).content
    assert (await call(tools, "search_text", pattern="WORD")).content == "nothing found"
    found = await call(tools, "search_text", pattern="W.RD", regex=True, case_sensitive=False, max_results=2)
    assert found.content == "a:1: Word\nb:1: Word"


async def test_missing_folders_are_made_unless_the_call_forbids_it(folder: Path, tools: Toolbox) -> None:
    refused = await call(tools, "write_file", path="new/a", content="x", create_dirs=False)
    assert "`new` does not exist" in refused.content
    assert not (folder / "new").exists()
    assert (await call(tools, "write_file", path="a", content="x", create_dirs=False)).ok
    assert (await call(tools, "write_file", path="new/a", content="x")).ok


async def test_a_listing_is_bounded_and_says_so(folder: Path, workspace: Workspace) -> None:
    for number in range(30):
        (folder / f"{number:02}").touch()
    tools = Bench(workspace, builtin_tools(workspace, policy_with({"files.max_entries": 20}), memory=None))
    result = await call(tools, "list_files")
    assert "19  0\n" in result.content
    assert "20  0" not in result.content
    assert "only 20 entries are listed" in result.content


async def test_a_name_that_is_no_text_or_holds_a_line_end_is_shown_harmlessly(folder: Path, tools: Toolbox) -> None:
    (folder / "a\nb  9").touch()
    os.close(os.open(os.fsencode(folder) + b"/\xff", os.O_CREAT))
    result = await call(tools, "list_files")
    assert "'a\\nb  9'  0" in result.content
    strict_json.canonical(result.content)
    assert all("\udcff" not in record.resource.id for record in result.evidence)


async def test_a_search_finds_lines_and_leaves_binaries_and_secrets_alone(folder: Path, tools: Toolbox) -> None:
    (folder / "a.py").write_text("x = 1\nfind (me)\n")
    (folder / "b.bin").write_bytes(b"find (me)\0")
    (folder / "key.pem").write_text("find (me)")
    result = await call(tools, "search_text", pattern="find (me)")
    assert result.content.startswith("a.py:2: find (me)\n(2 files were not searched")
    assert [record.resource.id for record in result.evidence] == ["a.py"]
    assert "a.py:1:" in (await call(tools, "search_text", pattern=r"x\s=", regex=True)).content
    assert "not RE2" in (await call(tools, "search_text", pattern="(?=x)", regex=True)).content
    assert "nothing found" in (await call(tools, "search_text", pattern="x", glob="*.txt")).content


async def test_deleting_needs_recursive_for_what_is_not_empty_and_never_takes_git(folder: Path, tools: Toolbox) -> None:
    (folder / "d/sub/.git").mkdir(parents=True)
    (folder / "d/f").write_text("f")
    assert "not empty" in (await call(tools, "delete_path", path="d")).content
    assert "belongs to git" in (await call(tools, "delete_path", path="d", recursive=True)).content
    (folder / "d/sub/.git").rmdir()
    done = await call(tools, "delete_path", path="d", recursive=True)
    assert (done.ok, done.changes[0].after, done.evidence[0].hash) == (True, "", GONE)
    for path in (".", "missing", ".git"):
        assert not (await call(tools, "delete_path", path=path, recursive=True)).ok


@pytest.mark.parametrize(
    "path", [".git/hooks/x", "sub/.GIT/config", ".gitmodules", ".g\u200cit/x", ".foregate.yaml", "link/x"]
)
async def test_no_file_tool_writes_what_belongs_to_git_or_foregate(folder: Path, tools: Toolbox, path: str) -> None:
    (folder / ".git").mkdir()
    (folder / "link").symlink_to(".git")
    (folder / "mine").write_text("x")
    before = sorted(folder.rglob("*"))
    for name, arguments in (
        ("write_file", {"path": path, "content": "x"}),
        ("create_directory", {"path": path}),
        ("move_path", {"source": "mine", "destination": path}),
    ):
        result = await call(tools, name, **arguments)
        assert "not the agent's to change" in result.content, name
    assert sorted(folder.rglob("*")) == before


async def test_a_tool_refuses_a_path_that_leads_elsewhere_than_judged(folder: Path, tools: Toolbox) -> None:
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")
    (folder / "link").symlink_to("b")
    survey = Survey("c", resources=(SurveyedResource(ResourceKind.FILE, "a", Effect.EDIT, True, sha("a")),))
    for name, more in (("read_file", {}), ("write_file", {"content": "x"})):
        elsewhere = await run_alone(tools, ToolCall.of(name, {"path": "link", **more}), survey)
        assert "leads elsewhere" in elsewhere.content
    (folder / "a").write_text("changed")
    changed = await run_alone(tools, ToolCall.of("write_file", {"path": "a", "content": "x"}), survey)
    assert "changed after this call was judged" in changed.content
    assert (folder / "b").read_text() == "b"


async def test_a_folder_moves_with_what_is_in_it(folder: Path, tools: Toolbox) -> None:
    (folder / "a/b").mkdir(parents=True)
    (folder / "a/b/f").write_text("f")
    moved = await call(tools, "move_path", source="a", destination="x/y")
    assert [(c.resource.id, bool(c.before), bool(c.after)) for c in moved.changes] == [
        ("a", True, False),
        ("x/y", False, True),
    ]
    assert moved.changes[0].before == moved.changes[1].after
    assert (await call(tools, "move_path", source="x", destination="x")).ok is False


async def test_creating_a_folder_twice_changes_nothing_the_second_time(tools: Toolbox) -> None:
    first, second = [await call(tools, "create_directory", path="a/b") for _ in range(2)]
    assert [change.after for change in first.changes] == [directory.EMPTY]
    assert (second.ok, second.changes) == (True, ())


def test_two_tools_of_one_name_are_refused(tools: Toolbox) -> None:
    from foregate.schemas.errors import UsageError

    tool = Tool(tools.specs()[0], lambda arguments: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(UsageError, match="two tools"):
        Toolbox([tool, tool])


@pytest.mark.parametrize("tool", ["list_files", "search_text"])
async def test_a_glob_beyond_its_bound_is_one_sentence(folder: Path, tools: Toolbox, tool: str) -> None:
    (folder / "a.txt").write_text("x")
    result = await call(tools, tool, glob="*" * 2000, **({"pattern": "x"} if tool == "search_text" else {}))
    assert (result.ok, result.error, "shorten it" in result.content) == (False, "WorkspaceError", True)


async def test_a_folder_deleted_in_part_is_never_told_as_left_alone(
    folder: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools = Bench(workspace, builtin_tools(workspace, policy_with(), memory=None))
    (folder / "d/sub").mkdir(parents=True)
    (folder / "d/a.txt").write_text("x")
    rmdir = os.rmdir

    def late(name: str, **more: Any) -> None:
        (folder / "d" / "late.txt").write_text("came in between")
        rmdir(name, **more)

    monkeypatch.setattr(os, "rmdir", late)
    result = await call(tools, "delete_path", path="d", recursive=True)
    assert (result.ok, result.unknown, "part of the folder is gone" in result.content) == (False, True, True)
    assert sorted(path.name for path in (folder / "d").iterdir()) == ["late.txt"]
