"""What looks secret of all that a call would commit or send: kinds and names, never the secrets themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import re2

from foregate.agent import repository
from foregate.agent.repository import Repository
from foregate.agent.workspace import Workspace
from foregate.policy import rules
from foregate.policy.policy import Policy
from foregate.policy.protection import protection
from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError, WorkspaceError
from foregate.schemas.strict_json import Json
from foregate.schemas.survey import Command
from foregate.schemas.tool_call import ToolCall

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

    def of_command(self, command: Command, folder: str) -> list[str]:
        """Return what looks secret of all that a command could commit; nothing for one that does not commit.

        That is what is staged or changed, and what is untracked where the command also adds. What cannot be looked at
        is said, and counts.
        """
        if not self.runs_git(command, "commit"):
            return []
        try:
            found = repository.find(self._workspace, self._policy, folder)
            found.safe()
            leaks = self.of_staged(found)
            leaks += self.among(added(found.unstaged_text()), found.unstaged_paths(), "changed")
            if self.runs_git(command, "add") or self.runs_git(command, "stage"):
                names = found.untracked_paths()
                texts = [self.beginning(name) for name in names[: self._policy.files.max_entries]]
                leaks += self.among(b"\n".join(texts), names, "untracked")
            return leaks
        except WorkspaceError as error:
            return [f"what git would commit cannot be looked at: {error}"[:200]]

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
