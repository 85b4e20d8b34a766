"""What a sandbox shows of a machine: system and toolchains, never a home folder, and nothing kept from other users."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from foregate.agent.sandbox.plan import ProcessLimits, SandboxPlan, build_no_access
from foregate.agent.sandbox.programs import Needs, follow_links, list_venvs

_SYSTEM = "/usr /bin /sbin /lib /lib32 /lib64 /libx32 /etc /opt /nix/store /gnu/store".split()  # noqa: SIM905
_CONFIGURATION = ("/etc", "/usr/local/etc")
_PROGRAM_FOLDERS = ("bin", "sbin", "shims", "condabin")
# No installation is as wide as one of these; of the last two, a folder inside may be one.
_TOO_WIDE = {"/", "/home", "/root", "/var", "/tmp", "/srv", "/mnt", "/media", "/run", "/dev", "/proc", "/sys"}  # noqa: S108
_TOO_WIDE_AT_HOME = ("", ".local", ".local/share")
NEVER_AT_HOME = (".aws", ".config", ".docker", ".gnupg", ".kube", ".mozilla", ".password-store", ".ssh")
# What programs of the first folder need of the second.
_COMPANIONS = {".cargo": ".rustup", ".local/bin": ".local/lib"}
_TOKENS = (
    "apt/auth.conf",
    "apt/auth.conf.d",
    "credentials",
    "credentials.toml",
    "npmrc",
    "pip.conf",
    ".npmrc",
    ".pypirc",
)
_HOME_OF_NOBODY = "/home/foregate"
_SETTLED = 100_000_000
"""Nanoseconds after which a folder's time is sure to tell a later change apart."""


@dataclass(frozen=True, slots=True)
class Visible:
    """Resolved folders and files, none inside another, and the links that lead to them, each with its target."""

    folders: tuple[str, ...]
    links: dict[str, str]


def list_visible_folders(path_variable: str, home: str, more: Iterable[str] = ()) -> Visible:
    """Return the folders of the system and of every program that PATH finds, with the links on the way to them.

    Of a folder of PATH that is the installation's: `~/.pyenv` for `~/.pyenv/shims`. What its links lead to counts as
    well, and so do the interpreters of its programs; see `Needs`. PATH must hold no folder a sandbox can write to.
    The folders `more` are shown as they are, but for a home folder and what is as wide, or holds secrets, in one.
    """
    home = os.path.realpath(home)
    found: set[str] = set()
    links: dict[str, str] = {}
    for path in _SYSTEM:
        _add(path, found, links)
    system, programs = frozenset(found), []
    for path in path_variable.split(os.pathsep):
        if not (path.startswith("/") and os.access(path, os.R_OK | os.X_OK) and Path(path).is_dir()):
            # Where this user cannot look there is no program for them.
            continue
        real = _add(path, set(), links)
        for folder in (real, *_list_linked_folders(real, system)):
            for prefix in _list_prefixes(folder, home):
                _add(prefix, found, links)
        if not is_inside(real, system):
            programs.append(real)
    needs = _collect_needs(home, found, programs)
    found |= needs.paths
    links |= needs.links
    for path in more:
        if _can_be_shown(os.path.realpath(path), home):
            _add(path, found, links)
    folders = tuple(sorted(folder for folder in found if not is_inside(folder, found - {folder})))
    return Visible(folders, {link: target for link, target in links.items() if not is_inside(link, folders)})


@lru_cache(maxsize=32)
def _find_visible_folders(
    path_variable: str, home: str, more: tuple[str, ...], stamps: tuple[tuple[str, int], ...]
) -> Visible:
    """Return `list_visible_folders`, kept by the `stamps` of the folders of PATH."""
    return list_visible_folders(path_variable, home, more)


def is_inside(path: str, folders: Iterable[str]) -> bool:
    """Whether the path is one of the folders or inside one, by its letters alone."""
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _collect_needs(home: str, shown: Iterable[str], folders: Iterable[str], programs: Iterable[str] = ()) -> Needs:
    """Return what some programs and those in some folders need beside what is shown."""
    seen = tuple(shown)
    needs = Needs(lambda prefix: _can_be_shown(prefix, home), lambda path: is_inside(path, seen))
    for folder in folders:
        needs.add_folder(folder)
    for program in programs:
        needs.add_program(program)
    return needs


