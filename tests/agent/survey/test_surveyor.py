"""The survey: what looking finds, without running or opening anything it should not."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from foregate.agent.loop.executor import find_changed_resource
from foregate.agent.survey.surveyor import Surveyor
from foregate.agent.tools.builtin import builtin_tools
from foregate.agent.tools.tool import Toolbox
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.schemas import strict_json
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Origin, Survey, ToolCall
from foregate.schemas.tool_spec import Effect, Resource, ResourceKind, build_catalogue
from tests.policies import policy_with

Look = Callable[..., Survey]


def looking(workspace: Workspace, **changes: Json) -> Look:
    policy = policy_with({key.replace("__", "."): value for key, value in changes.items()})
    box = Toolbox(builtin_tools(workspace, policy))
    surveyor = Surveyor(workspace, box, policy, build_catalogue(list(box.specs())))
    return lambda name, **arguments: surveyor.survey_call(ToolCall.of(name, arguments, id="c"), SessionState())


@pytest.fixture
def look(workspace: Workspace) -> Look:
    return looking(workspace)


@pytest.fixture
def repository(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    return folder


def stage(folder: Path, *paths: str) -> None:
    subprocess.run(["git", "add", "-f", *paths], cwd=folder, check=True)


def test_one_file_has_one_id_however_it_is_named(folder: Path, look: Look) -> None:
    (folder / "d").mkdir()
    (folder / "d/a.txt").write_text("x")
    (folder / "link").symlink_to("d")
    ids = {look("read_file", path=path).resources[0].id for path in ("d/a.txt", "./d//a.txt", f"{folder}/link/a.txt")}
    assert ids == {"d/a.txt"}
    found = look("write_file", path="link/a.txt", content="").resources[0]
    assert (found.exists, found.hash, found.size) == (True, strict_json.sha256(b"x"), 1)


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "out/passwd"])
@pytest.mark.parametrize("tool", ["read_file", "list_files", "delete_path"])
def test_what_lies_outside_is_named_and_not_looked_at(folder: Path, look: Look, tool: str, path: str) -> None:
    (folder / "out").symlink_to("/etc")
    found = look(tool, path=path).resources[0]
    assert (found.protected, found.exists, found.hash) == ("outside_workspace", False, "")


@pytest.mark.parametrize("tool", ["read_file", "list_files", "delete_path"])
def test_a_null_byte_is_said_to_be_one_and_not_to_lie_outside(look: Look, tool: str) -> None:
    assert look(tool, path="a\0b").problem == "the path holds a null byte, which no name of a file can; send it without"


def test_a_url_without_its_scheme_names_the_same_address_and_host_as_with_it(look: Look) -> None:
    bare, whole = (
        look("http_request", method="GET", url=url) for url in ("www.a.example/b", "https://www.a.example/b")
    )
    assert (bare.problem, bare.resources) == ("", whole.resources)
    assert [one.id for one in bare.resources] == ["https://www.a.example/b", "www.a.example"]


@pytest.mark.parametrize("tool", ["read_file", "list_files", "write_file"])
def test_a_link_to_a_name_that_is_no_text_holds_the_call_and_says_so(folder: Path, look: Look, tool: str) -> None:
    os.symlink(b"\xff", folder / "link")
    found = look(tool, path="link", content="x")
    assert (found.resources, "no valid text" in found.problem) == ((), True)


@pytest.mark.parametrize(
    ("path", "why"),
    [(".git/config", "git_internal"), ("sub/.GIT", "git_internal"), (".FOREGATE/x", "foregate"), ("a/.env", "secret")],
)
def test_protected_paths_are_marked_whatever_their_case(look: Look, path: str, why: str) -> None:
    assert look("write_file", path=path, content="x").resources[0].protected == why


def test_a_folder_to_be_deleted_shows_how_much_and_what_protected_thing_is_in_it(folder: Path, look: Look) -> None:
    (folder / "d/sub").mkdir(parents=True)
    (folder / "d/f").write_text("x")
    found = look("delete_path", path="d", recursive=True).resources[0]
    assert (found.kind, found.access, found.entries, found.protected) == (ResourceKind.DIRECTORY, Effect.DELETE, 2, "")
    assert found.restorable
    (folder / "d/sub/.git").mkdir()
    assert look("delete_path", path="d", recursive=True).resources[0].protected == "git_internal"


def test_what_is_too_much_or_too_special_to_be_kept_has_no_way_back(folder: Path, workspace: Workspace) -> None:
    look = looking(workspace, files__max_entries=3, files__max_hash=10)
    (folder / "big").write_text("x" * 11)
    assert not look("delete_path", path="big").resources[0].restorable
    for number in range(4):
        (folder / f"many/{number}").mkdir(parents=True)
    found = look("delete_path", path="many", recursive=True).resources[0]
    assert (found.entries, found.restorable) == (3, False)
    (folder / "odd").mkdir()
    os.mkfifo(folder / "odd/pipe")
    assert not look("delete_path", path="odd", recursive=True).resources[0].restorable


def test_a_pipe_is_seen_and_not_opened(folder: Path, look: Look) -> None:
    os.mkfifo(folder / "pipe")
    found = look("read_file", path="pipe").resources[0]
    assert (found.kind, found.exists, found.hash) == (ResourceKind.OTHER, True, "")


def test_a_move_names_the_link_itself_and_a_taken_destination(folder: Path, look: Look) -> None:
    (folder / "a").write_text("x")
    (folder / "link").symlink_to("a")
    source, destination = look("move_path", source="link", destination="a").resources
    assert (source.id, source.access, source.exists) == ("link", Effect.MOVE, True)
    assert (destination.id, destination.access, destination.exists) == ("a", Effect.CREATE, True)


def test_a_command_is_its_words_and_a_shell_line_its_text(folder: Path, look: Look) -> None:
    (folder / "a b").write_text("x")
    found = look("run_command", argv=["cat", "a b", "missing"])
    assert found.command is not None
    assert found.command.argv == ("cat", "a b", "missing")
    assert [(r.kind.value, r.id) for r in found.resources] == [("process", "cat 'a b' missing"), ("file", "a b")]
    found = look("run_command", argv=["make", "/etc/passwd"])
    assert [r.kind.value for r in found.resources] == ["process"]
    found = look("run_shell", command="cat 'a b'")
    assert found.command is not None
    assert (found.command.shell, found.command.argv) == ("cat 'a b'", ())


@pytest.mark.parametrize("argv", [["cat", "/etc/passwd"], ["head", "-n", "1", "../x"], ["ls", "--", "/"]])
def test_a_command_that_looks_outside_is_marked(look: Look, argv: list[str]) -> None:
    assert "outside_workspace" in [resource.protected for resource in look("run_command", argv=argv).resources]


def test_a_command_s_files_are_named_from_its_folder(folder: Path, look: Look) -> None:
    (folder / "d").mkdir()
    (folder / "d/.env").write_text("x")
    found = look("run_command", argv=["cat", ".env"], cwd="d")
    assert [(r.id, r.protected) for r in found.resources][1:] == [("d/.env", "secret"), ("d", "")]


@pytest.mark.parametrize(("cwd", "where"), [("d", "d"), ("./d/", "d"), ("link", "d"), (".", ""), (None, ""), (5, "")])
def test_a_command_knows_where_it_runs_by_the_folder_s_own_name(
    folder: Path, look: Look, cwd: object, where: str
) -> None:
    (folder / "d").mkdir()
    (folder / "link").symlink_to("d")
    given = {} if cwd is None else {"cwd": cwd}
    for found in (look("run_command", argv=["make"], **given), look("run_shell", command="make", **given)):
        assert found.command is not None
        assert found.command.folder == where


def test_a_url_is_canonical_and_names_its_host(look: Look) -> None:
    found = look("http_request", url="HTTPS://Example.ORG:443/a", method="POST")
    assert [(r.kind.value, r.id, r.access) for r in found.resources] == [
        ("url", "https://example.org/a", Effect.SEND),
        ("host", "example.org", Effect.SEND),
    ]
    assert look("http_request", url="http://user@example.org/").problem


def test_a_repository_is_its_root_and_its_hash_its_state(repository: Path, look: Look) -> None:
    (repository / "d").mkdir()
    first = look("git_commit", path="d", message="m").resources[0]
    assert (first.kind, first.id, first.access) == (ResourceKind.REPOSITORY, ".", Effect.COMMIT)
    (repository / "d/a").write_text("x")
    assert look("git_commit", message="m").resources[0].hash == first.hash
    stage(repository, "d/a")
    assert look("git_commit", message="m").resources[0].hash not in ("", first.hash)
    added = look("git_add", paths=["d/a", ".env"])
    assert [(r.id, r.access, r.protected) for r in added.resources] == [
        (".", Effect.EDIT, ""),
        ("d/a", Effect.OBSERVATION, ""),
        (".env", Effect.OBSERVATION, "secret"),
    ]


def test_a_change_without_a_repository_is_held_and_a_look_is_not(look: Look) -> None:
    assert "in no git repository" in look("git_commit", message="m").problem
    assert look("git_status").problem == ""


def test_looking_at_a_hostile_repository_runs_nothing(repository: Path, look: Look, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for setting in ("core.fsmonitor", "diff.external"):
        subprocess.run(["git", "config", setting, f"touch {ran}; false"], cwd=repository, check=True)
    look("git_commit", message="m")
    subprocess.run(["git", "config", "filter.x.clean", f"touch {ran}"], cwd=repository, check=True)
    assert "names a program git would run" in look("git_commit", message="m").problem
    assert not ran.exists()


@pytest.mark.parametrize(
    ("method", "url", "effect"),
    [
        ("GET", "https://example.org/docs/page", Effect.OBSERVATION),
        ("HEAD", "https://example.org/?q=the+launch+code+is+ready", Effect.SEND),
        ("GET", "https://example.org/?q=the+launch+code+is+ready", Effect.SEND),
        ("POST", "https://example.org/", Effect.SEND),
    ],
)
def test_a_get_that_carries_what_nobody_said_is_a_send(look: Look, method: str, url: str, effect: Effect) -> None:
    found = look("http_request", url=url, method=method)
    assert found.declared_effect is effect
    assert {resource.access for resource in found.resources} == {effect}


def test_an_address_the_user_gave_is_no_send(workspace: Workspace) -> None:
    url = "https://example.org/?q=the+launch+code+is+ready"
    state = SessionState()
    state.atoms.add_text(f"please get {url}", Origin.USER, 1)
    box = Toolbox(builtin_tools(workspace, policy_with()))
    surveyor = Surveyor(workspace, box, policy_with(), build_catalogue(list(box.specs())))
    found = surveyor.survey_call(ToolCall.of("http_request", {"url": url}, id="c"), state)
    assert found.declared_effect is Effect.OBSERVATION


def test_a_format_of_a_service_is_found_under_its_name(look: Look) -> None:
    found = look("http_request", url=f"https://example.org/?q=glpat-{'a1' * 12}")
    assert found.secrets == ("the call matches sensitive.formats.gitlab_token",)


def test_a_survey_beyond_its_bound_holds_the_call(look: Look) -> None:
    found = look("run_command", argv=["echo", "x" * 10_000])
    assert "names too much" in found.problem
    assert found.resources == ()


def test_only_the_session_s_own_changes_explain_a_difference(folder: Path, look: Look) -> None:
    (folder / "d").mkdir()
    (folder / "d/f").write_text("one")
    judged = look("delete_path", path="d", recursive=True)
    assert find_changed_resource(judged, look("delete_path", path="d", recursive=True), {}) == ""
    (folder / "d/f").write_text("other")
    now = look("delete_path", path="d", recursive=True)
    assert find_changed_resource(judged, now, {}) == "d"
    assert find_changed_resource(judged, now, {Resource(ResourceKind.FILE, "elsewhere"): "x"}) == "d"
    assert find_changed_resource(judged, now, {Resource(ResourceKind.FILE, "d/f"): "x"}) == ""


def test_a_command_may_look_at_what_the_same_response_made_as_that_left_it(folder: Path, look: Look) -> None:
    lines = {"argv": ["wc", "-l", "new.txt"]}
    judged = look("run_command", **lines)
    (folder / "new.txt").write_text("one")
    now = look("run_command", **lines)
    (made,) = [resource for resource in now.resources if resource.id == "new.txt"]
    own = {made.resource: made.hash}
    assert find_changed_resource(judged, now, own) == ""
    assert find_changed_resource(judged, now, {}) != ""
    assert find_changed_resource(judged, now, {made.resource: "other"}) != ""
    for worse in ({"access": Effect.EDIT}, {"protected": "secret"}):
        assert (
            find_changed_resource(judged, replace(now, resources=(*judged.resources, replace(made, **worse))), own)
            != ""
        )


@pytest.mark.parametrize(
    ("argv", "protected"),
    [
        (["grep", "-r", "KEY", "."], "secret"),
        (["grep", "-r", "KEY"], "secret"),
        (["grep", "-r", "-m", "1", "KEY"], "secret"),
        (["grep", "-r", "-e", "KEY"], "secret"),
        (["grep", "KEY", "-r", "--", "deep"], "secret"),
        (["grep", "-r", "KEY", "plain"], ""),
        (["grep", "KEY", "plain/a.txt"], ""),
        (["ls", "-R", "."], ""),
    ],
)
def test_a_command_that_nothing_holds_names_the_secrets_in_the_folders_it_reads(
    folder: Path, workspace: Workspace, argv: list[str], protected: str
) -> None:
    for name in ("deep/er/.env", "plain/a.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("KEY=1")
    found = looking(workspace, commands__reads={})("run_command", argv=argv)
    assert {r.protected for r in found.resources} - {""} == ({protected} if protected else set())


def test_a_folder_with_more_than_can_be_listed_may_hold_a_secret(folder: Path, workspace: Workspace) -> None:
    for number in range(4):
        (folder / f"{number}.txt").write_text("x")
    found = looking(workspace, files__max_entries=3, commands__reads={})("run_command", argv=["grep", "-r", "x"])
    assert found.resources[-1].protected == "secret"


@pytest.mark.parametrize(
    ("argv", "there"),
    [
        (["mv", "a.txt", "old/a.txt"], ("a.txt", "old/a.txt")),
        (["mv", "a.txt", "old"], ("a.txt", "old", "old/a.txt")),
        (["mv", "a.txt", "new.txt"], ("a.txt",)),
        (["cp", "-f", "../outside", "/etc/passwd", "a.txt"], ("a.txt",)),
        (["cat", "a.txt"], ()),
    ],
)
def test_a_command_that_may_change_things_names_what_is_there_already(
    folder: Path, look: Look, argv: list[str], there: tuple[str, ...]
) -> None:
    (folder / "a.txt").write_text("this year")
    (folder / "old").mkdir()
    (folder / "old/a.txt").write_text("last year")
    command = look("run_command", argv=argv).command
    assert command is not None
    assert command.there == there
