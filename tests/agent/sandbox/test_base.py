"""A base holds what a plan shows alike each time, and nothing that could hide or show what the rest is about."""

from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from foregate.agent.sandbox.plan import SandboxPlan
from foregate.agent.sandbox.prepared import build_base, identify_base
from foregate.agent.sandbox.visible import plan_read

NAMES = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts))


def make_plan(workspace: str, **changes: object) -> SandboxPlan:
    plan = plan_read(workspace, "/usr/bin", "/home/h", scratch_bytes=1, limits={})
    return {**plan, **changes}  # type: ignore[typeddict-item]


def is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


@given(NAMES, st.lists(NAMES, unique=True), st.lists(NAMES, unique=True), st.lists(NAMES, unique=True), NAMES)
def test_nothing_of_a_base_lies_over_or_under_what_comes_later(
    workspace: str, folders: list[str], masks: list[str], links: list[str], given_folder: str
) -> None:
    access = {**make_plan("/w")["access"], "folders": [given_folder]}
    plan = make_plan(workspace, folders=folders, masks=masks, links=dict.fromkeys(links, "x"), access=access)
    base = build_base(plan)
    later = [workspace, given_folder, *(path for path in folders if path not in base["folders"])]
    for path in base["folders"]:
        assert not any(is_in(path, one) or is_in(one, path) for one in later)
    assert not any(is_in(link, one) for link in base["links"] for one in later)
    for mask in masks:
        assert (mask in base["masks"]) == any(is_in(mask, folder) for folder in base["folders"])


def test_a_layer_over_a_folder_of_the_machine_comes_later_with_all_that_lies_in_it(tmp_path: Path) -> None:
    (tmp_path / "cache/tool").mkdir(parents=True)
    layers = {str(tmp_path / "cache"): "/store/cache", str(tmp_path / "none"): "/store/none"}
    base = build_base(make_plan("/w", layers=layers, folders=[str(tmp_path / "cache/tool"), "/usr"]))
    assert base["layers"] == {str(tmp_path / "none"): "/store/none"}
    assert base["folders"] == ["/usr"]


def test_a_base_is_another_one_once_a_folder_it_shows_is_another(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    base = build_base(make_plan("/w", folders=[str(folder)]))
    before = identify_base(base)
    folder.rename(tmp_path / "gone")
    folder.mkdir()
    assert identify_base(base) != before


def test_a_base_is_another_one_once_what_it_names_is_replaced(tmp_path: Path) -> None:
    folder, mask = tmp_path / "folder", tmp_path / "folder/inner/mask"
    mask.parent.mkdir(parents=True)
    mask.touch()
    base = build_base(make_plan("/w", folders=[str(folder)], masks=[str(mask)]))
    seen = [identify_base(base)]

    def look() -> bool:
        seen.append(identify_base(base))
        return seen[-1] not in seen[:-1]

    assert identify_base(base) == seen[0]
    mask.unlink()
    assert look()
    (mask.parent / "other").touch()
    (mask.parent / "other").rename(mask)
    assert look()
    os.utime(folder)
    assert look()
    folder.rename(tmp_path / "gone")
    assert look()
