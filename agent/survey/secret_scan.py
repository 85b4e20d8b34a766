"""What looks secret of all that a call would commit or send: kinds and names, never the secrets themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import re2

from foregate.agent.tools.git import resolve_commit
from foregate.agent.workspace import git_repository
from foregate.agent.workspace.git_repository import GitRepository
from foregate.agent.workspace.secret_values import FileSecrets
from foregate.agent.workspace.workspace import Workspace
from foregate.policy.policy import Policy
from foregate.policy.risk.command_line import Segment, parse_command_line
from foregate.policy.risk.commands import get_program_name
from foregate.policy.risk.globs import find_protection
from foregate.policy.risk.reading import split_git
from foregate.policy.risk.running import can_run
from foregate.schemas import strict_json
from foregate.schemas.errors import PolicyError, WorkspaceError
from foregate.schemas.late_pattern import compile_late
from foregate.schemas.strict_json import Json
from foregate.schemas.tool_call import Command, ToolCall
from foregate.telemetry.log.masking import find_held_secrets

# "-C" in "git -C ../other log".
_OTHER = compile_late(r"(?<![\w-])(?:cd|pushd|chdir|-C|--chdir|--git-dir|--work-tree|GIT_DIR|GIT_WORK_TREE)(?![\w-])")
"""Words of a line that may have git work on another repository than that of the folder the line runs in."""
# "GIT_" in "GIT_DIR=../other git log".
_VARIABLE = compile_late(r"GIT_|CDPATH")
"""Variables that do so, and one that says where `cd` looks."""
_ELSEWHERE = "the command works in another folder; name it as `cwd`, and run git alone"
_HARMLESS = ("-p", "-P", "--paginate", "--no-pager", "--no-optional-locks", "--literal-pathspecs", "--no-advice")
"""Options of git itself that take no value and leave the repository where it is."""
_MOVES = ("core.worktree", "core.bare", "include")
"""Settings by which a command line has git work elsewhere."""
_NAMED = 8
"""Files named one by one; one is enough to ask."""


class SecretScan:
    """Looks into calls, staged content and working trees by the policy's patterns, by secret paths, and by the values
    that stand in secret files of the workspace."""

    def __init__(self, workspace: Workspace, policy: Policy) -> None:
        self._workspace, self._policy = workspace, policy
        self._patterns: list[tuple[str, Any]] | None = None
        self._values = FileSecrets(workspace.root, policy)

    def scan_call(self, call: ToolCall) -> list[str]:
        """Return what looks secret in the arguments of a call, as sent and as meant."""
        texts = (call.raw, collect_texts(call.arguments))
        return [f"the call {what}" for text in texts for what in self.find_secrets(text.encode())]

    def scan_staged(self, found: GitRepository) -> list[str]:
        """Return what looks secret of the staged content."""
        return self.scan_diff(found, "staged", "staged")

    def scan_push(self, folder: str, branch: Json) -> list[str]:
        """Return what looks secret of the commits of a branch that no remote is known to have."""
        try:
            found = git_repository.find_repository(self._workspace, self._policy, folder)
            found.check_safe()
            return self.scan_unsent(found, resolve_commit(found, f"refs/heads/{branch}"))
        except WorkspaceError as error:
            return [f"what git would push cannot be looked at: {error}"[:200]]

    def scan_unsent(self, found: GitRepository, *which: str) -> list[str]:
        """Return what looks secret of the commits `which` leads to and no remote is known to have."""
        return self.scan_diff(found, "unsent", "to be pushed", *which)

    def scan_command(self, command: Command, folder: str) -> list[str]:
        """Return what looks secret of all that a command could commit or push; nothing for one that does neither.

        For a commit that is what is staged or changed, and what is untracked where the command also adds; for a push
        every commit no remote is known to have. What cannot be looked at is said, and counts.
        """
        commits, pushes = (self.may_run_git(command, what) for what in ("commit", "push"))
        if not commits and not pushes:
            return []
        adds = self.may_run_git(command, "add") or self.may_run_git(command, "stage")
        try:
            found: dict[str, GitRepository] = {}
            for place in list_command_folders(command, folder):
                repository = git_repository.find_repository(self._workspace, self._policy, place)
                repository.check_safe()
                found[repository.id] = repository
            leaks: list[str] = []
            for one in found.values():
                leaks += self.scan_unsent(one, "--branches", "--tags", "HEAD") if pushes and one.read_head() else []
                leaks += self.scan_tree(one, adds=adds) if commits else []
            return leaks
        except WorkspaceError as error:
            return [f"what git would {'commit' if commits else 'push'} cannot be looked at: {error}"[:200]]

    def scan_tree(self, found: GitRepository, *, adds: bool) -> list[str]:
        """Return what looks secret of what is staged or changed, and of what is untracked where that `adds` it."""
        leaks = [*self.scan_staged(found), *self.scan_diff(found, "changed", "changed")]
        if adds:
            names = found.list_paths("untracked")
            look, read, most = self._workspace.look, self._workspace.read, self._policy.files.max_read
            files = [name for name in names[: self._policy.files.max_entries] if look(name).kind == "file"]
            leaks += self.scan_files(((name, read(name, limit=most)) for name in files), names, "untracked")
        return leaks

    def may_run_git(self, command: Command, what: str) -> bool:
        """Whether a command runs that command of git; one whose words cannot be told apart may."""
        try:
            return can_run(("git", what), command, self._policy)
        except PolicyError:
            return True

    def scan_diff(
        self, found: GitRepository, what: Literal["staged", "changed", "unsent"], state: str, *which: str
    ) -> list[str]:
        """Return what looks secret of the lines a diff of git's adds, and of its paths; see `scan_files`."""
        added = list_added_lines(found.read_diff(what, *which))
        texts = ((name and found.to_workspace_path(name), text) for name, text in added)
        return self.scan_files(texts, found.list_paths(what, *which), state)

    def scan_files(self, texts: Iterable[tuple[str, bytes]], paths: Sequence[str], state: str) -> list[str]:
        """Return what of texts, by the names of their files, and of paths looks secret; `state` is what became of them.

        Each secret is named once, with the first file that holds it. Only such a sentence begins with a file's name, or
        with `what is … in` and the name: that is what a person names, see `policy.risk.losses`.
        """
        found: dict[str, str] = {}
        for name, text in texts:
            for what in self.find_secrets(text):
                found.setdefault(what, f" in {quote_name(name)}" if name else "")
        names = [path for path in paths if find_protection(path, self._policy) == "secret"]
        held = [f"what is {state}{where} {what}" for what, where in found.items()]
        return held + [f"{quote_name(name)} is {state}" for name in names[:_NAMED]]

    def find_secrets(self, data: bytes) -> list[str]:
        """Return what makes `data` hold a secret, as the end of a sentence: a pattern's key, or a value's name."""
        if self._patterns is None:
            options = re2.Options()
            options.log_errors = False
            section = self._policy.sensitive
            named = [(f"patterns[{number}]", pattern) for number, pattern in enumerate(section.patterns)]
            named += [(f"formats.{name}", pattern) for name, pattern in section.formats.items()]
            self._patterns = [(name, re2.compile(pattern.encode(), options)) for name, pattern in named]
        matched = [f"matches sensitive.{name}" for name, pattern in self._patterns if pattern.search(data)]
        held = find_held_secrets(data, self._values.find())
        return matched + [f"holds the value of `{name}` in a secret file" for name in held[:_NAMED]]