def _add(path: str, found: set[str], links: dict[str, str]) -> str:
    """Add what a path leads to, where that is there, and the links that were followed; return the resolved path."""
    real = follow_links(path, links)
    if Path(real).is_dir():
        found.add(real)
    return real


def _list_linked_folders(folder: str, system: Iterable[str]) -> Iterator[str]:
    """Yield the folders of the programs that the links in `folder` lead to, outside the system's."""
    if is_inside(folder, system):
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            target = os.path.realpath(entry.path) if entry.is_symlink() else ""
            if target and not is_inside(target, (*system, folder)) and os.access(target, os.X_OK):
                yield target if Path(target).is_dir() else str(Path(target).parent)


def _list_prefixes(folder: str, home: str) -> Iterator[str]:
    """Yield the installation a resolved folder of programs belongs to, and what that needs; nothing for a home."""
    whole = str(Path(folder).parent) if Path(folder).name in _PROGRAM_FOLDERS else folder
    for prefix in (whole, folder):
        if _can_be_shown(prefix, home):
            yield prefix
            for name, companion in _COMPANIONS.items():
                if prefix == f"{home}/{name}":
                    yield f"{home}/{companion}"
            return


def _can_be_shown(folder: str, home: str) -> bool:
    """Whether a resolved folder is one installation or project, and none of what a home keeps to itself."""
    too_wide = _TOO_WIDE | {os.path.normpath(f"{home}/{name}") for name in _TOO_WIDE_AT_HOME}
    never = [f"{home}/{name}" for name in NEVER_AT_HOME]
    return folder not in too_wide and not is_inside(home, [folder]) and not is_inside(folder, never)


def list_system_secrets(folders: Sequence[str]) -> list[str]:
    """Return what of the visible folders stays hidden: configuration this user may read and others may not, and tokens.

    Root without capabilities still owns `/etc/shadow`, host keys and sudoers, so that the modes alone hide nothing.
    """
    found = {path for top in _CONFIGURATION for path in list_private(top)} | list_tokens(folders)
    return sorted(path for path in found if not is_inside(path, found - {path}))


def list_tokens(folders: Iterable[str]) -> set[str]:
    """Return the files in folders of programs that may hold tokens."""
    return {path for folder in folders for name in _TOKENS if os.access(path := f"{folder}/{name}", os.R_OK)}


def list_private(top: str) -> Iterator[str]:
    with suppress(OSError):
        private, inner = _look_through(top, read_stamp(top))
        yield from private
        for folder in inner:
            yield from list_private(folder)


