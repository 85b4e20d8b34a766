"""Everyday lines, in a session and without one: what asks, and what ends otherwise than it would."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confining.lists import Group, pick_lines
from confining.world import WORKSPACE, State, World, changed, describe

CACHES = {"__pycache__", ".pytest_cache", ".ruff_cache", ".mypy_cache", "node_modules", ".git", ".npm"}
"""Folders whose files are not compared: caches, and the repository, which is compared by what it means."""
_CHANGING = (
    (re.compile(r"\b[0-9a-f]{7,40}\b"), "HASH"),
    (re.compile(r"\b\d+(\.\d+)?(e-\d+)? ?(ms|s|seconds|sec|µs|usec|us)\b"), "TIME"),
    (re.compile(r"duration_ms[: ]+[\d.]+"), "TIME"),
    (re.compile(r"\b(Mon|Tue|Wed|Thu|Fri|Sat|Sun)[ ,].*?\d{4}( [+-]\d{4})?"), "DATE"),
    (re.compile(r"\b\d{4}-\d\d-\d\d([ T]\d\d:\d\d(:\d\d)?(\.\d+)?( ?[+-]\d{4}|Z)?)?"), "DATE"),
    (re.compile(r"\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) +\d+ +(\d\d:\d\d|\d{4})"), "DATE"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"/tmp/\S+"), "TEMPORARY"),
    # What a file system says of a folder's own size is no fact of the project.
    (re.compile(r"^(d\S{9,10} +)\d+( \S+ +\S+ +)\d+", re.MULTILINE), r"\1N\2N"),
    (re.compile(r"^total \d+", re.MULTILINE), "total N"),
)
_LISTED = re.compile(r"[-dlps][-rwxsStT]{9}[.+]? ")
_REPOSITORY = (
    "git for-each-ref --format='%(refname) %(tree) %(subject)'; git symbolic-ref HEAD; git status --porcelain;"
    " git ls-files -s; git stash list --format=%s; cat .git/config; ls .git/hooks"
)


@dataclass(frozen=True, slots=True)
class Everyday:
    """What came of one line: `asked` codes, the code it did not run for, what differs, and further requests."""

    group: str
    line: str
    asked: tuple[str, ...]
    code: str
    differs: tuple[str, ...]
    extra: int


def measure_line(world: World, group: Group, line: str, *, shell: bool) -> Everyday | None:
    """Run a line in a session whose person says yes, and without one; None where its program is not installed."""
    world.reset(group.name)
    bare = world.ask(bare=line)
    if bare["exit_code"] == 127:
        return None
    plain = look_inside(world)
    world.reset(group.name)
    ran = world.ask(line=line, say=group.say, says="yes", shell=shell, seconds=60)
    if "lost" in ran:
        return Everyday(group.name, line, (), ran["lost"], (), 0)
    differs = () if ran["code"] else tuple(compare(bare, plain, ran, look_inside(world)))
    return Everyday(group.name, line, tuple(ran["asked"]), ran["code"], differs, ran["extra"])


def compare(bare: dict[str, Any], plain: State, ran: dict[str, Any], ours: State) -> list[str]:
    """Return in words what differs."""
    found = []
    if (ran["exit_code"] or 0) != bare["exit_code"]:
        found.append(f"exit code {ran['exit_code']} and not {bare['exit_code']}")
    theirs, said = settle(bare["output"]), settle(re.sub(r"\n?exit code \d+\Z", "", ran["output"]))
    if theirs != said:
        found.append(f"says {said[-160:]!r} and not {theirs[-160:]!r}")
    if files := changed(plain, ours):
        found.append(f"files: {', '.join(files[:5])}")
    return found


def settle(text: str) -> str:
    """Return a text without what differs from one run to the next."""
    for pattern, name in _CHANGING:
        text = pattern.sub(name, text)
    # `ls -l` is as wide as its largest number, which may be that of a folder.
    lines = (re.sub(" {2,}", " ", line) if _LISTED.match(line) else line for line in text.strip().splitlines())
    return "\n".join(line.rstrip() for line in lines)


def look_inside(world: World) -> State:
    """Return what lies in the workspace, and what its repository means."""
    found: State = {}
    for path in WORKSPACE.rglob("*"):
        name = path.relative_to(WORKSPACE)
        if not CACHES.intersection(name.parts):
            found[str(name)] = describe(path)
    safe = ["env", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"]
    said = subprocess.run(
        [*safe, "sh", "-c", _REPOSITORY], cwd=WORKSPACE, capture_output=True, text=True, check=False
    ).stdout
    found["repository"] = (said,)
    return found


def measure_all(world: World, groups: Sequence[Group], *, shell: bool, every: int) -> list[Everyday]:
    """Return what came of every line, or of each `every`th."""
    groups, lines = pick_lines(groups, every)
    world.reset_all(groups)
    found = [measure_line(world, group, line.run, shell=shell) for group, line in lines]
    return [one for one in found if one is not None]
