"""What a survey says of files that programs run without being asked to."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.survey.sandboxed import ChangeSurveyor
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.source.load import default_policy
from foregate.schemas.sandbox import PathChange, PathState, SandboxedChanges
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Survey, ToolCall
from foregate.schemas.tool_spec import Effect, ResourceKind
from tests.agent.survey.changed import run, run_in_copy
from tests.agent.survey.test_surveyor import Look, looking


@pytest.fixture
def look(workspace: Workspace) -> Look:
    return looking(workspace)


def reasons(found: Survey) -> list[str]:
    return [resource.protected for resource in found.resources]


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("path", [".vscode/tasks.json", ".github/workflows/ci.yml", ".ENVRC ", "x.pth"])
def test_writing_what_runs_by_itself_is_marked_whether_it_is_there_or_not(
    folder: Path, look: Look, path: str, there: bool
) -> None:
    if there:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("x")
        assert reasons(look("edit_file", path=path, old="x", new="y")) == ["runs_by_itself"]
    assert reasons(look("write_file", path=path, content="x")) == ["runs_by_itself"]


def test_reading_and_deleting_it_is_not_marked(folder: Path, look: Look) -> None:
    (folder / ".envrc").write_text("x")
    (folder / ".claude").mkdir()
    (folder / ".claude/settings.json").write_text("{}")
    assert reasons(look("read_file", path=".envrc")) == [""]
    assert set(reasons(look("run_command", argv=["cat", ".envrc"]))) == {""}
    assert reasons(look("delete_path", path=".envrc")) == [""]
    assert reasons(look("delete_path", path=".claude", recursive=True)) == [""]


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [('"1.0"', '"1.1"', ""), ('"postinstall": "a"', '"postinstall": "b"', "runs_by_itself"), ("not there", "x", "")],
)
def test_an_edit_of_a_manifest_is_marked_for_what_it_makes_of_its_hooks(
    folder: Path, look: Look, old: str, new: str, why: str
) -> None:
    (folder / "package.json").write_text('{"version": "1.0", "scripts": {"postinstall": "a"}}')
    assert reasons(look("edit_file", path="package.json", old=old, new=new)) == [why]


def test_moving_something_to_where_it_runs_by_itself_is_marked(folder: Path, look: Look) -> None:
    (folder / "g/workflows").mkdir(parents=True)
    (folder / "g/workflows/ci.yml").write_text("x")
    (folder / "x.json").write_text('{"scripts": {"install": "x"}}')
    assert reasons(look("move_path", source="g/workflows/ci.yml", destination=".envrc")) == ["", "runs_by_itself"]
    assert reasons(look("move_path", source="g", destination=".github")) == ["", "runs_by_itself"]
    assert reasons(look("move_path", source="g", destination="h")) == ["", ""]
    (folder / "link").symlink_to("g")
    assert reasons(look("move_path", source="link", destination=".github")) == ["", "runs_by_itself"]
    assert reasons(look("move_path", source="link", destination="h")) == ["", ""]
    assert reasons(look("move_path", source="x.json", destination="package.json")) == ["", "runs_by_itself"]


def test_the_parts_of_a_bare_repository_are_marked_once_there_are_two(folder: Path, look: Look) -> None:
    assert reasons(look("write_file", path="r/HEAD", content="ref: refs/heads/x")) == [""]
    (folder / "r").mkdir()
    (folder / "r/HEAD").write_text("ref: refs/heads/x")
    for path in ("r/config", "r/hooks/post-checkout", "r/objects/x", "r/refs/heads/x"):
        assert reasons(look("write_file", path=path, content="x")) == ["runs_by_itself"]
    (folder / "r/HEAD").rename(folder / "r/config")
    assert reasons(look("write_file", path="r/HEAD", content="x")) == ["runs_by_itself"]


def test_a_secret_file_stays_a_secret_one(look: Look) -> None:
    assert reasons(look("write_file", path=".npmrc", content="x")) == ["secret"]


@pytest.mark.parametrize("path", ["dir/.bashrc", "src/package.json"])
def test_a_tool_that_shows_no_preview_is_marked_by_the_path_alone(workspace: Workspace, path: str) -> None:
    entry: dict[str, Json] = {"effect": "edit", "targets": {"path": {"kind": "file", "access": "edit"}}}
    found = looking(workspace, tools={"read_file": entry})("read_file", path=path)
    assert [(one.kind, one.protected) for one in found.resources] == [(ResourceKind.FILE, "runs_by_itself")]


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ("ln -s ci .github", [".github"]),
        ("ln -s ../hk .git/hooks", [".git/hooks"]),
        ("rm -rf .git/hooks && ln -s ../hk .git/hooks", [".git/hooks"]),
        ("ln -s ../ci .git/info", [".git/info"]),
        ("ln -s ci latest", []),
    ],
)
def test_a_link_that_a_command_makes_is_marked_where_programs_look_for_what_they_run(
    workspace: Workspace, folder: Path, tmp_path: Path, line: str, marked: list[str]
) -> None:
    run("git init -q && rm -rf .git/hooks .git/info && mkdir -p ci/workflows hk && echo x > ci/workflows/a.yml", folder)
    found = run_in_copy(line, folder, tmp_path / "kept/upper")
    surveyor = ChangeSurveyor(workspace, default_policy(), SessionState(), found)
    survey = surveyor.survey(ToolCall.of("run_shell", {}, id="c"), "", Survey("c"))
    assert [one.id for one in survey.resources if one.protected == "runs_by_itself"] == marked


@pytest.mark.parametrize(
    ("path", "before", "after", "why"),
    [
        (".github", "directory", "link", "runs_by_itself"),
        (".envrc", "directory", "file", "runs_by_itself"),
        (".envrc", "file", "directory", ""),
        (".github", "", "directory", ""),
    ],
)
def test_what_takes_the_place_of_a_folder_is_marked_by_what_it_becomes(
    workspace: Workspace, tmp_path: Path, path: str, before: str, after: str, why: str
) -> None:
    change = PathChange(path, Effect.EDIT if before else Effect.CREATE, PathState(before), PathState(after, "0" * 64))
    surveyor = ChangeSurveyor(workspace, default_policy(), SessionState(), SandboxedChanges((change,), str(tmp_path)))
    found = surveyor.survey(ToolCall.of("run_shell", {}, id="c"), "", Survey("c"))
    assert reasons(found) == [why]