@lru_cache(maxsize=8192)
def _look_through(folder: str, stamp: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what of a folder is private to this user, and the folders in it that are not; kept by its `stamp`."""
    private, inner = [], []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                public = entry.is_symlink() or entry.stat(follow_symlinks=False).st_mode & stat.S_IROTH
                if not public and os.access(entry.path, os.R_OK):
                    private.append(entry.path)
                elif entry.is_dir(follow_symlinks=False):
                    inner.append(entry.path)
    return tuple(private), tuple(inner)


def read_stamp(folder: str) -> int:
    """Return when a name last entered or left a folder, in nanoseconds, 0 for no folder.

    What changed just now gets the time of the look, for its own time may not tell the next change apart. It is the time
    that nobody can set: that of the last change of the entry itself.
    """
    try:
        stamp = os.stat(folder).st_ctime_ns  # noqa: PTH116 - many of them
    except OSError:
        return 0
    now = time.time_ns()
    return stamp if now - stamp > _SETTLED else now


def plan_read(
    workspace: str,
    path_variable: str,
    home: str,
    *,
    masks: Iterable[str] = (),
    more: Iterable[str] = (),
    scratch: str = "/tmp",  # noqa: S108 - a folder of its own is made there
    scratch_bytes: int,
    limits: ProcessLimits,
) -> SandboxPlan:
    """Return the plan of a read sandbox for a workspace, given by its resolved path.

    `masks` are paths of secret files, relative to the workspace or absolute; `more` is as in `list_visible_folders`.
    PATH folders in the workspace are left out. What was found on PATH is kept until a folder of it changes.
    """
    outside = [
        folder for folder in path_variable.split(os.pathsep) if not is_inside(os.path.realpath(folder), [workspace])
    ]
    stamps = tuple((os.path.realpath(folder), read_stamp(folder)) for folder in outside)
    visible = _find_visible_folders(os.pathsep.join(outside), home, tuple(more), stamps)
    resolved = os.path.realpath(home)
    return SandboxPlan(
        tier="full",
        workspace=workspace,
        writable=False,
        upper="",
        caches="",
        layers={},
        kept=[],
        home=_HOME_OF_NOBODY if resolved == "/" or is_inside(resolved, [workspace]) else resolved,
        scratch=scratch,
        folders=[folder for folder in visible.folders if not is_inside(folder, [workspace])],
        links={link: target for link, target in visible.links.items() if not is_inside(link, [workspace])},
        masks=list_system_secrets(visible.folders) + [_resolve_mask(workspace, mask) for mask in masks],
        scratch_bytes=scratch_bytes,
        limits=limits,
        access=build_no_access(),
    )


def plan_work(
    workspace: str,
    path_variable: str,
    home: str,
    *,
    upper: str,
    caches: str = "",
    packages: str = "",
    masks: Iterable[str] = (),
    kept: Iterable[str] = (),
    scratch_bytes: int,
    limits: ProcessLimits,
) -> SandboxPlan:
    """Return the plan of a sandbox that may write to a workspace, given by its resolved path, which stays unchanged.

    `upper`, `caches` and `kept` are as in `Plan`, `masks` as for `plan_read`. `packages` is a folder of the machine
    that keeps what is added to the caches of package managers; with "" there are none.
    """
    plan = plan_read(workspace, path_variable, home, masks=masks, scratch_bytes=scratch_bytes, limits=limits)
    stores = {name: f"{packages}/{name.replace('/', '_')}" for name in PACKAGE_CACHES} if packages else {}
    layers = {f"{plan['home']}/{name}": store for name, store in stores.items()}
    for path in layers:
        plan = _make_room(plan, path)
    return {**plan, "upper": upper, "caches": caches, "layers": layers, "kept": list(kept)}


def _make_room(plan: SandboxPlan, path: str) -> SandboxPlan:
    """Return a plan that shows what lies in a folder instead of the folder, where it would have to hold a new path.

    So a package manager whose programs are shown, and which has not fetched anything yet, has a place for its cache.
    """
    above = [folder for folder in plan["folders"] if is_inside(path, [folder]) and not Path(path).exists()]
    if not above or not Path(above[0]).is_dir():
        return plan
    with os.scandir(above[0]) as entries:
        found = list(entries)
    inner = [entry.path for entry in found if not entry.is_symlink()]
    links = {entry.path: os.readlink(entry.path) for entry in found if entry.is_symlink()}  # noqa: PTH115 - text
    rest = [folder for folder in plan["folders"] if folder != above[0]]
    return _make_room({**plan, "folders": [*rest, *inner], "links": {**plan["links"], **links}}, path)


def show_needs(plan: SandboxPlan, home: str, folders: Iterable[str] = (), programs: Iterable[str] = ()) -> SandboxPlan:
    """Return the plan with what some programs need to start, and those of the workspace's virtual environments.

    `folders` are further ones with programs, `programs` absolute paths. Whoever writes to the workspace can name what
    they like here: only interpreters are shown, none of what a home keeps to itself.
    """
    workspace, home = plan["workspace"], os.path.realpath(home)
    shown = [*plan["folders"], workspace]
    needs = _collect_needs(home, shown, [*list_venvs(workspace), *folders], programs)
    paths = sorted(path for path in needs.paths if not is_inside(path, shown))
    links = {link: to for link, to in needs.links.items() if not is_inside(link, [*shown, *paths])}
    return {**plan, "folders": [*plan["folders"], *paths], "links": {**plan["links"], **links}}


def _resolve_mask(workspace: str, mask: str) -> str:
    """Return where the entry of that name is; it may itself be a link."""
    path = Path(workspace, mask)
    return str(Path(os.path.realpath(path.parent), path.name))


PACKAGE_CACHES = (
    ".bun/install/cache",
    ".cache/go-build",
    ".cache/pip",
    ".cache/pnpm",
    ".cache/uv",
    ".cache/yarn",
    ".cargo/git",
    ".cargo/registry",
    ".local/share/pnpm/store",
    ".m2/repository",
    ".npm",
    ".nuget/packages",
    ".yarn/berry/cache",
    "go/pkg/mod",
)
"""Folders of HOME where package managers keep what they fetched and built, each at its usual place."""
