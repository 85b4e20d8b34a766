"""What one sandbox after the other shows alike, so that it can be made before the next one is asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TypedDict

from foregate.agent.sandbox.plan import SandboxPlan


class Base(TypedDict):
    """The part of a `Plan` that does not say what its command works on; the names are those of the plan.

    It leaves out what lies in the workspace, in a folder the command may write to, or in a layer over a folder of the
    machine, and each folder around these. `processes` is their bound, 0 for none.
    """

    home: str
    folders: list[str]
    links: dict[str, str]
    layers: dict[str, str]
    masks: list[str]
    scratch: str
    scratch_bytes: int
    processes: int


def build_base(plan: SandboxPlan) -> Base:
    """Return the base of a plan."""
    over = [path for path in plan["layers"] if os.path.isdir(path)]  # noqa: PTH112 - for each call
    later = [plan["workspace"], *plan["access"]["folders"], *over]
    later += [path for path in plan["folders"] if any(_is_in(one, [path]) for one in later)]
    folders = [path for path in plan["folders"] if not _is_in(path, later)]
    return Base(
        home=plan["home"],
        folders=folders,
        links={path: to for path, to in plan["links"].items() if not _is_in(path, later)},
        layers={path: store for path, store in plan["layers"].items() if not _is_in(path, later)},
        masks=[path for path in plan["masks"] if _is_in(path, folders)],
        scratch=plan["scratch"],
        scratch_bytes=plan["scratch_bytes"],
        processes=plan["limits"].get("processes", 0),
    )


def _is_in(path: str, folders: Iterable[str]) -> bool:
    return any(f"{path}/".startswith(f"{folder}/") for folder in folders)


def identify_base(base: Base) -> str:
    """Return what tells a base, with all that its names stand for now, from every other one."""
    shown = [*base["folders"], *(f"{store}/upper" for store in base["layers"].values()), *base["masks"]]
    holders = sorted({up for mask in base["masks"] for up in list_above(mask)})
    return json.dumps([base, [_identify(path)[:2] for path in shown], [_identify(path) for path in holders]])


def _identify(path: str) -> tuple[int, int, int]:
    """Return which file is at a path, and when a name last entered or left it; zeros for no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - for each call, and there are many
    except OSError:
        return 0, 0, 0
    return found.st_dev, found.st_ino, found.st_ctime_ns


def list_above(path: str) -> Iterable[str]:
    """Yield the folders above a path, but for the root."""
    while path := path.rpartition("/")[0]:
        yield path
