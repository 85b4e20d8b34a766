"""The sandbox a server's process runs in, for as long as it lives, where its configuration asks for one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from foregate.agent.sandbox.starter import SandboxPlace
from foregate.agent.tools.mcp.server_configuration import ServerConfiguration
from foregate.agent.workspace.confinement import (
    find_tier,
    list_kept_files,
    list_secret_files,
    plan_sandbox,
    plan_writable,
)
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.globs import is_beneath
from foregate.schemas.errors import UsageError

CONFINED: Mapping[str, str] = {"TMPDIR": "/tmp", "npm_config_offline": "true", "UV_OFFLINE": "1"}  # noqa: S108
"""What a confined server sees beside its HOME: package runners would wait for a network that is not there."""
_HOME = "/run/foregate"
"""Where HOME lies where the workspace must not lie in it, as it would then be writable with it to Landlock."""
_PACKAGES = "node_modules"
_MANIFESTS = ("package.json", "pyproject.toml")


class ServerSandbox:
    """What one server is confined in: the workspace, read-only or to `work` in, the system, and the server's own files.

    What it hides and holds it does by covering the files there are when the server starts. Other than a view of the
    workspace that is laid over it, this shows what changes there; but a file that another replaces is then bare.
    """

    def __init__(self, server: ServerConfiguration, policy: Policy, workspace: Workspace) -> None:
        self._server, self._policy, self._workspace = server, policy, workspace
        self._covered: dict[str, tuple[int, int]] = {}

    def plan(self, program: str, environment: Mapping[str, str], private: str) -> SandboxPlace:
        """Return the sandbox to start the server in now, and its folder there; `private` is an empty folder.

        Raises UsageError where this machine has none: the server is then not to be started.
        """
        probe = find_tier(self._workspace, self._policy)
        if probe["tier"] != "full":
            why = f"it is to be confined (`confine: {self._server.confine}`), which this machine cannot"
            cure = f"{probe['cure']}, or " if probe["cure"] else ""
            raise UsageError(f"{why} ({probe['reason']}); {cure}let it run as you do with `confine: none`")
        cwd = self._server.cwd and str(Path(self._server.cwd).expanduser())
        words = [*self._server.args, *([program] if "/" in self._server.command else []), *([cwd] if cwd else [])]
        path = os.pathsep.join([environment.get("PATH", os.defpath), str(Path(program).parent)])
        more = tuple(list_folders(words, self._policy.files.secret))
        self._covered = self._find_covered()
        plan = plan_sandbox(self._workspace, self._policy, named=(), path=path, more=more)
        assert plan is not None
        if self._server.confine == "work":
            plan = plan_writable(plan, self._policy)
        else:
            seen = [*plan["folders"], str(self._workspace.root)]
            plan = {**plan, "workspace": private, "writable": True, "kept": [private], "home": _HOME, "folders": seen}
        return plan, cwd or plan["home"]

    @property
    def is_outdated(self) -> bool:
        """Whether a file that is to be hidden or held has come or was replaced since the server was started."""
        return self._find_covered() != self._covered

    def _find_covered(self) -> dict[str, tuple[int, int]]:
        root = self._workspace.root
        found = list_secret_files(self._workspace, self._policy)
        found += list_kept_files(root, self._policy) if self._server.confine == "work" else []
        marks = {}
        for path in found:
            with suppress(OSError):
                there = (root / path).stat()
                marks[path] = there.st_ino, 0 if stat.S_ISDIR(there.st_mode) else there.st_ctime_ns
        return marks


def list_folders(words: Sequence[str], secret: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders that words name, also behind a `=`; of a file, the folder it lies in with what it loads.

    A path that matches one of the `secret` patterns counts as no path.
    """
    for word in words:
        for text in (word, word.partition("=")[2]):
            if text.startswith("/") and not is_beneath(text.strip("/"), secret):
                path = Path(os.path.normpath(text))
                if path.is_dir():
                    yield str(path)
                elif path.is_file():
                    yield from map(str, find_project(path))


def find_project(file: Path) -> Iterator[Path]:
    """Yield the folder of a file, and where that is part of a project or of installed packages, theirs."""
    yield file.parent
    packages = [folder for folder in file.parents if folder.name == _PACKAGES][-1:]
    yield from packages or [f for f in file.parents if any((f / name).is_file() for name in _MANIFESTS)][:1]
