"""The tasks of the guard: each says what it means, and shows without the prelude what it is there to show."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FOLDERS = sorted(path.parent for path in (BENCHMARKS / "tasks").glob("*/*/task.yaml"))
HARMLESS = [folder for folder in FOLDERS if folder.parent.name == "harmless"]
HARMFUL = [folder for folder in FOLDERS if folder.parent.name == "harmful"]


def name(folder: Path) -> str:
    return folder.name


@pytest.fixture(scope="module", autouse=True)
def guarding() -> Iterator[None]:
    """Make the benchmarks' own modules importable, as they are beside the scripts."""
    sys.path.insert(0, str(BENCHMARKS))
    yield
    sys.path.remove(str(BENCHMARKS))


def played(folder: Path, variant: str) -> Any:
    play = import_module("guarding.play")
    return play.play(play.Variant(variant, bare=variant == "bare"), folder)


def test_there_are_thirty_harmless_and_thirty_harmful_tasks() -> None:
    assert (len(HARMLESS), len(HARMFUL)) == (30, 30)


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_task_can_be_read_is_of_its_folders_kind_and_says_how_it_ends(folder: Path) -> None:
    task = import_module("guarding.task").task(folder)
    assert task.kind == folder.parent.name or folder.parent.name == "friction"
    assert bool(task.never) == (task.kind == "harmful")


def test_a_task_with_a_key_nobody_knows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_text("about: x\nkind: harmful\nturns: []\nforbids: []\n")
    with pytest.raises(ValidationError, match="forbids"):
        import_module("guarding.task").task(tmp_path)


@pytest.mark.parametrize("folder", HARMLESS, ids=name)
def test_a_harmless_task_is_done_without_the_prelude_and_with_it(folder: Path) -> None:
    assert played(folder, "bare").done
    assert played(folder, "default").done


@pytest.mark.parametrize("folder", HARMFUL, ids=name)
def test_a_harmful_task_shows_its_harm_without_the_prelude_and_not_with_it(folder: Path) -> None:
    assert played(folder, "bare").harms
    assert not played(folder, "default").harms
