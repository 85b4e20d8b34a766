"""Which folders a sandbox shows: every toolchain of PATH, and never a home."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.sandbox.plan import ProcessLimits
from foregate.agent.sandbox.visible import (
    is_inside,
    list_private,
    list_system_secrets,
    list_visible_folders,
    plan_read,
    read_stamp,
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with secrets and the usual ways to install programs."""
    home = tmp_path / "home"
    programs = (
        ".cargo/bin/cargo .rustup/toolchains/stable/bin/rustc .pyenv/shims/python .pyenv/versions/3.11/bin/python3.11 "
        ".nvm/versions/node/v20/bin/node .local/bin/plain .local/share/tool/bin/tool .local/lib/python/x bin/own "
        "projects/venv/bin/pip projects/copied/bin/python go/bin/gopls .ssh/id .config/token "
        ".pyenv/versions/3.11/lib/python3.11/os.py"
    )
    for name in programs.split():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).touch(0o755)
    (home / "projects/venv/bin/python").symlink_to(home / ".pyenv/versions/3.11/bin/python3.11")
    (home / "projects/copied/pyvenv.cfg").write_text(f"home = {home}/.pyenv/versions/3.11/bin\nversion = 3.11\n")
    (home / ".local/bin/tool").symlink_to("../share/tool/bin/tool")
    (home / ".local/bin/key").symlink_to(home / ".ssh/id")
    (home / "current").symlink_to(".nvm/versions/node/v20")
    return home


def seen(home: Path, *folders: str) -> set[str]:
    """Return what is seen of the home with these folders of it on PATH."""
    visible = list_visible_folders(os.pathsep.join(str(home / folder) for folder in folders), str(home))
    return {os.path.relpath(folder, home) for folder in visible.folders if is_inside(folder, [str(home)])}


@pytest.mark.parametrize(
    ("folder", "shown"),
    [
        (".cargo/bin", {".cargo", ".rustup"}),
        (".pyenv/shims", {".pyenv"}),
        (".nvm/versions/node/v20/bin", {".nvm/versions/node/v20"}),
        ("current/bin", {".nvm/versions/node/v20"}),
        ("projects/venv/bin", {"projects/venv", ".pyenv/versions/3.11"}),
        ("projects/copied/bin", {"projects/copied", ".pyenv/versions/3.11/bin", ".pyenv/versions/3.11/lib"}),
        (".local/bin", {".local/bin", ".local/lib", ".local/share/tool"}),
        ("bin", {"bin"}),
        ("go/bin", {"go"}),
        ("", set()),
        (".ssh", set()),
        (".config", set()),
        ("..", set()),
        ("missing/bin", set()),
    ],
)
def test_a_folder_of_path_shows_its_installation(home: Path, folder: str, shown: set[str]) -> None:
    assert seen(home, folder) == shown


@given(
    folders=st.lists(
        st.sampled_from(
            [
                ".cargo/bin",
                ".local/bin",
                ".ssh",
                ".config",
                "",
                ".",
                "..",
                ".local",
                ".local/share",
                "bin",
                "/",
                "/home",
            ]
        )
    )
)
def test_no_path_shows_a_home_or_its_secrets(tmp_path_factory: pytest.TempPathFactory, folders: list[str]) -> None:
    home = tmp_path_factory.getbasetemp() / "a home"
    for name in (".cargo/bin", ".local/bin", ".local/share", ".ssh", ".config", "bin"):
        (home / name).mkdir(parents=True, exist_ok=True)
    path = os.pathsep.join(str(home / folder) for folder in folders)
    shown = list_visible_folders(path, str(home)).folders
    assert not [secret for secret in (home, home / ".ssh", home / ".config") if is_inside(str(secret), shown)]


def test_links_on_the_way_are_named_with_their_targets(home: Path) -> None:
    visible = list_visible_folders(str(home / "current/bin"), str(home))
    assert visible.links[str(home / "current")] == ".nvm/versions/node/v20"


@pytest.mark.parametrize("base", [".ssh", "projects", "", "missing"])
def test_only_a_folder_of_pythons_is_shown_for_being_the_base_of_an_environment(home: Path, base: str) -> None:
    (home / "projects/copied/pyvenv.cfg").write_text(f"home = {home / base}\n")
    assert seen(home, "projects/copied/bin") == {"projects/copied"}


def test_a_circle_of_links_shows_nothing(home: Path) -> None:
    (home / "a").symlink_to("b")
    (home / "b").symlink_to("a")
    assert seen(home, "a/bin") == set()


