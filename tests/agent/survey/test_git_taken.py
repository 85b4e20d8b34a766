"""What a command takes away of history is named, in whichever folder the repository lies; git for real."""

from __future__ import annotations

from pathlib import Path

import pytest

from foregate.agent.survey.sandboxed import ChangeSurveyor
from foregate.agent.workspace.workspace import Workspace
from foregate.evidence.state.session import SessionState
from foregate.policy.source.load import default_policy
from foregate.schemas.tool_call import Survey, ToolCall
from tests.agent.survey.changed import GIT, run, run_in_copy

MADE = f"""
git init -qb main && echo 1 > a && git add . && {GIT} commit -qm one
git switch -qc side && {GIT} commit -q --allow-empty -m two && git switch -q main && rm .git/logs/HEAD
"""
PACKED = "git gc -q"
EMPTIED = "for f in .git/objects/??/*; do chmod +w $f; : > $f; done"
UNPACKED = "mv .git/objects/pack/*.pack x.pack; git unpack-objects -q < x.pack; rm x.pack .git/objects/pack/*.idx"
MIXED = "set -- .git/objects/??/*; cp $1 whole; for f; do chmod +w $f; cat whole > $f; done"
CUT = "chmod +w .git/objects/pack/*.pack; truncate -s -1 .git/objects/pack/*.pack"


def list_taken(workspace: Workspace, folder: Path, tmp_path: Path, line: str) -> list[str]:
    """Return what counts as gone for ever once a line has run."""
    found = run_in_copy(line, folder, tmp_path / "kept/upper")
    surveyor = ChangeSurveyor(workspace, default_policy(), SessionState(), found)
    survey = surveyor.survey(ToolCall.of("run_shell", {}, id="c"), "", Survey("c"))
    return [one.id for one in survey.resources if one.loses == "all"]


@pytest.mark.parametrize(
    ("before", "line", "is_lost"),
    [
        ("true", PACKED, False),
        ("true", "git repack -adq && git prune-packed -q", False),
        (PACKED, UNPACKED, False),
        (PACKED, "git repack -adfq --depth=1", False),
        ("true", "rm .git/objects/??/*", True),
        ("true", EMPTIED, True),
        ("true", f"{PACKED}; {CUT}", True),
        (PACKED, "rm .git/objects/pack/*.idx .git/objects/pack/*.pack", True),
        (PACKED, "rm .git/objects/pack/*.pack", True),
        (PACKED, CUT, True),
        (f"{PACKED}; rm .git/objects/pack/*.idx", "rm .git/objects/pack/*.pack", True),
        (PACKED, f"{UNPACKED}; {MIXED}", True),
        (PACKED, f"{UNPACKED}; {EMPTIED}", True),
        (PACKED, f"{UNPACKED}; for f in .git/objects/??/*; do rm $f; mkdir $f; echo x > $f/x; done", True),
        (PACKED, "cd .git/objects/pack; for f in *.pack; do rm $f; ln -s /none $f; done", True),
    ],
)
def test_an_object_is_kept_only_where_a_whole_file_holds_it(
    workspace: Workspace, folder: Path, tmp_path: Path, before: str, line: str, is_lost: bool
) -> None:
    run(f"{MADE}{before}", folder)
    taken = list_taken(workspace, folder, tmp_path, line)
    assert any("/objects/" in name for name in taken) is is_lost


def test_a_repository_in_a_folder_is_looked_at_as_well(workspace: Workspace, folder: Path, tmp_path: Path) -> None:
    run(f"{MADE}mkdir -p in/sub && cd in/sub{MADE}", folder)
    line = "git branch -D side; git -C in/sub branch -D side; git init -q other; rm in/sub/.git/HEAD"
    assert sorted(list_taken(workspace, folder, tmp_path, line)) == ["in/sub/.git/HEAD", "in/sub/side", "side"]


def test_an_object_of_a_repository_in_a_folder_counts_as_well(
    workspace: Workspace, folder: Path, tmp_path: Path
) -> None:
    run(f"mkdir -p in/sub && cd in/sub{MADE}", folder)
    taken = list_taken(workspace, folder, tmp_path, "rm in/sub/.git/objects/??/*")
    assert len([name for name in taken if name.startswith("in/sub/.git/objects/")]) == 4
