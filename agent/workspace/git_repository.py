"""Git repositories of the workspace: nothing that one says of itself is executed, or has git leave the workspace."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from foregate.agent.sandbox.plan import Plan
from foregate.agent.workspace.confinement import plan_sandbox
from foregate.agent.workspace.process import ProcessResult, build_environment, run_and_wait, run_program
from foregate.agent.workspace.workspace import Workspace, refuse_errors
from foregate.policy.policy import Policy
from foregate.schemas import strict_json
from foregate.schemas.errors import WorkspaceError

_ENTERED = ("refs", "logs", "info", "objects", "reftable")
"""Folders git follows links in on the way of a tool; those in `hooks` lead nowhere, since no hook is run."""
_STORES = 64
"""Object stores one repository may be made of."""
_LISTED = 65536
"""Bytes of one list of alternates that are read."""
_PLAIN_PATH = 4096


def find_git_folder(workspace: Workspace, here: str) -> str:
    """Return the git folder of the repository at `here`, "" for none; raise WorkspaceError where it leads outside."""
    inside = ".git" if here == "." else f"{here}/.git"
    kind = workspace.look(inside).kind
    if kind in ("", "directory"):
        return inside if kind else ""
    if kind != "file":
        raise WorkspaceError(f"`{inside[:80]}` is a link or something special; a repository needs its own git folder")
    text = _read_line(workspace, inside)
    if not text.startswith("gitdir: "):
        raise WorkspaceError(f"`{inside[:80]}` is no git folder and names none")
    return _resolve_path(workspace, here, text.removeprefix("gitdir: "), inside)


def find_common_folder(workspace: Workspace, git: str) -> str:
    """Return the folder of objects, branches and settings, often `git` itself; raise WorkspaceError for one outside."""
    named = f"{git}/commondir"
    if not workspace.look(named).kind:
        return git
    return _resolve_path(workspace, git, _read_line(workspace, named), named)


def _read_line(workspace: Workspace, path: str) -> str:
    return workspace.read(path, limit=_PLAIN_PATH).decode("utf-8", "replace").strip()


def _resolve_path(workspace: Workspace, beside: str, path: str, named: str) -> str:
    """Return the id of a path that the file `named` gives relative to `beside`."""
    try:
        return workspace.resolve(path if path.startswith("/") or beside == "." else f"{beside}/{path}")
    except WorkspaceError:
        raise WorkspaceError(
            f"`{named[:80]}` leads git outside the workspace; open the folder that holds both as the workspace"
        ) from None


def refuse_ways_out(workspace: Workspace, git: str) -> None:
    """Raise WorkspaceError when git would read or write outside the workspace by what its own folder says.

    That is by the folder it shares, by a link, or by an object store of another repository (`info/alternates`).
    No variable and no setting has git leave alternates out, so they are read here, at each call, as git reads them.
    """
    common = find_common_folder(workspace, git)
    for folder in dict.fromkeys((git, common)):
        _refuse_links(workspace, folder, _ENTERED)
    _refuse_foreign_objects(workspace, f"{common}/objects")


def _refuse_links(workspace: Workspace, folder: str, entered: Collection[str] | None = None) -> None:
    """Raise WorkspaceError when there is a link beneath a folder; of its own folders only `entered` are looked into."""
    pending = [folder]
    while pending:
        here = pending.pop()
        with (
            refuse_errors("list", here),
            suppress(FileNotFoundError, NotADirectoryError),
            workspace.directory(here) as fd,
            os.scandir(fd) as entries,
        ):
            for entry in entries:  # the kind comes with the name, so that thousands of objects cost no `stat` each
                path = f"{here}/{entry.name}"
                if entry.is_symlink():
                    shown = strict_json.scrub(path)[:80]
                    raise WorkspaceError(f"`{shown}` is a link in git's own folder; the git tools do not follow it")
                deeper = here != folder or entered is None or entry.name in entered
                if deeper and entry.is_dir(follow_symlinks=False):
                    pending.append(path)


def _refuse_foreign_objects(workspace: Workspace, store: str) -> None:
    """Raise WorkspaceError when an object store, or one it borrows from, borrows from one outside the workspace."""
    pending, seen = [store], {store}
    while pending:
        here = pending.pop()
        for other in _read_alternates(workspace, here):
            if other not in seen:
                seen.add(other)
                pending.append(other)
                _refuse_links(workspace, other)
        if len(seen) > _STORES:
            raise WorkspaceError(
                f"`{store[:80]}` borrows from more than {_STORES} stores; run `git repack -a -d` there"
            )


def _read_alternates(workspace: Workspace, store: str) -> list[str]:
    """Return the stores that one borrows from; raise WorkspaceError for a list that cannot be read or leads outside."""
    listed = f"{store}/info/alternates"
    found = workspace.look(listed)
    if not found.kind:
        return []
    if found.kind != "file" or found.size > _LISTED:
        raise WorkspaceError(f"`{listed[:80]}` is no plain list of object stores; remove it, and copy what it borrows")
    lines = workspace.read(listed, limit=_LISTED + 1).decode("utf-8", "surrogateescape").split("\n")
    return [_resolve_store(workspace, store, line, listed) for line in lines if line and not line.startswith("#")]


def _resolve_store(workspace: Workspace, beside: str, line: str, listed: str) -> str:
    """Return the store a line of the list means; one in quotes counts as outside, since git writes none."""
    with suppress(WorkspaceError, OSError, RuntimeError, ValueError):
        path = str(Path(line).resolve()) if line.startswith("/") else f"{beside}/{line}"
        if not line.startswith('"'):
            return workspace.resolve(path)
    raise WorkspaceError(
        f"`{listed[:80]}` has git read objects outside the workspace, in `{strict_json.scrub(line)[:120]}`; copy them "
        "with `git repack -a -d` and remove that file, or open the folder that holds both as the workspace"
    )


_SETTINGS = """
    core.fsmonitor=false core.hooksPath=/dev/null core.editor=true core.pager=cat core.sshCommand=false
    core.askPass=false core.untrackedCache=false core.quotePath=false credential.helper=
    diff.external= diff.ignoreSubmodules=dirty diff.submodule=short status.submoduleSummary=false
    submodule.recurse=false commit.gpgSign=false commit.verbose=false commit.template= tag.gpgSign=false
    gpg.program=false log.showSignature=false log.mailmap=false protocol.allow=never gc.auto=0
    maintenance.auto=false advice.detachedHead=false color.ui=false
