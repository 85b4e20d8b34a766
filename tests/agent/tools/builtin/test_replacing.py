"""Replacing by pattern: exact, all or nothing before the first write, undone like any other edit."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.tools.looking import compile_pattern
from foregate.agent.tools.replacing import build_filler, replace_matches, search_replace
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import EvidenceKind, Survey, SurveyedResource, ToolCall, ToolResult
from foregate.schemas.tool_spec import Effect, ResourceKind
from tests.agent.running import Bench, run_alone
from tests.policies import policy_with


@pytest.fixture
def tools(workspace: Workspace, policy: Policy) -> Toolbox:
    return Bench(workspace, [search_replace(workspace, policy)])


async def call(tools: Toolbox, survey: Survey | None = None, **arguments: Json) -> ToolResult:
    return await run_alone(tools, ToolCall.of("search_replace", arguments), survey)


async def test_groups_are_filled_in_all_files_and_each_change_is_evidence(folder: Path, tools: Toolbox) -> None:
    (folder / "a.py").write_bytes("x = get(1)\r\ny = get(2) # é\n".encode())
    (folder / "b.py").write_text("get(3)")
    done = await call(tools, paths=["a.py", "b.py"], pattern=r"get\((?P<n>\d)\)", replacement="fetch[${n}, $1, $0, $$]")
    assert done.ok, done.content
    assert (folder / "a.py").read_bytes().decode() == "x = fetch[1, 1, get(1), $]\r\ny = fetch[2, 2, get(2), $] # é\n"
    assert (folder / "b.py").read_text() == "fetch[3, 3, get(3), $]"
    assert done.content == "`a.py`: 2 places replaced\n`b.py`: 1 place replaced"
    assert [change.resource.id for change in done.changes] == ["a.py", "b.py"]
    for change, record in zip(done.changes, done.evidence, strict=True):
        assert change.after == record.hash == strict_json.sha256((folder / change.resource.id).read_bytes())
        assert (record.kind, record.own_change) == (EvidenceKind.VERIFICATION_RESULT, True)


async def test_case_lines_and_literals(folder: Path, tools: Toolbox) -> None:
    (folder / "a").write_text("Cat\ncat.\n")
    await call(tools, paths=["a"], pattern="^CAT$", replacement="dog", case_sensitive=False)
    assert (folder / "a").read_text() == "dog\ncat.\n"
    await call(tools, paths=["a"], pattern="t.", replacement="$1", literal=True)
    assert (folder / "a").read_text() == "dog\nca$1\n"


@pytest.mark.parametrize(
    ("pattern", "replacement", "why"),
    [
        ("a", "$1", "no group `1`"),
        ("(a)", "${name}", "no group `name`"),
        ("a", "5$", "write `$$`"),
        ("(", "", "not RE2"),
        (r"(a)\1", "", "not RE2"),
        ("zzz", "", "matches nothing"),
    ],
)
async def test_what_cannot_be_meant_changes_nothing(
    folder: Path, tools: Toolbox, pattern: str, replacement: str, why: str
) -> None:
    (folder / "a").write_text("a")
    done = await call(tools, paths=["a"], pattern=pattern, replacement=replacement)
    assert not done.ok
    assert why in done.content
    assert (folder / "a").read_text() == "a"


async def test_one_file_that_cannot_be_replaced_keeps_all_as_they_are(folder: Path, tools: Toolbox) -> None:
    (folder / "a").write_text("a")
    (folder / "binary").write_bytes(b"\xffa")
    (folder / ".git").mkdir()
    (folder / ".git/config").write_text("a")
    (folder / "out").symlink_to("/etc/hostname")
    for other in ("binary", "missing", ".git/config", "out", "../a"):
        assert not (await call(tools, paths=["a", other], pattern="a", replacement="b")).ok, other
        assert (folder / "a").read_text() == "a", other
    assert (folder / ".git/config").read_text() == "a"


async def test_a_result_that_would_grow_too_large_is_not_written(folder: Path, workspace: Workspace) -> None:
    (folder / "a").write_text("a" * 100)
    tools = Bench(workspace, [search_replace(workspace, policy_with({"files.max_hash": 1000}))])
    done = await call(tools, paths=["a"], pattern="a", replacement="b" * 50)
    assert "larger than 1000 bytes" in done.content
    assert (folder / "a").read_text() == "a" * 100


async def test_a_file_that_changed_after_it_was_judged_is_left_alone(folder: Path, tools: Toolbox) -> None:
    for name in "ab":
        (folder / name).write_text("a")
    looked = [
        SurveyedResource(ResourceKind.FILE, name, Effect.EDIT, exists=True, hash=strict_json.sha256(b"a"))
        for name in "ab"
    ]
    (folder / "b").write_text("aa")
    survey = Survey("c", resources=tuple(looked))
    done = await call(tools, survey, paths=["a", "b"], pattern="a", replacement="x")
    assert "`b` changed after this call was judged" in done.content
    assert "leads elsewhere" in (await call(tools, survey, paths=["c"], pattern="a", replacement="x")).content
    assert (folder / "a").read_text() == "a"


async def test_a_file_named_twice_is_replaced_once(folder: Path, tools: Toolbox) -> None:
    (folder / "a").write_text("a")
    assert (await call(tools, paths=["a", "./a"], pattern="a", replacement="aa")).ok
    assert (folder / "a").read_text() == "aa"


@given(st.text(max_size=60), st.text(alphabet="ab.", min_size=1, max_size=3), st.text(max_size=5))
def test_a_literal_replacement_is_what_python_says(text: str, old: str, new: str) -> None:
    pattern = compile_pattern(old, literal=True, any_case=False)
    after, count = replace_matches(text, pattern, build_filler(new, pattern, literal=True), 10_000)
    assert (after, count) == (text.replace(old, new), text.count(old))