def list_added_lines(diff: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the lines a diff of git's adds, by the name of their file, "" where git writes it in quotation marks."""
    name, head, added = "", True, list[bytes]()
    for line in diff.split(b"\n"):
        if line.startswith(b"diff --"):
            yield name, b"\n".join(added)
            name, head, added = "", True, []
        # Behind the head of a file such a line is one that was added: "++ b/...".
        elif head and line.startswith(b"+++ b/"):
            name = line[len(b"+++ b/") :].decode("utf-8", "replace").rstrip("\t")
        elif line.startswith(b"@@"):
            head = False
        elif line.startswith(b"+"):
            added.append(line[1:])
    yield name, b"\n".join(added)


def quote_name(name: str) -> str:
    """Return a file's name as a sentence shows it."""
    return f"`{strict_json.scrub(name)[:120]}`"


def list_command_folders(command: Command, folder: str) -> list[str]:
    """Return the folders git works in for a command run in `folder`: where its `-C` or a `cd` before it leads.

    Raises WorkspaceError where the words of the command leave open which repository it is.
    """
    words = command.argv
    if command.shell or not words or get_program_name(words[0]) != "git":
        if not _OTHER.search(command.shell or " ".join(words)):
            return [folder]
        line = parse_command_line(command.shell, "" if folder == "." else folder)
        if not command.shell or line.problem or line.functions or _VARIABLE.search(command.shell):
            raise WorkspaceError(_ELSEWHERE)
        places = [place for segment in line.segments for place in _list_git_folders(segment)]
        if not places:
            raise WorkspaceError(_ELSEWHERE)
        return places
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
    return [folder or "."]


def _list_git_folders(segment: Segment) -> Iterator[str]:
    """Yield the folder of a simple command that is git; raise WorkspaceError for one that may lead elsewhere."""
    if segment.variables or not segment.words or segment.words[0] is None:
        raise WorkspaceError(_ELSEWHERE)
    if get_program_name(segment.words[0]) == "git":
        folder, words = split_git(segment)
        if folder is None or words is None:
            raise WorkspaceError(_ELSEWHERE)
        yield folder or "."
    elif segment.words[0] not in ("cd", "pushd") and any(
        word is None or "git" in word or _OTHER.search(word) for word in segment.words
    ):
        raise WorkspaceError(_ELSEWHERE)


def collect_texts(value: Json) -> str:
    """Return all texts of a value, so that escapes in the JSON hide nothing."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return "\n".join(f"{key}\n{collect_texts(item)}" for key, item in value.items())
    return "\n".join(collect_texts(item) for item in value) if isinstance(value, list) else ""
