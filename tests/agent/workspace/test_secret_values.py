"""The values in a workspace's secret files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from foregate.agent.workspace.secret_values import FileSecrets
from foregate.policy.policy import Policy


def names(values: FileSecrets) -> list[str]:
    return [one.name for one in values.find()]


def test_values_of_secret_files_are_found_and_those_of_examples_and_other_files_are_not(
    folder: Path, policy: Policy
) -> None:
    (folder / "app").mkdir()
    for path in ("app/.env", ".env.example", "settings.py", "key.pem"):
        (folder / path).write_text(f"{path[-3:].strip('.').upper()}_TOKEN=hunter2-{path}\n")
    assert names(FileSecrets(folder, policy)) == ["PEM_TOKEN", "ENV_TOKEN"]


def test_a_changed_file_a_new_one_and_one_that_is_gone_are_noticed(folder: Path, policy: Policy) -> None:
    values = FileSecrets(folder, policy)
    assert names(values) == []
    (folder / ".env").write_text("A_TOKEN=hunter2-hunter2\n")
    assert names(values) == ["A_TOKEN"]
    (folder / ".env").write_text("B_TOKEN=hunter3-hunter3-3\n")
    assert names(values) == ["B_TOKEN"]
    (folder / ".env").unlink()
    assert names(values) == []


def test_an_unchanged_file_is_not_read_again(folder: Path, policy: Policy) -> None:
    (folder / ".env").write_text("A_TOKEN=hunter2-hunter2\n")
    found = os.stat(folder / ".env")
    values = FileSecrets(folder, policy)
    assert names(values) == ["A_TOKEN"]
    (folder / ".env").write_text("B_TOKEN=hunter2-hunter2\n")
    os.utime(folder / ".env", ns=(found.st_atime_ns, found.st_mtime_ns))
    assert names(values) == ["A_TOKEN"]


def test_files_in_a_secret_folder_count_and_links_and_pipes_are_left_alone(folder: Path, policy: Policy) -> None:
    (folder / ".env.d").mkdir()
    (folder / ".env.d/db").write_text("DB_PASSWORD=hunter2-hunter2\n")
    (folder / "elsewhere").write_text("OTHER_PASSWORD=hunter3-hunter3\n")
    (folder / ".env").symlink_to("elsewhere")
    os.mkfifo(folder / "x.pem")
    assert names(FileSecrets(folder, policy)) == ["DB_PASSWORD"]


@pytest.mark.parametrize("root", ["/", "/does/not/exist"])
def test_a_root_that_is_no_folder_of_its_own_has_none(policy: Policy, root: str) -> None:
    assert FileSecrets(Path(root), policy).find() == ()