"""
_VARIABLES = """
    GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_SYSTEM=/dev/null GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1
    GIT_TERMINAL_PROMPT=0 GIT_PAGER=cat GIT_EDITOR=true GIT_ASKPASS=false GIT_SSH_COMMAND=false
    GIT_ALLOW_PROTOCOL=none GIT_NO_LAZY_FETCH=1 GIT_NO_REPLACE_OBJECTS=1 GIT_LITERAL_PATHSPECS=1
    XDG_CONFIG_HOME=/dev/null HOME=/dev/null LC_ALL=C.UTF-8 TERM=dumb
"""
_ENVIRONMENT = dict(variable.split("=", 1) for variable in _VARIABLES.split())
_DRIVER = re.compile(
    r"(filter\..*\.(clean|smudge|process)|diff\..*\.(command|textconv)|merge\..*\.driver)\Z", re.DOTALL
)
_NAMES_A_FILE = re.compile(r"(core\.(excludesfile|attributesfile)|diff\.orderfile|mailmap\.file)\Z")


UNENTERED = "--ignore-submodules=dirty"
"""A nested repository is one entry with the commit it stands on, which is read from its files.

Anything less has git start itself in there, where the filters and monitors run that the nested settings name. `all`
would hide that its commit has moved, also where that is staged.
"""
_READING = ("diff", "log", "status")
"""Commands that read objects and files of the working tree; any other reads only the index and settings."""
_CHANGING = ("add", "commit")
_FORM = ("--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
_CHANGED = ("diff", *_FORM, UNENTERED)
_STAGED = (*_CHANGED, "--cached")
_NAMES = ("--name-only", "-z")
_RAW = ("--raw", "--no-abbrev", "-z")


class _Changes(NamedTuple):
    """What git lists: what an error calls it, the command, and what it takes for names, for a diff and at its end."""

    said: str
    words: tuple[str, ...]
    names: tuple[str, ...] = _NAMES
    diff: tuple[str, ...] = ()
    last: tuple[str, ...] = ()


_CHANGES = {
    "staged": _Changes("what is staged", _STAGED),
    "changed": _Changes("what has changed", _CHANGED),
    "unsent": _Changes(
        "what no remote has",
        ("log", "--format=", "--cc", *_FORM, "--no-notes"),
        ("--diff-filter=d", *_NAMES),
        ("--patch",),
        ("--not", "--remotes"),
    ),
    "untracked": _Changes("what is untracked", ("ls-files", "-z", "--others", "--exclude-standard"), ()),
}
"""By what is listed: what is staged, changed and not staged, in commits no remote is known to have, neither known to
git nor ignored."""


@dataclass(frozen=True, slots=True)
class GitRepository:
    """A repository whose working tree and git folder both lie in the workspace. Ids are relative to the workspace."""

    workspace: Workspace
    policy: Policy
    id: str
    git: str

    @property
    def environment(self) -> dict[str, str]:
        """What git sees: nothing of the user's or the system's settings, and where its folders are."""
        base = build_environment(self.policy, self.workspace, "/dev/null", trusted_only=True)
        return {
            "PATH": base["PATH"],
            **_ENVIRONMENT,
            "GIT_DIR": str(self.workspace.root / self.git),
            "GIT_WORK_TREE": str(self.workspace.root / self.id),
        }

    def run(self, *words: str, more: Mapping[str, str] | None = None, check: bool = True) -> ProcessResult:
        """Run a git command and wait; raise WorkspaceError with git's own words when it fails and `check` holds."""
        environment = {**self.environment, "GIT_OPTIONAL_LOCKS": "0", **(more or {})}
        size, timeout = self.policy.files.max_hash, self.policy.commands.timeout
        sandbox = None if "GIT_INDEX_FILE" in environment else self._plan_sandbox(words[0])  # that lies outside
        ran = run_and_wait(_build_argv(words), self.workspace, self.id, environment, timeout, size, False, sandbox)
        return _check_exit(ran, words[0]) if check else ran

    async def run_async(
        self,
        *words: str,
        more: Mapping[str, str] | None = None,
        cap: int = 0,
        settings: Sequence[str] = (),
        check: bool = True,
    ) -> ProcessResult:
        """Run a git command that may change the repository; its output is kept up to the policy's bound.

        `settings` come on top of the neutral ones. Raises WorkspaceError when it fails and `check` holds.
        """
        ran = await run_program(
            _build_argv(words, settings),
            self.workspace,
            cwd=self.id,
            environment={**self.environment, **(more or {})},
            timeout=self.policy.commands.timeout,
            cap=cap or self.policy.files.max_output,
            merged=False,
            sandbox=self._plan_sandbox(words[0]),
        )
        return _check_exit(ran, words[0]) if check else ran

    def _plan_sandbox(self, command: str) -> Plan | None:
        """Return the sandbox of a command that reads or changes the repository, where this machine has one."""
        plan = plan_sandbox(self.workspace, self.policy) if command in (*_READING, *_CHANGING) else None
        kept = [f"{self.workspace.root}/{self.git}/{name}" for name in ("config", "hooks")]
        return {**plan, "writable": True, "kept": kept} if plan is not None and command in _CHANGING else plan

    def check_safe(self) -> None:
        """Raise WorkspaceError when the repository would have git run programs, or read outside the workspace."""
        for origin, name, value in self._read_settings():
            if _DRIVER.match(name):
                raise WorkspaceError(
                    f"the repository's setting `{name[:80]}` names a program git would run; remove it to go on"
                )
            if self._is_outside(origin) or (_NAMES_A_FILE.match(name) and self._is_outside(value)):
                raise WorkspaceError(
                    f"the repository's setting `{name[:80]}` has git read outside the workspace; remove it to go on"
                )
        for name in self.find_nested():  # git reads from its folder which commit it stands on
            git = find_git_folder(self.workspace, self.to_workspace_path(name))
            if git:
                find_common_folder(self.workspace, git)

    def _read_settings(self) -> Iterator[tuple[str, str, str]]:
        """Yield the file, the name and the value of each setting of the repository, those it includes as well."""
        listed = self._read("its settings", "config", "--list", "--includes", "--show-origin", "-z")
        parts = listed.decode("utf-8", "replace").split("\0")
        for origin, setting in zip(parts[0::2], parts[1::2], strict=False):
            if origin.startswith("file:"):
                name, _, value = setting.partition("\n")
                yield origin.removeprefix("file:"), name, value

    def _is_outside(self, path: str) -> bool:
        """Whether a path in a setting leads outside the workspace. `~/` is nowhere, for git is given no home."""
        path = path.removeprefix(":(optional)")
        if path in ("", "/dev/null") or path.startswith("~/"):
            return False
        if path.startswith(("~", "%(")):
            return True
        try:
            self.workspace.resolve(path if path.startswith("/") else self.to_workspace_path(path))
        except WorkspaceError:
            return True
        return False

    def find_nested(self, *paths: str) -> list[str]:
        """Return the nested repositories the index has at or beneath `paths`; nothing but the index is read."""
        listed = self._read("what is tracked", "ls-files", "-z", "--stage", "--", *paths).split(b"\0")
        names = [os.fsdecode(entry.partition(b"\t")[2]) for entry in listed if entry.startswith(b"160000 ")]
        return list(dict.fromkeys(names))

    def find_nested_above(self, path: str) -> str:
        """Return the nested repository a path of this one lies in, "" for none."""
        parts = path.split("/")
        folders = ["/".join(parts[:end]) for end in range(1, len(parts))]
        return next((folder for folder in folders if self.is_nested(folder)), "")

    def is_nested(self, folder: str) -> bool:
        """Whether a folder of this repository is a repository of its own."""
        return folder != "." and bool(self.workspace.look(f"{self.to_workspace_path(folder)}/.git").kind)

    def read_head(self) -> str:
        """Return the commit HEAD stands on, "" where there is none yet."""
        ran = self.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}", check=False)
        return ran.out.text()[0].strip() if ran.code == 0 else ""

    def compute_state(self, kept: tuple[str, Path] | None = None) -> str:
        """Return the SHA-256 over the branch, the commit and what is staged, or what it is with those `kept`."""
        branch = self.workspace.read(f"{self.git}/HEAD", limit=4096)
        staged = self.read_staged(*kept) if kept else self._read("what is staged", *_STAGED, *_RAW)
        head = kept[0] if kept else self.read_head()
        return strict_json.sha256(b"\0".join([branch, head.encode(), staged]))

    def read_staged(self, head: str, index: Path) -> bytes:
        """Return what the index in the file `index` holds otherwise than the commit `head`, "" for none."""
        tree = head or self.run("hash-object", "-t", "tree", "/dev/null").out.text()[0].strip()
        ran = self.run(*_STAGED, *_RAW, tree, more={"GIT_INDEX_FILE": str(index)})
        return ran.read_whole("what was staged")

    def read_diff(self, what: Literal["staged", "changed", "unsent"], *which: str) -> bytes:
        """Return changes (`unsent`: of the commits `which`) as a diff without context; the repository must be safe."""
        changes = _CHANGES[what]
        return self._read(changes.said, *changes.words, "--unified=0", "--text", *changes.diff, *which, *changes.last)

    def list_paths(self, what: Literal["staged", "changed", "unsent", "untracked"], *which: str) -> list[str]:
        """Return the paths that are changed, by such commits added or changed, relative to the workspace."""
        changes = _CHANGES[what]
        names = self._read(changes.said, *changes.words, *changes.names, *which, *changes.last)
        return [self.to_workspace_path(name) for name in names.decode("utf-8", "replace").split("\0") if name]

    def _read(self, what: str, *words: str) -> bytes:
        return self.run(*words).read_whole(what)

    def to_workspace_path(self, name: str) -> str:
        """Return a path of the repository relative to the workspace."""
        return name if self.id == "." else f"{self.id}/{name}"

    def to_repository_path(self, path: str) -> str:
        """Return a path of the workspace relative to the repository; raise WorkspaceError for one outside it."""
        if self.id == "." or path == self.id:
            return "." if path == self.id else path
        if not path.startswith(f"{self.id}/"):
            raise WorkspaceError(f"`{path[:80]}` is not in the repository `{self.id[:80]}`; name a path in it")
        return path[len(self.id) + 1 :]

    def read_identity(self) -> dict[str, str]:
        """Return author and committer for the environment: the repository's own settings, else a neutral name."""
        found = {}
        for key, neutral in (("NAME", "Foregate"), ("EMAIL", "foregate@localhost")):
            ran = self.run("config", "--get", f"user.{key.lower()}", check=False)
            value = ran.out.text()[0].strip() if ran.code == 0 else ""
            found[key] = re.sub(r"[\x00-\x1f<>]", "", value)[:200] or neutral
        return {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in found.items()}