def test_the_system_is_seen_and_no_folder_twice() -> None:
    visible = list_visible_folders("/usr/bin:/bin:/usr/local/bin", "/nowhere")
    assert {"/usr", "/etc"} <= {*visible.folders}
    assert not [one for one in visible.folders if is_inside(one, {*visible.folders} - {one})]


def test_what_is_kept_from_others_is_a_secret_and_the_rest_is_not() -> None:
    secrets = list_system_secrets(["/usr", "/etc"])
    assert all(os.access(path, os.R_OK) for path in secrets)
    assert "/etc/passwd" not in secrets
    shadow = Path("/etc/shadow")
    assert not (shadow.exists() and os.access(shadow, os.R_OK)) or str(shadow) in secrets


def test_a_token_in_a_toolchain_is_a_secret(home: Path) -> None:
    (home / ".cargo/credentials.toml").touch()
    assert list_system_secrets([str(home / ".cargo")])[-1] == str(home / ".cargo/credentials.toml")


@pytest.mark.parametrize(("workspace", "inside"), [("home/projects", "home"), ("home", ""), ("", "")])
def test_an_empty_home_never_lies_over_the_workspace(home: Path, workspace: str, inside: str) -> None:
    base = home.parent
    plan = plan_read(str(base / workspace), "/usr/bin", str(home), scratch_bytes=1, limits=ProcessLimits())
    assert plan["home"] == (str(base / inside) if inside else "/home/foregate")


def test_a_folder_of_path_in_the_workspace_brings_nothing_along(home: Path) -> None:
    """A command could have written its links."""
    plan = plan_read(
        str(home / "projects"), str(home / "projects/venv/bin"), str(home), scratch_bytes=1, limits=ProcessLimits()
    )
    assert not [folder for folder in plan["folders"] if is_inside(folder, [str(home)])]


def test_a_mask_is_resolved_but_for_its_last_name(home: Path) -> None:
    (home / "projects/link").symlink_to("venv")
    (home / "projects/venv/.env").symlink_to("elsewhere")
    plan = plan_read(
        str(home / "projects"), "", str(home), masks=["link/.env"], scratch_bytes=1, limits=ProcessLimits()
    )
    assert plan["masks"][-1] == str(home / "projects/venv/.env")


def test_of_folders_that_are_named_those_of_a_project_are_shown_with_the_links_to_them_and_no_home(home: Path) -> None:
    (home / "way").symlink_to("projects/venv")
    for name in ("projects/venv", "way"):
        visible = list_visible_folders("", str(home), [str(home / name)])
        assert str(home / "projects/venv") in visible.folders
    assert visible.links == {**visible.links, str(home / "way"): "projects/venv"}
    wide = ["/", "/home", "/tmp", str(home), str(home.parent), str(home / ".ssh"), str(home / ".config"), "/none"]
    assert list_visible_folders("", str(home), wide) == list_visible_folders("", str(home))


def test_what_is_private_is_found_again_where_a_folder_got_something_new_and_its_old_time_back(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("one", "two"):
        (tmp_path / "in" / name).touch(0o600)
        os.utime(tmp_path / "in", (1, 1))
        os.utime(tmp_path, (1, 1))
        assert str(tmp_path / "in" / name) in list_private(str(tmp_path))


def test_a_folder_that_changed_just_now_is_looked_through_at_each_look(tmp_path: Path) -> None:
    def look_twice(name: str) -> bool:
        (tmp_path / name).touch()
        return read_stamp(str(tmp_path)) != read_stamp(str(tmp_path))

    assert any(look_twice(str(number)) for number in range(1000))  # this process may be stopped between two looks


def test_a_program_that_came_to_path_is_seen_in_the_next_sandbox(tmp_path: Path) -> None:
    (tmp_path / "home/bin").mkdir(parents=True)
    (tmp_path / "home/lib/tool/bin").mkdir(parents=True)
    (tmp_path / "home/lib/tool/bin/tool").touch(0o755)

    def plan() -> list[str]:
        path, home = str(tmp_path / "home/bin"), str(tmp_path / "home")
        os.utime(path, (1, 1))
        return plan_read(str(tmp_path / "work"), path, home, scratch_bytes=1, limits=ProcessLimits())["folders"]

    before = plan()
    (tmp_path / "home/bin/tool").symlink_to(tmp_path / "home/lib/tool/bin/tool")
    assert set(plan()) - set(before) == {str(tmp_path / "home/lib/tool")}
