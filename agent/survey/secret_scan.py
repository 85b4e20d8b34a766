"""What looks secret of all that a call would commit or send: kinds and names, never the secrets themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import re2

from foregate.agent.tools.builtin.git import commit_of
from foregate.agent.workspace import git_repository
from foregate.agent.workspace.git_repository import Repository
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk import rules
from foregate.policy.risk.protection import protection
from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError, WorkspaceError
from foregate.schemas.strict_json import Json
from foregate.schemas.survey import Command
from foregate.schemas.tool_call import ToolCall

_OTHER = re.compile(r"(?<![\w-])(?:cd|pushd|chdir|-C|--chdir|--git-dir|--work-tree|GIT_DIR|GIT_WORK_TREE)(?![\w-])")
"""Words of a line that may have git work on another repository than that of the folder the line runs in."""
_HARMLESS = ("-p", "-P", "--paginate", "--no-pager", "--no-optional-locks", "--literal-pathspecs", "--no-advice")
"""Options of git itself that take no value and leave the repository where it is."""
_MOVES = ("core.worktree", "core.bare", "include")
"""Settings by which a command line has git work elsewhere."""
_NAMED = 8
"""Files named one by one; one is enough to ask."""


class Leaks:
    """Looks into calls, staged content and working trees by the policy's patterns and secret paths."""

    def __init__(self, workspace: Workspace, policy: Policy) -> None:
        self._workspace, self._policy = workspace, policy
        self._patterns: list[Any] | None = None

    def of_call(self, call: ToolCall) -> list[str]:
        """Return what looks secret in the arguments of a call, as sent and as meant."""
        texts = (call.raw, spoken(call.arguments))
        return [f"the call matches {name}" for text in texts for name in self.matching(text.encode())]

    def of_staged(self, found: Repository) -> list[str]:
        """Return what looks secret of the staged content."""
        return self.among(added(found.staged_text()), found.staged_paths(), "staged")

    def of_push(self, folder: str, branch: Json) -> list[str]:
        """Return what looks secret of the commits of a branch that no remote is known to have."""
        try:
            found = git_repository.find(self._workspace, self._policy, folder)
            found.safe()
            return self.of_unsent(found, commit_of(found, f"refs/heads/{branch}"))
        except WorkspaceError as error:
            return [f"what git would push cannot be looked at: {error}"[:200]]

    def of_unsent(self, found: Repository, *which: str) -> list[str]:
        """Return what looks secret of the commits `which` leads to and no remote is known to have."""
        return self.among(added(found.unsent_text(*which)), found.unsent_paths(*which), "to be pushed")

    def of_command(self, command: Command, folder: str) -> list[str]:
        """Return what looks secret of all that a command could commit or push; nothing for one that does neither.

        For a commit that is what is staged or changed, and what is untracked where the command also adds; for a push
        every commit no remote is known to have. What cannot be looked at is said, and counts.
        """
        commits, pushes = (self.runs_git(command, what) for what in ("commit", "push"))
        if not commits and not pushes:
            return []
        try:
            found = git_repository.find(self._workspace, self._policy, git_folder(command, folder))
            found.safe()
            leaks = self.of_unsent(found, "--branches", "--tags", "HEAD") if pushes and found.head() else []
            if not commits:
                return leaks
            leaks += self.of_staged(found)
            leaks += self.among(added(found.unstaged_text()), found.unstaged_paths(), "changed")
            if self.runs_git(command, "add") or self.runs_git(command, "stage"):
                names = found.untracked_paths()
                texts = [self.beginning(name) for name in names[: self._policy.files.max_entries]]
                leaks += self.among(b"\n".join(texts), names, "untracked")
            return leaks
        except WorkspaceError as error:
            return [f"what git would {'commit' if commits else 'push'} cannot be looked at: {error}"[:200]]

    def runs_git(self, command: Command, what: str) -> bool:
        """Whether a command runs that command of git; one whose words cannot be told apart may."""
        try:
            return rules.runs(("git", what), command, self._policy)
        except PolicyError:
            return True

    def beginning(self, path: str) -> bytes:
        """Return the first bytes of a file, as many as a read returns; of anything else nothing."""
        if self._workspace.look(path).kind != "file":
            return b""
        return self._workspace.read(path, limit=self._policy.files.max_read)

    def among(self, text: bytes, paths: Sequence[str], state: str) -> list[str]:
        """Return what of a text and of paths looks secret; `state` says what has become of them."""
        found = [f"what is {state} matches {name}" for name in self.matching(text)]
        names = [path for path in paths if protection(path, self._policy) == "secret"]
        return found + [f"`{strict_json.scrub(name)[:120]}` is {state}" for name in names[:_NAMED]]

    def matching(self, data: bytes) -> list[str]:
        """Return the names of the policy's sensitive patterns that occur in `data`."""
        if self._patterns is None:
            options = re2.Options()
            options.log_errors = False
            self._patterns = [re2.compile(pattern.encode(), options) for pattern in self._policy.sensitive.patterns]
        return [f"sensitive.patterns[{n}]" for n, pattern in enumerate(self._patterns) if pattern.search(data)]


def git_folder(command: Command, folder: str) -> str:
    """Return the folder git works in for a command run in `folder`: the one its `-C` names, where it runs git itself.

    Raises WorkspaceError where the words of the command leave open which repository it is.
    """
    words = command.argv
    if command.shell or not words or rules.bare(words[0]) != "git":
        if _OTHER.search(command.shell or " ".join(words)):
            raise WorkspaceError("the command works in another folder; name it as `cwd`, and run git alone")
        return folder
    rest = iter(words[1:])
    for word in rest:
        if word == "-C":
            there = next(rest, "")
            folder = there if there.startswith("/") or folder == "." else f"{folder}/{there}"
        elif word == "-c":
            if next(rest, "").lower().startswith(_MOVES):
                raise WorkspaceError("the command sets where its repository is; run git where that is")
        elif not word.startswith("-"):
            break
        elif word not in _HARMLESS:
            raise WorkspaceError(f"the option `{word[:40]}` may name another repository; run git where it is")
    return folder or "."


def added(diff: bytes) -> bytes:
    """Return the lines a diff adds."""
    return b"\n".join(line[1:] for line in diff.split(b"\n") if line.startswith(b"+"))


def spoken(value: Json) -> str:
    """Return all texts of a value, so that escapes in the JSON hide nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}\n{spoken(item)}" for key, item in value.items())
    return "\n".join(spoken(item) for item in value) if isinstance(value, list) else ""