def _build_argv(words: Sequence[str], settings: Sequence[str] = ()) -> list[str]:
    """Return the argument vector of a git command with everything a repository could set to run programs set back."""
    neutral = [part for setting in (*_SETTINGS.split(), *settings) for part in ("-c", setting)]
    return ["git", "--no-pager", "--literal-pathspecs", *neutral, *words]


def _check_exit(ran: ProcessResult, what: str) -> ProcessResult:
    """Return `ran`; raise WorkspaceError with git's words when it failed or did not finish."""
    if ran.timed_out:
        raise WorkspaceError(f"git {what} did not finish in time")
    if ran.code != 0:
        said = (ran.err.text()[0] or ran.out.text()[0]).strip()
        raise WorkspaceError(f"git {what} failed: {said[:500] or f'exit code {ran.code}'}")
    return ran


def find_repository(workspace: Workspace, policy: Policy, path: str) -> GitRepository:
    """Return the repository a path of the workspace lies in; raise WorkspaceError when there is none in it."""
    here = workspace.resolve(path)
    if workspace.look(here).kind != "directory":
        here = here.rpartition("/")[0] or "."
    while True:
        if git := find_git_folder(workspace, here):
            return open_repository(workspace, policy, here, git)
        if here == ".":
            raise WorkspaceError(f"`{path[:80]}` is in no git repository of the workspace; run `git init` there first")
        here = here.rpartition("/")[0] or "."


def open_repository(workspace: Workspace, policy: Policy, root: str, git: str) -> GitRepository:
    """Return the repository; raise WorkspaceError where its git folder leads git outside the workspace."""
    refuse_ways_out(workspace, git)
    return GitRepository(workspace, policy, root, git)
