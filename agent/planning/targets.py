"""Where a plan's paths lead: every one inside the workspace, and a part of a path to the one file it can mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import NamedTuple

from foregate.agent.planning.findings import Findings
from foregate.agent.workspace import directory
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.risk.globs import matches
from foregate.policy.source.strict_yaml import escape_text
from foregate.schemas.errors import WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.tool_spec import Effect, ResourceKind, TargetParameter, ToolSpec

PATHS = (ResourceKind.FILE, ResourceKind.DIRECTORY, ResourceKind.REPOSITORY)
"""The kinds of resources that are paths of the workspace."""

_MOST_ENTRIES = 20_000
_MOST_GLOBS = 64
_MOST_STEPS = 10_000
"""Folders and files of a plan's paths that are looked up: each is a question to the file system."""
_GLOB = frozenset("*?")
_NO_PATH = ("://", "::", "\n", "\0")
_LONGEST = 4096
# "~/a", "C:\a", "..\a", "https://example.org".
_ELSEWHERE = compile_late(r"~[^/]*(?:/|\Z)|[A-Za-z]:[\\/]|\\\\|(?:.*\\)?\.\.\\|[A-Za-z][A-Za-z0-9+.-]*://", re.DOTALL)
"""What leads outside where others read paths: a home folder, a drive, a share, a step up, an address."""


class PathPlace(NamedTuple):
    """Where a path stands in a plan, and what will be done there."""

    task: int
    field: str
    access: Effect

    @property
    def is_resolvable(self) -> bool:
        """Whether a part of a path may stand for the file: never where something is made, moved or taken away."""
        return self.access in (Effect.OBSERVATION, Effect.EDIT)


class Targets:
    """Looks up the paths of one plan, tasks in order; what lies in the workspace is listed once, and only if needed.

    `made` is what earlier tasks put there, `anything` whether one may have put anything anywhere, as a command can.
    """

    def __init__(self, workspace: Workspace, book: Findings, *, strict: bool) -> None:
        self.workspace, self.book = workspace, book
        self.made: set[str] = set()
        self.anything = False
        self._add_odd = book.add_defect if strict else book.add_warning
        self._known: dict[str, tuple[str, bool]] = {}
        self._globs = self._steps = 0

    def check_path(self, place: PathPlace, path: str) -> str:
        """Return a path of a call as it should be written; a defect where it leads outside."""
        try:
            found, there = self.look_up(path)
        except WorkspaceError as error:
            self.book.add_defect(place.task, place.field, escape_text(error, 200), "name a path inside the workspace")
            return path
        if not there and _ELSEWHERE.match(path):
            shown = f"`{escape_text(path, 60)}`"
            problem = f"{shown} is written as what leads outside the workspace, and nothing here has that name"
            self.book.add_defect(place.task, place.field, problem, "write the path relative to the workspace, with `/`")
            return path
        if place.access is Effect.CREATE:
            self.made.add(found)
        if there or not place.is_resolvable or found in self.made:
            return path
        return self.find_meant(place, path, found)

    def check_target(self, place: PathPlace, target: str) -> str:
        """Return the target of a task without calls, resolved; globs stay, what is no path is odd."""
        if any(mark in target for mark in _NO_PATH) or len(target) > _LONGEST:
            self.add_odd(place, f"`{escape_text(target, 60)}` is no path", "name a file or folder of the workspace")
            return target
        if _GLOB & set(target) and not self.find_kind(target):
            self.check_glob(place, target)
            return target
        path = self.check_path(place, target)
        found = self._known.get(path, (path, False))[0]
        if found != path and place.is_resolvable:
            self.book.add_note(f"the target `{escape_text(path, 120)}` is `{escape_text(found, 200)}`", place.task)
            return found
        return path

    def find_kind(self, path: str) -> str:
        """Return what is at a path of the workspace now, "" for nothing or a path that leads outside."""
        try:
            return self.workspace.look(self.look_up(path)[0]).kind
        except WorkspaceError:
            return ""

    def look_up(self, path: str) -> tuple[str, bool]:
        """Return the canonical id of a path and whether something is there; raise WorkspaceError outside."""
        if path not in self._known:
            self._steps += 1 + path.count("/")
            if self._steps > _MOST_STEPS:
                raise WorkspaceError("the plan names too many paths to look this one up")
            found = self.workspace.resolve(path)
            self._known[path] = (found, self.workspace.look(found).kind != "")
        return self._known[path]

    def find_meant(self, place: PathPlace, path: str, found: str) -> str:
        """Return the one file whose path ends with `found`; no such file, or more than one, is odd."""
        shown = f"`{escape_text(path, 60)}`"
        candidates = [entry for entry in self.by_name.get(found.rpartition("/")[2], ()) if entry.endswith(f"/{found}")]
        if len(candidates) == 1:
            meant = f"`{escape_text(candidates[0], 200)}`, the only one that ends so"
            self.book.add_note(f"the path `{escape_text(path, 120)}` is {meant}", place.task)
            return candidates[0]
        if candidates:
            named = ", ".join(f"`{escape_text(one, 60)}`" for one in candidates[:3])
            self.add_odd(place, f"{shown} may be any of {named}", "write the whole path")
        elif not self.anything:
            self.add_odd(place, f"there is nothing at {shown}", "check the path, or let an earlier task make it")
        return path

    def check_glob(self, place: PathPlace, pattern: str) -> None:
        """Say so when a glob leads outside or matches nothing."""
        shown = f"the glob `{escape_text(pattern, 60)}`"
        if pattern.startswith("/") or ".." in pattern.split("/"):
            problem = f"{shown} may lead outside the workspace"
            self.book.add_defect(place.task, place.field, problem, "write it relative to the workspace")
            return
        self._globs += 1
        if self._globs > _MOST_GLOBS:
            self.add_odd(place, "the plan has too many globs to look them all up", f"use at most {_MOST_GLOBS}")
            return
        try:
            hit = any(matches(pattern, path) for path in (*chain(*self.by_name.values()), *self.made))
        except ValueError as error:
            self.add_odd(place, str(error), "write a shorter glob")
            return
        if not hit and not self.anything:
            self.add_odd(place, f"{shown} matches nothing", "check it, or name the files")

    def add_odd(self, place: PathPlace, problem: str, remedy: str) -> None:
        """Add a warning, or a defect where targets are taken strictly."""
        self._add_odd(place.task, place.field, problem, remedy)

    @cached_property
    def by_name(self) -> Mapping[str, list[str]]:
        """The paths in the workspace by their last component; none where too many to say that one is the only one."""
        found: dict[str, list[str]] = {}
        try:
            entries = directory.walk(self.workspace, ".", enter=lambda entry: entry.name != ".git")
            listed = [entry.path for entry in islice((e for e in entries if e.is_readable), _MOST_ENTRIES + 1)]
        except WorkspaceError:
            return found
        for path in listed if len(listed) <= _MOST_ENTRIES else ():
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found


def list_path_parameters(spec: ToolSpec) -> Sequence[TargetParameter]:
    """Return the parameters of a tool that name paths of the workspace."""
    return [parameter for parameter in spec.targets if parameter.kind in PATHS]
